// Package winpath parses and formats absolute Windows paths on any system; package
// path/filepath supports them on Windows only.
//
// # Spellings of a path
//
// A [Path] is a volume and the names below it. The volume is a drive ("C:"), a
// share (`\\server\share`) or a volume name (`\\?\Volume{…}`). A path has three
// spellings:
//
//	Win32   C:\pods\a        \\server\share\a            \\?\Volume{…}\a
//	long    \\?\C:\pods\a    \\?\UNC\server\share\a      \\?\Volume{…}\a
//	NT      \??\C:\pods\a    \??\UNC\server\share\a      \??\Volume{…}\a
//
// [Parse] parses the first two, [FromNT] the third. Parse cleans a Win32 path as
// Windows does (forward slashes, doubled separators, "." and ".."). In a long path
// every character is literal.
//
// # Limits
//
// This package does not access the disk. A path that is [Path.Within] a directory by
// its text may lead anywhere through a link; internal/winfs checks that on open
// handles. Names are compared as NTFS compares them, by converting each character to
// upper case. Case-sensitive directories are not supported.
package winpath

import (
	"strings"
	"unicode/utf16"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Path is an absolute path. The zero Path is not a valid path.
type Path struct {
	Volume string   // "C:", `\\server\share` or `\\?\Volume{…}`
	Elems  []string // the names below the root of the volume
}

func invalid(format string, args ...any) error {
	return hosterr.Text(hosterr.ErrInvalid, format, args...)
}

// Parse parses an absolute Win32 or long path. A path that begins with a single
// separator is on drive C:; see [WithDrive]. Parse fails with hosterr.ErrInvalid for
// relative and drive-relative paths (`C:a`), for device paths (`\\.\…`,
// `\\?\GLOBALROOT\…`), for long paths that contain "." or "..", and for paths longer
// than 32,767 UTF-16 units, the limit of Windows.
func Parse(s string) (Path, error) {
	// A UTF-16 unit has one to three bytes in UTF-8, so only long texts must be counted.
	const longest = 32767
	if len(s) > longest && utf16Len(s) > longest {
		return Path{}, invalid("path of %d bytes exceeds the limit of Windows: %.100s…", len(s), s)
	}
	if rest, ok := strings.CutPrefix(s, `\\?\`); ok {
		return literal(s, rest)
	}
	w := strings.ReplaceAll(WithDrive(s), "/", `\`)
	var p Path
	switch {
	case strings.HasPrefix(w, `\\.\`), strings.HasPrefix(w, `\\?\`):
		return Path{}, invalid("device path: %s", s)
	case strings.HasPrefix(w, `\\`):
		server, name, below := CutShare(w[2:])
		if _, err := makeShare(server, name, s); err != nil {
			return Path{}, err
		}
		p.Volume, w = `\\`+server+`\`+name, below
	case isDrive(w) && len(w) > 2 && w[2] == '\\':
		p.Volume, w = upperDrive(w), w[3:]
	default:
		return Path{}, invalid("not an absolute Windows path: %s", s)
	}
	p.Elems = strings.Split(w, `\`)
	kept := p.Elems[:0]
	for _, e := range p.Elems {
		switch e {
		case "", ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, e)
		}
	}
	if p.Elems = kept[:len(kept):len(kept)]; len(kept) == 0 {
		p.Elems = nil
	}
	return p, nil
}

// FromNT parses an NT path, such as the substitute name of a link.
func FromNT(s string) (Path, error) {
	rest, ok := strings.CutPrefix(s, `\??\`)
	if !ok {
		return Path{}, invalid("not a path of a drive, volume or share: %s", s)
	}
	return literal(s, rest)
}

// literal parses the part after `\\?\` or `\??\`.
func literal(s, rest string) (Path, error) {
	var p Path
	volume, below, _ := strings.Cut(rest, `\`)
	switch {
	case isDrive(rest) && len(volume) == 2:
		p.Volume = upperDrive(rest)
	case isVolumeName(volume):
		p.Volume = `\\?\` + volume
	case strings.EqualFold(volume, "UNC"):
		server, name, names := CutShare(below)
		if !strings.HasPrefix(below, server+`\`+name) {
			name = "" // here a doubled separator is an empty name
		}
		if _, err := makeShare(server, name, s); err != nil {
			return Path{}, err
		}
		p.Volume, below = `\\`+server+`\`+name, names
	default:
		return Path{}, invalid("not a path of a drive, volume or share: %s", s)
	}
	below = strings.TrimSuffix(below, `\`)
	if below == "" {
		return p, nil
	}
	p.Elems = strings.Split(below, `\`)
	for _, e := range p.Elems {
		if e == "" || e == "." || e == ".." || strings.Contains(e, "/") {
			return Path{}, invalid("%q is not a valid name in a literal path: %s", e, s)
		}
	}
	return p, nil
}

// utf16Len returns the length of s in UTF-16 units.
func utf16Len(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

func isDrive(s string) bool {
	return len(s) >= 2 && s[1] == ':' && ('a' <= s[0] && s[0] <= 'z' || 'A' <= s[0] && s[0] <= 'Z')
}

func upperDrive(s string) string { return strings.ToUpper(s[:2]) }

// isVolumeName reports whether s is "Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}".
func isVolumeName(s string) bool {
	const form = "Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}"
	if len(s) != len(form) || !strings.EqualFold(s[:7], form[:7]) {
		return false
	}
	for i := 7; i < len(form); i++ {
		if form[i] != 'x' && s[i] != form[i] || form[i] == 'x' && !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])) {
			return false
		}
	}
	return true
}

// IsVolumeRoot reports whether s is a volume name in the form that Windows returns,
// `\\?\Volume{…}\` with the trailing backslash.
func IsVolumeRoot(s string) bool {
	name, ok := strings.CutPrefix(s, `\\?\`)
	name, slash := strings.CutSuffix(name, `\`)
	return ok && slash && isVolumeName(name)
}

// IsUNC reports whether p is on a share.
func (p Path) IsUNC() bool {
	return strings.HasPrefix(p.Volume, `\\`) && !strings.HasPrefix(p.Volume, `\\?\`)
}

// IsRoot reports whether p is the root of its volume.
func (p Path) IsRoot() bool { return len(p.Elems) == 0 }

// Root returns the root of p's volume.
func (p Path) Root() Path { return Path{Volume: p.Volume} }

// Dir returns the parent directory of p. The parent of a root is the root.
func (p Path) Dir() Path {
	if p.IsRoot() {
		return p
	}
	return Path{Volume: p.Volume, Elems: p.Elems[: len(p.Elems)-1 : len(p.Elems)-1]}
}

// Base returns the last name of p, or "" for a root.
func (p Path) Base() string {
	if p.IsRoot() {
		return ""
	}
	return p.Elems[len(p.Elems)-1]
}

// Join returns p with the names appended. The names are literal.
func (p Path) Join(names ...string) Path {
	return Path{Volume: p.Volume, Elems: append(p.Elems[:len(p.Elems):len(p.Elems)], names...)}
}

// String returns the Win32 spelling. Only a root ends in a backslash.
func (p Path) String() string { return p.Volume + `\` + strings.Join(p.Elems, `\`) }

// Long returns the long spelling, which Win32 functions accept literally and at any
// length.
func (p Path) Long() string {
	if strings.HasPrefix(p.Volume, `\\?\`) {
		return p.String()
	}
	return `\\?\` + p.NT()[len(`\??\`):]
}

// NT returns the spelling for NtCreateFile and for the substitute name of a link.
func (p Path) NT() string {
	volume := p.Volume
	switch {
	case p.IsUNC():
		volume = `UNC\` + volume[2:]
	case strings.HasPrefix(volume, `\\?\`):
		volume = volume[4:]
	}
	return `\??\` + volume + `\` + strings.Join(p.Elems, `\`)
}

// Key returns the volume and the names of p, case folded, for comparisons and as the
// key of a lock.
func (p Path) Key() []string {
	key := make([]string, 0, 1+len(p.Elems))
	key = append(key, Fold(p.Volume))
	for _, e := range p.Elems {
		key = append(key, Fold(e))
	}
	return key
}

// Equal reports whether p and q are the same path.
func (p Path) Equal(q Path) bool { return len(p.Elems) == len(q.Elems) && p.Within(q) }

// Within reports whether p is root or below it. It compares whole names:
// `C:\kubelet-evil` is not within `C:\kubelet`.
func (p Path) Within(root Path) bool {
	if len(p.Elems) < len(root.Elems) || !SameName(p.Volume, root.Volume) {
		return false
	}
	for i, e := range root.Elems {
		if !SameName(e, p.Elems[i]) {
			return false
		}
	}
	return true
}

// isChild reports whether p is the directory name in dir or, with below, is in it.
func (p Path) isChild(dir Path, name string, below bool) bool {
	n := len(dir.Elems)
	return len(p.Elems) > n && (below || len(p.Elems) == n+1) && SameName(p.Elems[n], name) && p.Within(dir)
}

// The kubelet's directories below a working directory that requests through pipes may not
// use: the one with its keys, and the one of all pods, which may be used and not removed.
const (
	keysDir = "pki"
	podsDir = "pods"
)

// KubeletKeys reports whether p is the directory of the kubelet's keys, or in it, for the
// kubelet's directory dir.
func (p Path) KubeletKeys(dir Path) bool { return p.isChild(dir, keysDir, true) }

// KubeletPods reports whether p is the directory of all pods, for the kubelet's directory
// dir.
func (p Path) KubeletPods(dir Path) bool { return p.isChild(dir, podsDir, false) }
