package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/winsvc"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/sddl"
)

// place is a file or directory of the installed service, or a directory above one, with its
// security descriptor.
type place struct {
	path, sddl string
	dir        bool
	above      bool // above the directories of the service, which have only part of what is there
}

// examinePlaces finds files and directories of the service that accounts other than administrators
// may change, or put others in their place. An account that can replace the program is LocalSystem;
// one that can write the configuration decides what drivers may do; and one that can write to the
// log's directory can hide what happened or fill the disk.
func examinePlaces(places []place) []finding {
	const check = "install"
	var found []finding
	for _, p := range places {
		rights, may := uint32(sddl.Changes), "changed"
		if p.above {
			if rights, may = sddl.Replaces, "replaced, with what is in it,"; strings.HasSuffix(p.path, `\`) {
				rights = sddl.ReplacesInRoot // only the path of a root ends so
			}
		}
		if who := sddl.Others(p.sddl, rights); len(who) > 0 {
			remedy := "move what csi-proxy has there to a directory of its own below $env:ProgramFiles, or take that right; this shows it: icacls " + quoted(p.path)
			if !p.above {
				inherit := ""
				if p.dir {
					inherit = "(OI)(CI)"
				}
				remedy = fmt.Sprintf(`icacls %s /inheritance:r /grant:r "*S-1-5-18:%[2]sF" "*S-1-5-32-544:%[2]sF"`, quoted(p.path), inherit)
			}
			found = append(found, finding{resultProblem, check, fmt.Sprintf("%s may be %s by %s", p.path, may, strings.Join(who, ", ")), remedy})
		}
		if owner := sddl.Owner(p.sddl); owner != "" {
			found = append(found, finding{resultProblem, check, fmt.Sprintf("%s is owned by %s, who may change its rights", p.path, owner),
				fmt.Sprintf(`icacls %s /setowner *S-1-5-32-544`, quoted(p.path))})
		}
	}
	if found == nil && len(places) > 0 {
		own := len(slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p.above }))
		return []finding{{resultOK, check, fmt.Sprintf("only administrators may change the program, its configuration and its log (%d files and directories)", own), ""}}
	}
	return found
}

// examineStart finds a service that Windows does not start.
func examineStart(s winsvc.Installed) []finding {
	const check = "install"
	found := []finding{}
	if !s.Automatic {
		found = append(found, finding{resultProblem, check, "the service " + s.Name + " does not start with Windows", "sc.exe config " + s.Name + " start= auto"})
	}
	if s.Stays {
		found = append(found, finding{resultProblem, check, "the service " + s.Name + " is not started again after a failure",
			"sc.exe failure " + s.Name + " reset= 0 actions= restart/10000; sc.exe failureflag " + s.Name + " 1"})
	}
	return found
}

// muchLog is the total size of log files, in bytes, from which they are reported.
const muchLog = 1 << 30

// recentCrash is the age of a crash up to which it is reported.
const recentCrash = 24 * time.Hour

// crashFile matches the files that have the crash of a process (cmd/internal/logs).
var crashFile = regexp.MustCompile(`(?i)-crash(-\d{8}T\d{6}\.\d{3})?\.log$`)

// examineLogs finds logs whose newest files are large in total, and crashes.
func examineLogs(paths []string) []finding {
	var found []finding
	for _, path := range paths {
		files, err := logsAt(path)
		if err != nil {
			found = append(found, finding{resultProblem, "install", "the log cannot be read: " + err.Error(), "correct the flag -log_file or -log_dir of csi-proxy, or the rights of the directory"})
			continue
		}
		total, crashed := uint64(0), false
		for _, file := range files { // the newest first
			info, err := os.Stat(file)
			if err != nil {
				continue
			}
			total += uint64(info.Size())
			if age := time.Since(info.ModTime()); !crashed && info.Size() > 0 && age < recentCrash && crashFile.MatchString(file) {
				crashed = true
				found = append(found, finding{resultNote, "install", fmt.Sprintf("csi-proxy crashed %v ago", age.Round(time.Minute)), file + " has the panic: send it with a report, which csi-proxyctl bundle collects"})
			}
		}
		if total >= muchLog {
			found = append(found, finding{resultNote, "install", fmt.Sprintf("the log files at %s have %s", path, bytesText(total)), "lower -log_file_max_size or -log-file-backups of csi-proxy, or -v"})
		}
	}
	return found
}

// oldestBuild is the build of Windows Server 2019, the oldest that is supported.
const oldestBuild = 17763

// examineBuild checks the version of Windows.
func examineBuild(major, minor, build uint32) []finding {
	text := fmt.Sprintf("Windows %d.%d.%d", major, minor, build)
	if build < oldestBuild {
		return []finding{{resultProblem, "windows", text + " is older than Windows Server 2019, the oldest that csi-proxy supports", "upgrade Windows, or move its pods to another node: kubectl drain"}}
	}
	return []finding{{resultOK, "windows", text, ""}}
}

// filePlaces returns the configuration file, and the file and the directory of the log, in
// the arguments of the service.
func filePlaces(args []string) []string { return arguments(args, "log_file", "log_dir", "config") }

// arguments returns the values of flags in arguments.
func arguments(args []string, flags ...string) (all []string) {
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		if value != "" && strings.HasPrefix(arg, "-") && slices.Contains(flags, name) {
			all = append(all, value)
		}
	}
	return all
}
