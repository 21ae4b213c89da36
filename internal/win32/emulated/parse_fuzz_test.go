package emulated

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// FuzzParseVolumeName: a volume has one name for its GUID, with one spelling.
func FuzzParseVolumeName(f *testing.F) {
	for _, s := range []string{
		"", `\\?\Volume{00000000-0000-0000-0000-000000000001}\`, `\\?\volume{ABCDEF00-0000-0000-0000-000000000001}\`, `\\?\Volume{00000000-0000-0000-0000-000000000001}`,
		`\\?\Volume{{00000000-0000-0000-0000-000000000001}}\`, `\\.\Volume{00000000-0000-0000-0000-000000000001}\`, `\\?\Volume{1}\`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		guid, ok := volume.ParseVolumeName(s)
		if !ok {
			return
		}
		if want := `\\?\Volume{` + strings.Trim(guid.String(), "{}") + `}\`; !strings.EqualFold(s, want) {
			t.Errorf("parseVolumeName(%q) = %v, whose name is %q", s, guid, want)
		}
	})
}
