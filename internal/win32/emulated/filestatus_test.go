package emulated

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/filestatus"
)

// What Microsoft's specifications say of files, row by row.
func TestFileStatuses(t *testing.T) {
	n := newFileNode(t)
	seen := map[string]bool{}
	for i, r := range filestatus.Rows() {
		if seen[r.Name] || r.Source == "" {
			t.Errorf("row %d: its name %q is not the only one, or it has no source", i, r.Name)
		}
		seen[r.Name] = true
		dir := fmt.Sprintf(`E:\row%d`, i)
		n.mkdir(dir)
		if got := r.Got(n, dir); got != r.Expected() {
			t.Errorf("%s: %s, want %s (%s)", r.Name, got, r.Expected(), r.Source)
		}
	}
	t.Attr("measured", fmt.Sprintf("statuses of [MS-FSA] and [MS-FSCC] over the emulated node: %d rows", len(seen)))
}
