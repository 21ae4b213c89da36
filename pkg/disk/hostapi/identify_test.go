package api

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

func TestParseLocation(t *testing.T) {
	cases := []struct {
		name, text string
		want       DiskLocation
		ok         bool
	}{
		{"Azure", "Integrated : Adapter 3 : Port 0 : Target 0 : LUN 1", DiskLocation{Adapter: "3", Target: "0", LUNID: "1"}, true},
		{"Azure, newer", "Integrated : Bus 0 : Device 63667 : Function 30747 : Adapter 3 : Port 0 : Target 0 : LUN 5", DiskLocation{"3", "0", "0", "5"}, true},
		{"PCI slot", "PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 0", DiskLocation{Adapter: "0", Target: "1", LUNID: "0"}, true},
		{"virtio", "PCI Slot 0 : Bus 9 : Device 0 : Function 0 : Adapter 3 : Port 0 : Target 0 : LUN 0", DiskLocation{"3", "9", "0", "0"}, true},
		{"NVMe has neither target nor LUN", "Integrated : Bus 1 : Device 0 : Function 0 : Adapter 0", DiskLocation{Adapter: "0", Bus: "1"}, true},
		{"ATA: four parts", "PCI Slot 1 : Adapter 0 : Channel 1 : Device 0", DiskLocation{}, false},
		{"a file's path", `C:\disks\a.vhdx`, DiskLocation{}, false},
		{"words unknown, as published: present and empty", "a b : c d : e f : g h : i j", DiskLocation{}, true},
		{"no pair of words", "a : b : c : d : e", DiskLocation{}, false},
		{"case matters", "x : adapter 1 : BUS 2 : target 3 : lun 4", DiskLocation{}, true},
		{"doubled blank is no pair", "x : Adapter  1 : y : z : LUN 2", DiskLocation{LUNID: "2"}, true},
		{"empty", "", DiskLocation{}, false},
	}
	for _, c := range cases {
		if got, ok := parseLocation(c.text); got != c.want || ok != c.ok {
			t.Errorf("%s: parseLocation(%q) = %+v, %t, want %+v, %t", c.name, c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestLocationOfAddress(t *testing.T) {
	a := win32.SCSIAddress{Port: 2, Path: 9, Target: 3, Lun: 4}
	if got, want := locationOf(a, win32.BusTypeSas), (DiskLocation{Adapter: "2", Target: "3", LUNID: "4"}); got != want {
		t.Errorf("SAS: %+v, want %+v", got, want)
	}
	if got, want := locationOf(a, win32.BusTypeNvme), (DiskLocation{Adapter: "2"}); got != want {
		t.Errorf("NVMe: %+v, want %+v", got, want)
	}
}

func TestPage83Of(t *testing.T) {
	id := func(codeSet, kind, association uint32, text string) win32.Identifier {
		return win32.Identifier{CodeSet: codeSet, Type: kind, Association: association, ID: []byte(text)}
	}
	const binary, ascii, utf8 = win32.StorageIdCodeSetBinary, win32.StorageIdCodeSetAscii, win32.StorageIdCodeSetUtf8
	cases := []struct {
		name string
		ids  []win32.Identifier
		want string
	}{
		{"none", nil, ""},
		{"ASCII is text, blanks kept", []win32.Identifier{id(ascii, 1, 0, "Google  persistent-disk-0")}, "Google  persistent-disk-0"},
		{"binary is lower-case hex", []win32.Identifier{id(binary, 3, 0, "MSFT \xab")}, "4d53465420ab"},
		{"a port's identifier is not the device's", []win32.Identifier{id(binary, 3, 1, "a"), id(ascii, 0, 0, "b")}, "b"},
		{"UTF-8 names are passed over", []win32.Identifier{id(utf8, 8, 0, "eui.1"), id(binary, 2, 0, "\x01")}, "01"},
		{"no better type further on is preferred", []win32.Identifier{id(ascii, 0, 0, "vendor"), id(binary, 3, 0, "\x60")}, "vendor"},
		{"only a target's", []win32.Identifier{id(binary, 3, 2, "a")}, ""},
	}
	for _, c := range cases {
		if got := page83Of(ofDisk(c.ids)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

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
