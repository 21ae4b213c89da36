package winfs_test

import (
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// A search that has looked at as many entries as it may has not found out anything, unless the
// link was among them.
func TestLinkBelowEndsAtItsBound(t *testing.T) {
	const dirs = 100
	w := newWorld(t)
	_, bare, _ := w.volumes()
	w.dir(pods + `\mnt`)
	w.mount(pods+`\mnt`, bare)
	for i := range dirs {
		w.dir(pods + fmt.Sprintf(`\dir-%03d`, i)) // of files none can be a link
	}
	find := func(limit int) (string, error) { return winfs.LinkBelowOf(t.Context(), w.Node, bare, limit) }
	if link, err := find(winfs.MaxBelow); link != "" || err != nil {
		t.Errorf("LinkBelow = %q, %v; want none", link, err)
	}
	_, err := find(dirs)
	wantErr(t, "LinkBelow of more entries", err, hosterr.ErrFailedPrecondition)
	must(t, "make a directory", winfs.MkdirAll(t.Context(), w.Node, pods+`\mnt\a`))
	w.plant(pods+`\a link`, symlink(pods+`\mnt\a`), true)
	if link, err := find(dirs); link != pods+`\a link` || err != nil {
		t.Errorf("LinkBelow = %q, %v; want the link", link, err)
	}
}
