package winpath

import (
	"strings"
	"unicode"
)

// Share is the name of an SMB share, `\\server\share`. Names are case-insensitive:
// compare them with [Share.Equal], not with ==.
type Share struct{ Server, Name string }

// ParseShare parses `\\server\share`. It fails with hosterr.ErrInvalid if anything follows
// the share, even a backslash.
func ParseShare(s string) (Share, error) {
	share, _ := CutShare(strings.TrimPrefix(s, `\\`))
	if share.String() != s {
		share = Share{} // no share can have empty names
	}
	return share, share.check(s)
}

// CutShare splits `server\share\below`, the part of a path after `\\` or `\\?\UNC\`.
// Missing names are empty. Doubled separators between server and share count as one.
func CutShare(s string) (share Share, below string) {
	share.Server, s, _ = strings.Cut(s, `\`)
	share.Name, below, _ = strings.Cut(strings.TrimLeft(s, `\`), `\`)
	return share, below
}

// check fails if the names are not valid. text is used in the error.
func (s Share) check(text string) error {
	if s.Server == "" || s.Name == "" || s.Server == "." || s.Server == ".." || s.Name == "." || s.Name == ".." ||
		strings.ContainsAny(s.Server+s.Name, "\\/:*?\"<>|\x00") {
		return invalid("not a share (want \\\\server\\share): %s", text)
	}
	return nil
}

// String returns `\\server\share`.
func (s Share) String() string { return `\\` + s.Server + `\` + s.Name }

// Lower returns the share in lower case, which is used for mappings and comparisons. No
// character is converted to ASCII: for a server, the Kelvin sign is not a k.
func (s Share) Lower() Share { return Share{lower(s.Server), lower(s.Name)} }

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < 0x80 || l >= 0x80 {
			return l
		}
		return r
	}, s)
}

// Equal reports whether s and t are the same share.
func (s Share) Equal(t Share) bool { return s.Lower() == t.Lower() }

// SameServer reports whether s and t are on the same server.
func (s Share) SameServer(t Share) bool { return lower(s.Server) == lower(t.Server) }

// SameShare reports whether a and b are the same share. It returns false if [ParseShare]
// fails for one of them.
func SameShare(a, b string) bool {
	s, errA := ParseShare(a)
	t, errB := ParseShare(b)
	return errA == nil && errB == nil && s.Equal(t)
}

// Share returns the share of p; ok is false if p is on a drive or volume.
func (p Path) Share() (s Share, ok bool) {
	if !p.IsUNC() {
		return Share{}, false
	}
	s, _ = CutShare(p.Volume[len(`\\`):])
	return s, true
}
