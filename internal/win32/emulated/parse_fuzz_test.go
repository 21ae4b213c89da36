package emulated

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzParseSize: a parsed size is a number of bytes whose digits parse to the
// same.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"", "0", "10GiB", "512 MB", "1Ti", "18446744073709551615", "18446744073709551616", "16777216TiB", "1b", "1i", "1ib", "-1", "1.5G", " 7 k ", "1K1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseSize(s)
		if err != nil {
			if v != 0 || !strings.Contains(err.Error(), strconv.Quote(s)) {
				t.Errorf("ParseSize(%q) = %d, %v, without the text in the error", s, v, err)
			}
			return
		}
		again, err := ParseSize(strconv.FormatUint(uint64(v), 10))
		if err != nil || again != v {
			t.Errorf("ParseSize(%q) = %d, but its digits parse to %d, %v", s, v, again, err)
		}
	})
}

// FuzzParseVolumeName: a volume has one name for its GUID, with one spelling.
func FuzzParseVolumeName(f *testing.F) {
	for _, s := range []string{
		"", `\\?\Volume{00000000-0000-0000-0000-000000000001}\`, `\\?\volume{ABCDEF00-0000-0000-0000-000000000001}\`, `\\?\Volume{00000000-0000-0000-0000-000000000001}`,
		`\\?\Volume{{00000000-0000-0000-0000-000000000001}}\`, `\\.\Volume{00000000-0000-0000-0000-000000000001}\`, `\\?\Volume{1}\`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		guid, ok := parseVolumeName(s)
		if !ok {
			return
		}
		if want := `\\?\Volume{` + strings.Trim(guid.String(), "{}") + `}\`; !strings.EqualFold(s, want) {
			t.Errorf("parseVolumeName(%q) = %v, whose name is %q", s, guid, want)
		}
	})
}
