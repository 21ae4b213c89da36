package sddl

import (
	"cmp"
	"regexp"
	"slices"
)

// Rights to a file or directory. The values are those of Windows.
const (
	// Changes are writing, appending, deleting (also of entries), changing the access or the
	// owner, and their generic forms.
	Changes = 0x2 | 0x4 | 0x40 | 0x10000 | 0x40000 | 0x80000 | 0x10000000 | 0x40000000

	// Replaces are the rights to a directory with which something else can be put in its place or
	// that of what is below it, or that give such a right: deleting entries, deleting it (which
	// is also renaming it), changing the access or the owner, and all rights.
	Replaces = 0x40 | 0x10000 | 0x40000 | 0x80000 | 0x10000000

	// ReplacesInRoot are the same for the root of a volume, which can be neither deleted nor
	// renamed. Client Windows lets authenticated users "modify" the roots that it formats.
	ReplacesInRoot = Replaces &^ 0x10000
)

// TrustedInstaller is the service that owns the files of Windows.
const TrustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// administrator matches the SID of the built-in administrator of a machine or domain.
var administrator = regexp.MustCompile(`^S-1-5-21-[0-9]+-[0-9]+-[0-9]+-500$`)

// mayAnything reports whether an account may change everything on a node anyway. Rights of the
// owner (OW) are such rights if the owner is such an account, which [Owner] judges.
func mayAnything(account string) bool {
	return slices.Contains([]string{
		"SY", "BA", "LA", "DA", "EA", "OW", "S-1-5-18", "S-1-5-32-544", "S-1-3-4", TrustedInstaller,
		"S-1-5-21-0-0-0-1000", // the only user of Wine; no machine with Windows has the identifier 0-0-0
	}, account) || administrator.MatchString(account)
}

// owner matches the owner in a security descriptor.
var owner = regexp.MustCompile(`^O:(S-[-0-9]+|[A-Z]{2})`)

// Owner returns the owner in a security descriptor if it is not LocalSystem, an administrator
// or TrustedInstaller. The owner may change the access. It is "" if the text has none.
func Owner(text string) string {
	if m := owner.FindStringSubmatch(text); m != nil && !mayAnything(m[1]) {
		return name(m[1])
	}
	return ""
}

// Others returns the accounts, other than LocalSystem, administrators and TrustedInstaller, to
// which a security descriptor gives one of the rights.
func Others(text string, rights uint32) []string {
	entries, ok := Allowed(text)
	if !ok {
		return []string{name("WD")} // no list allows everything
	}
	var who []string
	for _, e := range entries {
		if account := name(e.Account); !mayAnything(e.Account) && e.Mask&rights != 0 && !slices.Contains(who, account) {
			who = append(who, account)
		}
	}
	return who
}

// name returns a name that an administrator knows.
func name(account string) string {
	names := map[string]string{"WD": "everyone", "AU": "authenticated users", "BU": "users", "IU": "interactive users", "CO": "its creator"}
	return cmp.Or(names[account], account)
}
