package win32

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func unhex(t testing.TB, lines ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fuzz states the properties of a Decode function for any input: it does not
// panic; an error is ErrLayout; the names that it returns are in the input; and
// encoding and decoding its result again returns the same.
func fuzz(f *testing.F, name string) {
	c := codecs[name]
	f.Add(c.encode(c.sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16<<10 {
			return // names may overlap in the input, but our encoding writes them separately
		}
		v, err := c.decode(slices.Clip(b))
		if err != nil {
			if !errors.Is(err, ErrLayout) {
				t.Errorf("%s(% x): %v, which is not an ErrLayout", name, b, err)
			}
			return
		}
		if c.names != nil {
			for _, s := range c.names(v) {
				want := []byte(s)
				if c.wide {
					want = appendUTF16(nil, s)
				}
				if !bytes.Contains(b, want) {
					t.Errorf("%s(% x) read the name %q, which is not in the input", name, b, s)
				}
			}
		}
		again, err := c.decode(c.encode(v))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%s(% x) = %+v, encoded and decoded again %+v, %v", name, b, v, again, err)
		}
	})
}

func FuzzDecodeDeviceDescriptor(f *testing.F) { fuzz(f, "DecodeDeviceDescriptor") }
func FuzzDecodeIdentifiers(f *testing.F)      { fuzz(f, "DecodeIdentifiers") }
func FuzzDecodeLocation(f *testing.F)         { fuzz(f, "DecodeLocation") }
func FuzzDecodeDACL(f *testing.F)             { fuzz(f, "DecodeDACL") }
func FuzzDecodeLayout(f *testing.F)           { fuzz(f, "DecodeLayout") }
func FuzzDecodeExtents(f *testing.F)          { fuzz(f, "DecodeExtents") }
func FuzzDecodeReparse(f *testing.F)          { fuzz(f, "DecodeReparse") }
func FuzzDecodeDirectory(f *testing.F)        { fuzz(f, "DecodeDirectory") }

// A GUID that was parsed prints as the same text, except for braces and case.
func FuzzGUID(f *testing.F) {
	f.Add(PARTITION_BASIC_DATA_GUID.String())
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGUID(s)
		if err != nil {
			return
		}
		if want := "{" + strings.Trim(strings.ToLower(s), "{}") + "}"; g.String() != want {
			t.Errorf("ParseGUID(%q) = %s, want %s", s, g, want)
		}
		if back := GUIDFromBytes(g.AppendTo(nil)); back != g {
			t.Errorf("GUIDFromBytes(%s) = %s", g, back)
		}
	})
}

// Every sequence of 16-bit units has its own string and converts back to the same
// units.
func FuzzUTF16(f *testing.F) {
	f.Add([]byte("a\x00\x3d\xd8\x17\xdd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		u := make([]uint16, len(b)/2)
		for i := range u {
			u[i] = le.Uint16(b[2*i:])
		}
		s := FromUTF16(u)
		if back := UTF16(s); !slices.Equal(back, u) {
			t.Errorf("UTF16(FromUTF16(%x)) = %x", u, back)
		}
		// Any string converts to Windows' units and back.
		if got := FromUTF16(UTF16(string(b))); utf8.Valid(b) && got != string(b) {
			t.Errorf("FromUTF16(UTF16(%q)) = %q", b, got)
		}
	})
}
