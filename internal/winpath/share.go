package winpath

import (
	"strings"
	"unicode"
)

// Share is the name of an SMB share, `\\server\share`. Names that differ in case
// only are names of one share: compare them with [Share.Equal], not with ==.
type Share struct{ Server, Name string }

// ParseShare parses `\\server\share`, with nothing below the share and no backslash
// at the end. It fails with hosterr.ErrInvalid.
func ParseShare(s string) (Share, error) {
	share, _ := CutShare(strings.TrimPrefix(s, `\\`))
	if share.String() != s {
		share = Share{} // no share can have empty names
	}
	return share, share.check(s)
}

// CutShare splits `server\share\below`, which is what follows `\\` in a path, or
// `\\?\UNC\` in a long one. Names that are missing are empty; doubled separators
// between the two count as one.
func CutShare(s string) (share Share, below string) {
	share.Server, s, _ = strings.Cut(s, `\`)
	share.Name, below, _ = strings.Cut(strings.TrimLeft(s, `\`), `\`)
	return share, below
}

// check refuses names that no server or share can have. s is the whole text.
func (s Share) check(text string) error {
	if s.Server == "" || s.Name == "" || s.Server == "." || s.Server == ".." || s.Name == "." || s.Name == ".." ||
		strings.ContainsAny(s.Server+s.Name, "\\/:*?\"<>|\x00") {
		return invalid("not a share (want \\\\server\\share): %s", text)
	}
	return nil
}

// String returns `\\server\share`.
func (s Share) String() string { return `\\` + s.Server + `\` + s.Name }

// Lower returns the share in lower case, which is how mappings are made and how
// shares are compared. No character becomes ASCII: to a server, the Kelvin sign is
// not a k.
func (s Share) Lower() Share { return Share{lower(s.Server), lower(s.Name)} }

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < 0x80 || l >= 0x80 {
			return l
		}
		return r
	}, s)
}

// Equal reports whether s and t are one share.
func (s Share) Equal(t Share) bool { return s.Lower() == t.Lower() }

// SameServer reports whether s and t are shares of one server.
func (s Share) SameServer(t Share) bool { return lower(s.Server) == lower(t.Server) }

// SameShare reports whether a and b are texts of one share, as [ParseShare] takes
// them.
func SameShare(a, b string) bool {
	s, errA := ParseShare(a)
	t, errB := ParseShare(b)
	return errA == nil && errB == nil && s.Equal(t)
}

// Share returns the share that p is on; ok is false if it is on a drive or volume.
func (p Path) Share() (s Share, ok bool) {
	if !p.IsUNC() {
		return Share{}, false
	}
	s, _ = CutShare(p.Volume[len(`\\`):])
	return s, true
}
