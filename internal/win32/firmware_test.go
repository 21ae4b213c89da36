package win32

import (
	"errors"
	"strings"
	"testing"
)

func TestSMBIOSSerial(t *testing.T) {
	whole := EncodeSMBIOS("Maker", "Thing", "SN-42")
	table := func(b ...byte) []byte { return append([]byte{0, 3, 2, 0, byte(len(b)), 0, 0, 0}, b...) }
	for _, c := range []struct {
		name string
		in   []byte
		want string
		err  string // part of the text; "" for none
	}{
		{"as encoded", whole, "SN-42", ""},
		{"blanks around", EncodeSMBIOS("Maker", "", "  SN 42 \t"), "SN 42", ""},
		{"no serial number", EncodeSMBIOS("Maker", "Thing", ""), "", "no serial number"},
		{"blanks only", EncodeSMBIOS("", "", "   "), "", "no serial number"},
		{"no header", []byte{1, 2, 3}, "", "3 bytes"},
		{"no table", table(), "", "no serial number"},
		{"end first", table(127, 4, 0, 0, 0, 0), "", "no serial number"},
		{"behind another structure", table(append([]byte{0, 4, 0, 0, 'x', 0, 0}, whole[smbiosHeader:]...)...), "SN-42", ""},
		{"structure of no length", table(1, 0, 0, 0, 0, 0), "", "claims 0 bytes"},
		{"structure longer than the table", table(1, 200, 0, 0, 0, 0), "", "claims 200 bytes"},
		{"strings without end", table(0, 4, 0, 0, 'x', 'y'), "", "do not end"},
		{"system information before SMBIOS 2", table(1, 7, 0, 0, 0, 0, 0, 'x', 0, 0), "", "no serial number"},
		{"a string that is not there", table(1, 8, 0, 0, 0, 0, 0, 9, 'x', 0, 0), "", "string 9 of 1"},
		{"not UTF-8", table(1, 8, 0, 0, 0, 0, 0, 1, 'x', 0xFF, 'y', 0, 0), "x\uFFFDy", ""},
	} {
		got, err := SMBIOSSerial(c.in)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: SMBIOSSerial(%q) = %q, %v; want %q, %q", c.name, c.in, got, err, c.want, c.err)
		}
	}
	if _, err := SMBIOSSerial(EncodeSMBIOS("", "", "")); !errors.Is(err, ErrNoSerial) {
		t.Errorf("without a serial number: %v, want ErrNoSerial", err)
	}
}

func FuzzSMBIOSSerial(f *testing.F) {
	f.Add(EncodeSMBIOS("Maker", "Thing", "SN-42"))
	f.Add([]byte{0, 3, 2, 0, 255, 255, 255, 255, 1, 8, 0, 0, 0, 0, 0, 1, 'x', 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		serial, err := SMBIOSSerial(b)
		if err != nil {
			if serial != "" {
				t.Errorf("SMBIOSSerial(%q) = %q with %v", b, serial, err)
			}
			return
		}
		if serial == "" || strings.Trim(serial, " \t\r\n\x00") != serial {
			t.Errorf("SMBIOSSerial(%q) = %q", b, serial)
		}
		if !strings.ContainsRune(serial, '\uFFFD') && !strings.Contains(string(b), serial) {
			t.Errorf("SMBIOSSerial(%q) = %q, which is not in the input", b, serial)
		}
	})
}
