package native

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/filestatus"
)

// What Microsoft's specifications say of files. Where Wine differs, it returns what the
// table says of it, so that page and table stay true.
func TestFileStatuses(t *testing.T) {
	base, wine := t.TempDir(), underWine()
	same, other, setup := 0, 0, 0
	for i, r := range filestatus.Rows() {
		dir := filepath.Join(base, fmt.Sprintf("row%d", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		want := r.Expected()
		switch {
		case !wine || r.Wine == "":
			same++
		case strings.HasPrefix(r.Wine, "setup: "):
			want = r.Wine
			setup++
		default:
			want = r.Wine
			other++
		}
		if got := r.Got(New(Options{}), dir); got != want {
			t.Errorf("%s: %s, want %s (%s)", r.Name, got, want, r.Source)
		}
	}
	t.Attr("measured", fmt.Sprintf("statuses of [MS-FSA] and [MS-FSCC] over native calls: %d rows as specified; known differences of Wine: %d other results, %d states that it cannot make", same, other, setup))
}
