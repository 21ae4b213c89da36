package nodespec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Decode parses the JSON of one of the package's types. It returns an error for unknown
// fields.
func Decode[T any](text []byte) (T, error) {
	var read, none T
	if err := decode(text, &read); err != nil {
		return none, err
	}
	return read, nil
}

func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("json: the text is empty")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("json: more text after the value")
	}
	return nil
}

// Size is a number of bytes. In JSON, YAML and flags it is a number or a string such as
// "10GiB", "512 MB" or "1Ti".
type Size uint64

// String returns the number of bytes.
func (s Size) String() string { return strconv.FormatUint(uint64(s), 10) }

// Set parses the value of a flag.
func (s *Size) Set(text string) (err error) {
	*s, err = ParseSize(text)
	return err
}

// Type is shown in the help of a flag.
func (*Size) Type() string { return "size" }

// MarshalJSON implements [json.Marshaler].
func (s Size) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Size) UnmarshalJSON(b []byte) error {
	text := string(b)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	return s.Set(text)
}

// ParseSize parses a whole number of bytes with an optional unit: K, M, G or T with i (1024)
// or without (1000), and an optional B.
func ParseSize(text string) (Size, error) {
	t := strings.TrimSpace(text)
	digits := strings.IndexFunc(t, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(t)
	}
	v, err := strconv.ParseUint(t[:digits], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a whole number of bytes with an optional unit, as in 10GiB", text)
	}
	unit := strings.ToLower(strings.TrimSpace(t[digits:]))
	unit = strings.TrimSuffix(unit, "b")
	base := uint64(1000)
	if strings.HasSuffix(unit, "i") {
		base, unit = 1024, unit[:len(unit)-1]
		if unit == "" {
			unit = "?"
		}
	}
	power := strings.Index("kmgt", unit)
	if unit == "" {
		power = -1
	} else if power < 0 || len(unit) != 1 {
		return 0, fmt.Errorf("size %q: unknown unit, want K, M, G or T, optionally with i for powers of 1024, and B", text)
	}
	for range power + 1 {
		if v > (1<<64-1)/base {
			return 0, fmt.Errorf("size %q does not fit into 64 bits", text)
		}
		v *= base
	}
	return Size(v), nil
}

// Duration is a [time.Duration]. In JSON and YAML it is a string such as "150ms".
type Duration time.Duration

// String formats the duration like package time.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration %s: want a string such as \"150ms\"", b)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
