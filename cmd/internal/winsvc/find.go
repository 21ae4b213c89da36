package winsvc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Name is the name under which csi-proxy install makes the service. Installers of others use
// it, too, or "csi-proxy" and "csi-proxy-server".
const Name = "csiproxy"

// Installed is a service that runs csi-proxy.
type Installed struct {
	Name    string
	Program string   // csi-proxy.exe
	Args    []string // of that
	Manager string   // the program of the service, if that starts csi-proxy, such as nssm.exe

	Automatic bool // Windows starts it with itself
	Stays     bool // it stays ended after a failure
}

func (i Installed) String() string { return fmt.Sprintf("%s (%s)", i.Name, i.Program) }

// programName matches the file names under which csi-proxy is installed.
var programName = regexp.MustCompile(`(?i)^csi-?proxy(-server|[-_.]?v?\d.*)?\.exe$`)

// isProgram reports whether a path is that of csi-proxy, by its name.
func isProgram(path string) bool {
	return programName.MatchString(path[strings.LastIndexAny(path, `\/:`)+1:])
}

// inQuotes returns the command line of a service with quotes around a program whose path has blanks:
// Windows starts it without them, too, if nothing else is there under a beginning of the path.
func inQuotes(command string) string {
	if strings.HasPrefix(command, `"`) {
		return command
	}
	for end := range len(command) + 1 {
		if end < len(command) && command[end] != ' ' || !strings.HasSuffix(strings.ToLower(command[:end]), ".exe") {
			continue
		}
		return `"` + command[:end] + `"` + command[end:]
	}
	return command
}

// Asked reports whether the arguments of csi-proxy make it a service, also if they are wrong
// otherwise.
func Asked(args []string) bool {
	is := false
	for _, a := range args {
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		if name == "windows-service" && name != a {
			on, err := strconv.ParseBool(value) // as package flag
			is = !given || err == nil && on
		}
	}
	return is
}
