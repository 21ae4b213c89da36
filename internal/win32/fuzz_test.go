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

// fuzz states what holds of a Decode function whatever the bytes are: it does
// not panic; an error is ErrLayout; the names that it read are in the bytes; and
// what it read is read again from our own encoding of it.
func fuzz(f *testing.F, name string) {
	c := codecs[name]
	f.Add(c.encode(c.sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 16<<10 {
			return // names may overlap, and would not fit our encoding one after another
		}
		v, err := c.decode(slices.Clip(b))
		if err != nil {
			if !errors.Is(err, ErrLayout) {
				t.Errorf("%s(% x): %v, which is no ErrLayout", name, b, err)
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
					t.Errorf("%s(% x) read the name %q, which is not there", name, b, s)
				}
			}
		}
		again, err := c.decode(c.encode(v))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%s(% x) = %+v, encoded and decoded again %+v, %v", name, b, v, again, err)
		}
	})
}

func FuzzDecodeDeviceNumber(f *testing.F)      { fuzz(f, "DecodeDeviceNumber") }
func FuzzDecodePropertyQuery(f *testing.F)     { fuzz(f, "DecodePropertyQuery") }
func FuzzDecodeDeviceDescriptor(f *testing.F)  { fuzz(f, "DecodeDeviceDescriptor") }
func FuzzDecodeIdentifiers(f *testing.F)       { fuzz(f, "DecodeIdentifiers") }
func FuzzDecodeLocation(f *testing.F)          { fuzz(f, "DecodeLocation") }
func FuzzDecodeSCSIAddress(f *testing.F)       { fuzz(f, "DecodeSCSIAddress") }
func FuzzDecodeLength(f *testing.F)            { fuzz(f, "DecodeLength") }
func FuzzDecodeGeometry(f *testing.F)          { fuzz(f, "DecodeGeometry") }
func FuzzDecodeAlignment(f *testing.F)         { fuzz(f, "DecodeAlignment") }
func FuzzDecodeCreateDisk(f *testing.F)        { fuzz(f, "DecodeCreateDisk") }
func FuzzDecodeLayout(f *testing.F)            { fuzz(f, "DecodeLayout") }
func FuzzDecodeGrowPartition(f *testing.F)     { fuzz(f, "DecodeGrowPartition") }
func FuzzDecodeDiskAttributes(f *testing.F)    { fuzz(f, "DecodeDiskAttributes") }
func FuzzDecodeSetDiskAttributes(f *testing.F) { fuzz(f, "DecodeSetDiskAttributes") }
func FuzzDecodeExtents(f *testing.F)           { fuzz(f, "DecodeExtents") }
func FuzzDecodeNTFSVolumeData(f *testing.F)    { fuzz(f, "DecodeNTFSVolumeData") }
func FuzzDecodeSectors(f *testing.F)           { fuzz(f, "DecodeSectors") }
func FuzzDecodeReparse(f *testing.F)           { fuzz(f, "DecodeReparse") }
func FuzzDecodeDirectory(f *testing.F)         { fuzz(f, "DecodeDirectory") }
func FuzzDecodeAttributeTag(f *testing.F)      { fuzz(f, "DecodeAttributeTag") }
func FuzzDecodeFileStandard(f *testing.F)      { fuzz(f, "DecodeFileStandard") }

// A GUID that is read is written as the same text, but for braces and case.
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

// Any sequence of 16-bit units is a string of its own, and comes back whole.
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
		// And any string at all can be given to Windows.
		if got := FromUTF16(UTF16(string(b))); utf8.Valid(b) && got != string(b) {
			t.Errorf("FromUTF16(UTF16(%q)) = %q", b, got)
		}
	})
}
