package emulated

import (
	"errors"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestReboot(t *testing.T) {
	now := time.Unix(1e9, 0)
	n := startOn(t, nodespec.Config{Windows: nodespec.Windows{Attach: "rescan"}, VolumeArrivalDelay: nodespec.Duration(time.Minute)}, kernel.Machine{Now: func() time.Time { return now }})
	if _, err := n.Attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}}); err != nil {
		t.Fatal(err)
	}
	ok(t, n.Grow(1, 20*gib))
	h := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
	ok(t, n.Reboot())
	if left := n.OpenHandles(); len(left) != 0 {
		t.Errorf("handles %q are still open", left)
	}
	if _, err := n.ReadAt(h, make([]byte, 512), 0); !errors.Is(err, win32.ERROR_INVALID_HANDLE) {
		t.Errorf("ReadAt = %v, want ERROR_INVALID_HANDLE", err)
	}
	if d := n.ByNumber(1); d.SeenSize != 20*gib || d.TableSize != 20*gib {
		t.Errorf("disk 1 has %d and %d visible bytes, want %d", d.SeenSize, d.TableSize, uint64(20*gib))
	}
	// The attached disk is visible. Once it is online for good, its volume exists as soon
	// as Windows runs.
	online(t, n, 3)
	ok(t, n.Reboot())
	one(t, n, 3)
}

// STORAGE_DEVICE_NUMBER: disks keep their numbers only until Windows restarts.
func TestDiskNumbersAfterReboot(t *testing.T) {
	for value, want := range map[string][]string{nodespec.DiskNumbersReassigned: {"b", "system", "a"}, nodespec.DiskNumbersKept: {"system", "a", "b"}} {
		cfg := nodespec.Config{StateDir: t.TempDir(), Windows: nodespec.Windows{DiskNumbers: value}, Disks: []nodespec.Disk{{ID: "system", Content: nodespec.ContentSystem}, {ID: "a"}, {ID: "b"}}}
		n := start(t, cfg)
		ok(t, n.Reboot())
		check := func(n *Node) {
			t.Helper()
			for number, id := range want {
				if d := n.ByNumber(uint32(number)); d.ID != id {
					t.Errorf("%s: disk %d is %s, want %s", value, number, d.ID, id)
				}
			}
		}
		check(n)
		ok(t, n.Close())
		check(start(t, cfg))
	}
}
