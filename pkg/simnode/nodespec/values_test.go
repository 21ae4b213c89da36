package nodespec_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]nodespec.Size{
		`10737418240`: 10 * (1 << 30), `"10GiB"`: 10 * (1 << 30), `"10 GiB"`: 10 * (1 << 30), `"10Gi"`: 10 * (1 << 30), `"10gib"`: 10 * (1 << 30), `"10GB"`: 1e10,
		`"5M"`: 5e6, `"7"`: 7, `"7B"`: 7, `"512KiB"`: 512 * (1 << 10), `"2TiB"`: 2 * (1 << 40), `0`: 0,
	} {
		var s nodespec.Size
		if err := json.Unmarshal([]byte(text), &s); err != nil || s != want {
			t.Errorf("%s = %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{`"x"`, `-1`, `1.5`, `"1.5GiB"`, `""`, `"10XB"`, `"10iB"`, `"20000000TiB"`, `"99999999999999999999"`, `true`, `"10kg"`} {
		var s nodespec.Size
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s = %d, want an error", text, s)
		}
	}
}

// FuzzParseSize: a parsed size is a number of bytes whose digits parse to the
// same.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"", "0", "10GiB", "512 MB", "1Ti", "18446744073709551615", "18446744073709551616", "16777216TiB", "1b", "1i", "1ib", "-1", "1.5G", " 7 k ", "1K1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := nodespec.ParseSize(s)
		if err != nil {
			if v != 0 || !strings.Contains(err.Error(), strconv.Quote(s)) {
				t.Errorf("ParseSize(%q) = %d, %v, without the text in the error", s, v, err)
			}
			return
		}
		again, err := nodespec.ParseSize(strconv.FormatUint(uint64(v), 10))
		if err != nil || again != v {
			t.Errorf("ParseSize(%q) = %d, but its digits parse to %d, %v", s, v, again, err)
		}
	})
}
