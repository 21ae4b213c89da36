package winfs_test

import (
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Files of the cloud, deduplicated files and the like are reparse points, too:
// their tags share bits with those of links, and they lead nowhere.
func TestReparsePointsOfOthersAreNoLinks(t *testing.T) {
	w := newWorld(t)
	for name, tag := range map[string]uint32{"cloud": 0x9000001A, "dedup": 0x80000013} {
		path := pods + `\` + name
		w.plant(path, win32.Reparse{Tag: tag}, true)
		if is, err := winfs.LinkTargetExists(t.Context(), w.Node, path); is || err != nil {
			t.Errorf("%s: a link whose target exists: %t, %v; want no", name, is, err)
		}
		if _, mounted, err := winfs.MountedVolume(t.Context(), w.Node, path); mounted {
			t.Errorf("%s: mounted: %t, %v; want no", name, mounted, err)
		}
		err := winfs.Symlink(t.Context(), w.Node, pods, path)
		wantErr(t, name+": a link in its place", err, hosterr.ErrAlreadyExists)
	}
}
