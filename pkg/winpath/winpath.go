// Package winpath has the functions of path/filepath for Windows paths, on any system.
//
// On Linux, path/filepath does not know drives and backslashes, so a driver that uses it
// for the paths of a Windows node cannot be tested there. With this package it can, and on
// Windows the results are those of path/filepath; a test compares them.
//
// Names are text here: no function looks at a file system. The functions do not refuse
// invalid names; CSI Proxy does, when it gets the path.
//
// Two differences from path/filepath are intended. The volume of a long path of a share,
// `\\?\UNC\server\share`, includes the share, so that Dir cannot leave it. Join puts a
// separator after `\\?\C:`. Paths that mean nothing, such as `\\` or `C:\a\D:`, may also give other results.
package winpath

import (
	"path"
	"strings"
)

// Separator separates the names of a path. All functions accept a slash as well.
const Separator = `\`

// FromSlash replaces slashes with backslashes.
func FromSlash(p string) string { return strings.ReplaceAll(p, "/", Separator) }

// ToSlash replaces backslashes with slashes.
func ToSlash(p string) string { return strings.ReplaceAll(p, Separator, "/") }

// IsAbs reports whether p has a volume and begins at its root. `C:a` and `\a` are not
// absolute; both depend on the current drive or directory.
func IsAbs(p string) bool {
	volume := VolumeName(p)
	return len(volume) > 2 || volume != "" && len(p) > 2 && isSeparator(p[2])
}

// VolumeName returns the volume at the beginning of p, with backslashes: "C:",
// `\\server\share`, `\\?\C:`, `\\?\Volume{…}`, or "" if there is none.
func VolumeName(p string) string { return FromSlash(p[:volumeLength(p)]) }

func volumeLength(p string) int {
	if len(p) >= 2 && p[1] == ':' && ('a' <= p[0] && p[0] <= 'z' || 'A' <= p[0] && p[0] <= 'Z') {
		return 2
	}
	if len(p) < 2 || !isSeparator(p[0]) || !isSeparator(p[1]) {
		return 0
	}
	if len(p) >= 4 && (p[2] == '?' || p[2] == '.') && isSeparator(p[3]) {
		end := afterNames(p, 4, 1)
		if strings.EqualFold(p[4:end], "UNC") {
			end = afterNames(p, 4, 3)
		}
		return end
	}
	return afterNames(p, 2, 2)
}

// afterNames returns where the given number of names ends that begin at from.
func afterNames(p string, from, names int) int {
	for i := from; i < len(p); i++ {
		if isSeparator(p[i]) {
			if names--; names == 0 {
				return i
			}
		}
	}
	return len(p)
}

func isSeparator(c byte) bool { return c == '\\' || c == '/' }

// Clean returns the shortest equal path: with backslashes, without doubled separators and
// ".", and without the names that ".." removes. The root has no parent. An empty path
// becomes ".".
func Clean(p string) string {
	volume := VolumeName(p)
	rest := ToSlash(p[len(volume):])
	if rest == "" && len(volume) > 2 {
		return FromSlash(volume)
	}
	rest = path.Clean(rest)
	if first, _, _ := strings.Cut(rest, "/"); volume == "" && strings.Contains(first, ":") && VolumeName(ToSlash(p)) == "" {
		rest = "./" + rest // a\..\c: is not the drive c:
	}
	return FromSlash(volume + rest)
}

// Join joins names with backslashes and cleans the result. Empty names are left out, and
// without any other, Join returns "". A drive stays as it is: Join("C:", "a") is `C:a`, and
// Join(`C:\`, "a") is `C:\a`.
func Join(names ...string) string {
	var joined string
	for _, name := range names {
		switch {
		case name == "":
		case joined == "":
			joined = name
		case isSeparator(joined[len(joined)-1]):
			joined += strings.TrimLeft(name, `\/`)
		case len(joined) == 2 && VolumeName(joined) == joined:
			joined += name
		default:
			joined += Separator + name
		}
	}
	if joined == "" {
		return ""
	}
	return Clean(joined)
}

// Dir returns p without its last name, cleaned. The parent of a root is the root.
func Dir(p string) string {
	volume := VolumeName(p)
	end := len(p)
	for end > len(volume) && !isSeparator(p[end-1]) {
		end--
	}
	return Clean(p[:end])
}

// Base returns the last name of p, "." for an empty path, and `\` for a root.
func Base(p string) string {
	if p == "" {
		return "."
	}
	p = strings.TrimRight(p[len(VolumeName(p)):], `\/`)
	if i := strings.LastIndexAny(p, `\/`); i >= 0 {
		p = p[i+1:]
	}
	if p == "" {
		return Separator
	}
	return p
}
