package winfs_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Cloud files, deduplicated files and others are reparse points, too. Their tags share
// bits with those of links, but they have no target.
func TestOtherReparsePointsAreNotLinks(t *testing.T) {
	for _, value := range []string{behavior.FilterTagsRefused, behavior.FilterTagsOpened} {
		testOtherReparsePoints(t, newWorldOn(t, behavior.Windows{FilterTags: value}))
	}
}

// The volume of a reparse point that cannot be followed is not that of its directory: a caller
// might grow it.
func TestVolumeOfOtherReparsePoint(t *testing.T) {
	for value, want := range map[string]error{behavior.FilterTagsRefused: win32.STATUS_IO_REPARSE_TAG_NOT_HANDLED, behavior.FilterTagsOpened: nil} {
		w := newWorldOn(t, behavior.Windows{FilterTags: value})
		c, err := w.raw.VolumeNameForMountPoint(`C:\`)
		if err != nil {
			t.Fatal(err)
		}
		path := pods + `\dedup`
		w.plant(path, win32.Reparse{Tag: 0x80000013}, true)
		volume, err := winfs.VolumeOf(t.Context(), w.Node, path)
		if !errors.Is(err, want) || err == nil && volume != c {
			t.Errorf("%s: VolumeOf = %q, %v; want %v", value, volume, err, want)
		}
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
