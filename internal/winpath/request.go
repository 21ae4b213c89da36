package winpath

import (
	"fmt"
	"strings"
)

// MaxLength is the published maximum length of a path in a request, in bytes.
const MaxLength = 260

// Validate parses a path from a request. Forward slashes are separators, and a path
// without a drive is on drive C: ([WithDrive]). Validate applies the published rules, in
// the published order and with the published error texts, and then [CheckName] to each
// name. All its errors are of kind hosterr.ErrInvalid.
func Validate(s string) (Path, error) {
	w, err := check(s)
	if err != nil {
		return Path{}, err
	}
	return Parse(w) // doubled and trailing separators are ignored
}

// Check returns the error of [Validate].
func Check(s string) error {
	_, err := check(s)
	return err
}

// check applies the rules of Validate. It returns s with a drive and with backslashes.
func check(s string) (string, error) {
	w := strings.ReplaceAll(WithDrive(s), "/", `\`)
	if len(w) > MaxLength {
		return "", invalid("path length %d exceeds maximum characters: %d", len(w), MaxLength)
	}
	if strings.HasPrefix(w, `\`) {
		return "", invalid(`invalid character \ at beginning of path: %s`, s)
	}
	rest, absolute := w, isDrive(w) && len(w) > 2 && w[2] == '\\'
	if absolute {
		rest = w[3:]
	}
	if strings.ContainsAny(rest, `":?*|`) || strings.Contains(rest, "..") {
		return "", invalid("path contains invalid characters: %s", s)
	}
	if !absolute {
		return "", invalid("not an absolute Windows path: %s", s)
	}
	for rest != "" {
		var name string
		if name, rest, _ = strings.Cut(rest, `\`); name == "" {
			continue
		}
		if err := CheckName(name); err != nil {
			return "", invalid("path %q: %w", s, err)
		}
	}
	return w, nil
}

// kubeletDrive is the drive of a path without a drive. With the default --root-dir the
// kubelet passes its staging directory without one: `\var\lib\kubelet\plugins\…`
// (kubernetes#130300). It means the drive on which the kubelet runs.
const kubeletDrive = "C:"

// WithDrive returns s prefixed with drive C: if s begins with a single separator. It
// returns any other s unchanged; a share begins with two separators.
func WithDrive(s string) string {
	if s != "" && isSeparator(s[0]) && (len(s) == 1 || !isSeparator(s[1])) {
		return kubeletDrive + s
	}
	return s
}

func isSeparator(c byte) bool { return c == '\\' || c == '/' }

// ParseList parses the working directories of a node.
func ParseList(dirs []string) ([]Path, error) {
	var ps []Path
	for _, d := range dirs {
		p, err := Parse(d)
		if err != nil {
			return nil, fmt.Errorf("working directory %q: %w", d, err)
		}
		ps = append(ps, p)
	}
	return ps, nil
}
