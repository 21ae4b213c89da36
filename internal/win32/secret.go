package win32

import "fmt"

// Secret is a password or CHAP secret on its way to Windows. Printing, logging or
// encoding it, or a value that contains it, yields "***"; only Reveal returns the
// text. The zero Secret is the empty one.
type Secret struct {
	// A pointer, because fmt prints the contents of an unexported field, even if
	// its type has methods for printing.
	text *string
}

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
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

// Format implements [fmt.Formatter], for verbs that use neither String nor
// GoString.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText implements [encoding.TextMarshaler], for JSON and log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
