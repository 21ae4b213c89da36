package disk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Clear sees a volume that appears after its disk went online. It does not matter which
// program took the disk online, or whether the volume is the whole disk.
func TestClearSeesVolumesThatAppearLate(t *testing.T) {
	parts := nodespec.Disk{Size: 10 * gib, Serial: "S1", Content: nodespec.ContentGPT,
		Partitions: []nodespec.Partition{{Size: gib, FileSystem: "NTFS"}, {FileSystem: "NTFS"}}}
	whole := nodespec.Disk{Size: gib, Serial: "S1", Content: nodespec.ContentSuperfloppy}
	for name, test := range map[string]struct {
		spec   nodespec.Disk
		online bool
	}{
		"offline":                              {parts, false},
		"online since now":                     {parts, true},
		"offline, without a partition table":   {whole, false},
		"online since now, without such table": {whole, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(5 * time.Second)}, test.spec)
			if err := f.Windows.SetMountPoint(`E:\`, f.names()[len(f.names())-1]); err != nil {
				t.Fatal(err)
			}
			if err := f.setState(1, false); err != nil {
				t.Fatal(err)
			}
			if test.online {
				f.BringOnline(t, 1)
			}
			f.Observe(func(c *win32.Call) error {
				if c.Name == "WriteAt" {
					t.Error("the disk is written")
				}
				return c.Do()
			})
			_, err := f.clear(1, "S1", false)
			wantKind(t, err, hosterr.ErrFailedPrecondition, `mounted at E:\`)
		})
	}
}

// A partition whose volume never appears does not keep a disk from being cleared for good.
func TestClearWithoutVolume(t *testing.T) {
	f := newFixture(t, nodespec.Config{},
		nodespec.Disk{Size: gib, Serial: "S1", Offline: yes(), Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}})
	others := strings.ToLower(strings.Join(f.names(), " "))
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS && !strings.Contains(others, strings.ToLower(c.Path)) {
			return win32.ERROR_INVALID_FUNCTION
		}
		return c.Do()
	})
	_, err := f.clear(1, "S1", false)
	wantKind(t, err, hosterr.ErrUnavailable, "its content was not changed", "did not appear within 1m0s")
	if hint := hosterr.HintOf(err); !strings.Contains(hint, "SetDiskState") {
		t.Errorf("hint %q", hint)
	}
	if f.online(1) {
		t.Error("the disk stayed online")
	}
	if err := f.setState(1, true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.clear(1, "S1", false); err != nil {
		t.Error(err)
	}
}
