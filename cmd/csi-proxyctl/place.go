package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// place is a file or directory of the installed service, with its security descriptor.
type place struct{ path, sddl string }

// examinePlaces finds files and directories of the service that others than administrators
// may change: who can replace the program is LocalSystem, who can write the configuration decides what
// drivers may do, and who can write to the log's
// directory can hide what happened or fill the disk.
func examinePlaces(places []place) []finding {
	const check = "install"
	var found []finding
	for _, p := range places {
		if who := writers(p.sddl); len(who) > 0 {
			found = append(found, finding{resultProblem, check, fmt.Sprintf("%s may be changed by %s", p.path, strings.Join(who, ", ")),
				fmt.Sprintf(`icacls "%s" /inheritance:r /grant:r *S-1-5-18:(OI)(CI)F *S-1-5-32-544:(OI)(CI)F for a directory; without (OI)(CI) for a file`, p.path)})
		}
		if m := owner.FindStringSubmatch(p.sddl); m != nil && !slices.Contains(trusted, m[1]) {
			found = append(found, finding{resultProblem, check, fmt.Sprintf("%s is owned by %s, who may change its rights", p.path, m[1]),
				fmt.Sprintf(`icacls "%s" /setowner *S-1-5-32-544`, p.path)})
		}
	}
	if found == nil && len(places) > 0 {
		return []finding{{resultOK, check, fmt.Sprintf("only administrators may change the program, its configuration and its log (%d files and directories)", len(places)), ""}}
	}
	return found
}

// owner matches the owner in a security descriptor.
var owner = regexp.MustCompile(`^O:(S-[-0-9]+|[A-Z]{2})`)

// ace matches an entry that allows: flags, rights and account.
var ace = regexp.MustCompile(`\(A;([A-Z]*);([^;()]*);[^;()]*;[^;()]*;([^;()]+)\)`)

// trustedInstaller is the service that owns the files of Windows.
const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// trusted are the accounts that may change everything anyway.
var trusted = []string{"SY", "BA", "LA", "DA", "S-1-5-18", "S-1-5-32-544", trustedInstaller}

// writers returns the accounts, other than LocalSystem and administrators, to which a
// security descriptor grants more than reading: writing, adding, deleting, or changing
// rights or the owner.
func writers(sddl string) []string {
	_, acl, ok := strings.Cut(sddl, "D:")
	if !ok || strings.HasPrefix(acl, "NO_ACCESS_CONTROL") {
		return []string{"everyone"} // no list allows everything
	}
	acl, _, _ = strings.Cut(acl, "S:")
	names := map[string]string{"WD": "everyone", "AU": "authenticated users", "BU": "users", "IU": "interactive users", "CO": "its creator"}
	var who []string
	for _, entry := range ace.FindAllStringSubmatch(acl, -1) {
		flags, rights, account := entry[1], entry[2], entry[3]
		if inheritOnly(flags) || slices.Contains(trusted, account) || mask(rights)&changing == 0 {
			continue
		}
		if name := names[account]; name != "" {
			account = name
		}
		if !slices.Contains(who, account) {
			who = append(who, account)
		}
	}
	return who
}

// inheritOnly reports whether an entry is only for what is made in the directory. Flags have
// two letters each.
func inheritOnly(flags string) bool {
	for i := 0; i+1 < len(flags); i += 2 {
		if flags[i:i+2] == "IO" {
			return true
		}
	}
	return false
}

// changing are the bits of writing, appending, deleting (also of entries), changing rights
// and the owner, and their generic forms.
const changing = 0x2 | 0x4 | 0x40 | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000

// mask returns the bits of rights in SDDL. Unknown letters count as all of them.
func mask(rights string) uint32 {
	if n, err := strconv.ParseUint(rights, 0, 32); err == nil {
		return uint32(n)
	}
	letters := map[string]uint32{
		"GA": 0x10000000, "GX": 0x20000000, "GW": 0x40000000, "GR": 0x80000000,
		"RC": 0x20000, "SD": 0x10000, "WD": 0x40000, "WO": 0x80000,
		"FA": 0x1f01ff, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200a0,
		"CC": 0x1, "DC": 0x2, "LC": 0x4, "SW": 0x8, "RP": 0x10, "WP": 0x20, "DT": 0x40, "LO": 0x80, "CR": 0x100,
	}
	var m uint32
	for i := 0; i < len(rights); i += 2 {
		bits, ok := letters[rights[i:min(i+2, len(rights))]]
		if !ok {
			return ^uint32(0)
		}
		m |= bits
	}
	return m
}

// filePlaces returns the configuration file, and the file and the directory of the log, in
// the arguments of the service.
func filePlaces(args []string) (all []string) {
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		if value != "" && strings.HasPrefix(arg, "-") && (name == "log_file" || name == "log_dir" || name == "config") {
			all = append(all, value)
		}
	}
	return all
}
