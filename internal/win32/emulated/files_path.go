package emulated

import (
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// maxPath is how many UTF-16 units a UNICODE_STRING holds: its length is counted
// in bytes and in 16 bits (ntdef.h).
const maxPath = 32767

// ntName is the NT name that Windows' Win32 layer makes of a path, as
// RtlDosPathNameToNtPathName does (Microsoft: "Naming Files, Paths, and
// Namespaces"; "File path formats on Windows systems"):
//
//   - `\\?\…` is taken literally: nothing is normalised;
//   - `\\.\…`, `\\server\share\…` and `C:\…` are normalised: "/" is "\", empty
//     parts and "." go, ".." takes the part before it, a single dot at the end of
//     a part goes, and all dots and blanks at the end of the path. There is no
//     limit of 260 characters, since csi-proxy.exe's manifest says longPathAware.
//
// A name that Win32 reserves for a device (CON, NUL, COM1 …) is a device wherever
// it stands at the end of a normalised path, and device is true.
//
// A path that is not absolute would be taken relative to the current directory
// of the process. The emulated node has none, so that such a path is never
// mistaken for one that merely does not exist: it is ERROR_BAD_PATHNAME.
func ntName(path string) (name string, device bool, err error) {
	if path == "" {
		return "", false, win32.ERROR_PATH_NOT_FOUND // what GetFileAttributesW answers to ""
	}
	if strings.ContainsRune(path, 0) {
		return "", false, win32.ERROR_INVALID_NAME // ends the string in C; the native side refuses it too
	}
	if units(path) > maxPath {
		return "", false, win32.ERROR_FILENAME_EXCED_RANGE
	}
	if rest, ok := strings.CutPrefix(path, `\\?\`); ok {
		return `\??\` + rest, false, nil
	}
	p := strings.ReplaceAll(path, "/", `\`)
	root, rest, fixed := "", "", 0 // fixed: how many parts ".." cannot take
	switch {
	case strings.HasPrefix(p, `\\.\`) || strings.HasPrefix(p, `\\?\`):
		root, rest, fixed = `\??\`, p[4:], 1
	case strings.HasPrefix(p, `\\`):
		root, rest, fixed = `\??\UNC\`, p[2:], 2
	case len(p) >= 3 && isLetter(p[0]) && p[1:3] == `:\`:
		root, rest = `\??\`+p[:2]+`\`, p[3:]
	default:
		return "", false, win32.ERROR_BAD_PATHNAME
	}
	end := "" // the path's last backslash
	if strings.HasSuffix(p, `\`) {
		end = `\`
	} else {
		rest = strings.TrimRight(rest, ". ") + dots(rest)
	}
	var parts []string
	for _, part := range strings.Split(rest, `\`) {
		switch part {
		case "", ".":
		case "..":
			parts = parts[:max(len(parts)-1, min(len(parts), fixed))]
		default:
			if strings.HasSuffix(part, ".") && !strings.HasSuffix(part, "..") {
				part = part[:len(part)-1]
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return root, false, nil
	}
	if last := parts[len(parts)-1]; fixed == 0 && isDeviceName(last) {
		return `\??\` + last, true, nil
	}
	return root + strings.Join(parts, `\`) + end, false, nil
}

// dots is the last part of rest if that is "." or "..", which are not dots at
// the end of a name.
func dots(rest string) string {
	last := rest[strings.LastIndex(rest, `\`)+1:]
	if last == "." || last == ".." {
		return last
	}
	return ""
}

// units counts the UTF-16 units of s.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isDeviceName tells whether Win32 reserves name, an extension left aside, for
// a device (RtlIsDosDeviceName_U; Microsoft: "Naming Files, Paths, and
// Namespaces"). From Windows 11 on fewer of these are reserved; this is Windows
// Server 2019.
func isDeviceName(name string) bool {
	if i := strings.IndexAny(name, ".:"); i >= 0 {
		name = name[:i]
	}
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	switch port {
	case "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return ok
	}
	return false
}
