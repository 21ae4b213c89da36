package emulated

import (
	"errors"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestReboot(t *testing.T) {
	now := time.Unix(1e9, 0)
	n := startOn(t, nodespec.Config{Windows: nodespec.Windows{Attach: "rescan"}, VolumeArrivalDelay: nodespec.Duration(time.Minute)}, Machine{Now: func() time.Time { return now }})
	if _, err := n.Attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{}}}); err != nil {
		t.Fatal(err)
	}
	if err := n.Grow(1, 20*gib); err != nil {
		t.Fatal(err)
	}
	h := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
	if err := n.Reboot(); err != nil {
		t.Fatal(err)
	}
	if left := n.OpenHandles(); len(left) != 0 {
		t.Errorf("handles %q are still open", left)
	}
	if _, err := n.ReadAt(h, make([]byte, 512), 0); !errors.Is(err, win32.ERROR_INVALID_HANDLE) {
		t.Errorf("ReadAt = %v, want ERROR_INVALID_HANDLE", err)
	}
	if d := n.diskByNumber(1); d.SeenSize != 20*gib || d.TableSize != 20*gib {
		t.Errorf("disk 1 has %d and %d visible bytes, want %d", d.SeenSize, d.TableSize, uint64(20*gib))
	}
	// The attached disk is visible. Once it is online for good, its volume exists as soon
	// as Windows runs.
	online(t, n, 3)
	if err := n.Reboot(); err != nil {
		t.Fatal(err)
	}
	one(t, n, 3)
}
