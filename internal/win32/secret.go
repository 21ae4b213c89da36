package win32

import "fmt"

// Secret is a password or CHAP secret on its way to Windows. Whatever prints,
// logs or encodes it, or a value that holds it, gets "***": only Reveal gives
// the text. The zero Secret is the empty one.
type Secret struct {
	// A pointer, because fmt prints what an unexported field holds, whatever
	// methods its type has.
	text *string
}

// NewSecret keeps text from being seen.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

const redacted = "***"

// String implements [fmt.Stringer].
func (s Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return redacted }

// Format implements [fmt.Formatter], for verbs that ask for neither of the above.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText implements [encoding.TextMarshaler], for JSON and log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
