package winpath

import (
	"strings"
	"unicode"
)

// Share is an SMB share. It has its names as Windows compares them, in lower case, so two
// shares are the same if they are ==. The zero Share is none.
type Share struct{ server, name string }

// ParseShare parses `\\server\share`. It fails with hosterr.ErrInvalid if anything follows
// the share, even a backslash.
func ParseShare(s string) (Share, error) {
	server, name, _ := CutShare(strings.TrimPrefix(s, `\\`))
	if `\\`+server+`\`+name != s {
		server = "" // no share can have empty names
	}
	return makeShare(server, name, s)
}

// makeShare returns the share with valid names. text is used in the error.
func makeShare(server, name, text string) (Share, error) {
	if server == "" || name == "" || server == "." || server == ".." || name == "." || name == ".." ||
		strings.ContainsAny(server+name, "\\/:*?\"<>|\x00") {
		return Share{}, invalid("not a share (want \\\\server\\share): %s", text)
	}
	return Share{lower(server), lower(name)}, nil
}

// CutShare splits `server\share\below`, the part of a path after `\\` or `\\?\UNC\`.
// Missing names are empty. Doubled separators between server and share count as one.
func CutShare(s string) (server, name, below string) {
	server, s, _ = strings.Cut(s, `\`)
	name, below, _ = strings.Cut(strings.TrimLeft(s, `\`), `\`)
	return server, name, below
}

// Server returns the name of the server.
func (s Share) Server() string { return s.server }

// Name returns the name of the share on its server.
func (s Share) Name() string { return s.name }

// String returns `\\server\share`, as mappings have it.
func (s Share) String() string { return `\\` + s.server + `\` + s.name }

// lower does not convert any character to ASCII: for a server, the Kelvin sign is not a k.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if l := unicode.ToLower(r); r < 0x80 || l >= 0x80 {
			return l
		}
		return r
	}, s)
}

// SameShare reports whether two texts are the same share. It returns false if [ParseShare]
// fails for one of them.
func SameShare(a, b string) bool {
	s, errA := ParseShare(a)
	t, errB := ParseShare(b)
	return errA == nil && errB == nil && s == t
}

// Share returns the share of p; ok is false if p is on a drive or volume.
func (p Path) Share() (s Share, ok bool) {
	if !p.IsUNC() {
		return Share{}, false
	}
	s, err := ParseShare(p.Volume)
	return s, err == nil
}
