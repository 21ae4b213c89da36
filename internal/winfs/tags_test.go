package winfs_test

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Cloud files, deduplicated files and others are reparse points, too. Their tags share
// bits with those of links, but they have no target.
func TestOtherReparsePointsAreNotLinks(t *testing.T) {
	for _, value := range []string{nodespec.FilterTagsRefused, nodespec.FilterTagsOpened} {
		testOtherReparsePoints(t, newWorldOn(t, nodespec.Windows{FilterTags: value}))
	}
}

func testOtherReparsePoints(t *testing.T, w *world) {
	t.Helper()
	for name, tag := range map[string]uint32{"cloud": 0x9000001A, "dedup": 0x80000013} {
		path := pods + `\` + name
		w.plant(path, win32.Reparse{Tag: tag}, true)
		if is, err := winfs.LinkTargetExists(t.Context(), w.Node, path); is || err != nil {
			t.Errorf("%s: LinkTargetExists = %t, %v; want false", name, is, err)
		}
		if _, mounted, err := winfs.MountedVolume(t.Context(), w.Node, path); mounted {
			t.Errorf("%s: MountedVolume: mounted = %t, %v; want false", name, mounted, err)
		}
		err := winfs.Symlink(t.Context(), w.Node, pods, path)
		wantErr(t, name+": a link in its place", err, hosterr.ErrAlreadyExists)
	}
}
