package api

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func TestTrimmed(t *testing.T) {
	for in, want := range map[string]string{
		"  vol0123_00000001.  ": "vol0123_00000001.", "\x00\x01A B\x7f\r\n": "A B", "": "", "   ": "",
		"10CC_9636_B6E3_CE3B_0000_0000_0000_0000.": "10CC_9636_B6E3_CE3B_0000_0000_0000_0000.",
	} {
		if got := trimmed(in); got != want {
			t.Errorf("trimmed(%q) = %q, want %q", in, got, want)
		}
	}
}

// Drivers get the identifiers in messages, which have valid UTF-8 only.
func TestIdentifiersAreValidUTF8(t *testing.T) {
	id := win32.Identifier{CodeSet: win32.StorageIdCodeSetAscii, ID: []byte("a\xff\xfeb")}
	var info DiskInfo
	if info.add(id); page83Of([]win32.Identifier{id}) != "a\uFFFDb" || len(info.Page83) != 1 || info.Page83[0] != "vendor.a\uFFFDb" {
		t.Errorf("%q and %q", page83Of([]win32.Identifier{id}), info.Page83)
	}
}

// seeds fails a fuzz target that has no seeds.
func seeds(f *testing.F) {
	f.Helper()
	if files, err := os.ReadDir("testdata/fuzz/" + f.Name()); err != nil || len(files) == 0 {
		f.Fatalf("no seeds for %s: %v", f.Name(), err)
	}
}

// A text with fewer than five parts has no location. In any other text, each field
// of the location is the word after the field's name.
func FuzzParseLocation(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		loc, ok := parseLocation(text)
		if ok && strings.Count(text, ":") < 4 {
			t.Errorf("parseLocation(%q) succeeded on fewer than five parts", text)
		}
		if !ok && loc != (DiskLocation{}) {
			t.Errorf("parseLocation(%q) = %+v without success", text, loc)
		}
		for name, value := range map[string]string{"Adapter": loc.Adapter, "Bus": loc.Bus, "Target": loc.Target, "LUN": loc.LUNID} {
			if value != "" && !strings.Contains(text, name+" "+value) {
				t.Errorf("parseLocation(%q) returns the %s %q, which is not in the text", text, name, value)
			}
		}
	})
}

// The identifier consists of bytes of the device's response.
func FuzzPage83(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, _ := win32.DecodeIdentifiers(b) // the identifiers before an error are used
		got := page83Of(ofDisk(ids))
		raw, err := hex.DecodeString(got)
		asHex := err == nil && strings.Contains(string(b), string(raw))
		asText := strings.Contains(strings.ToValidUTF8(string(b), "\uFFFD"), got) || strings.Contains(got, "\uFFFD")
		if !asHex && !asText {
			t.Errorf("the identifier %q is not in % x", got, b)
		}
	})
}
