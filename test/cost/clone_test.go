package cost

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// perTwin is how many calls the search for the disks with one identity makes for each disk.
const perTwin = 4

// cloneOperations take a clone online, which is w.last.
func cloneOperations() []operation {
	online := func(ctx context.Context, w *world) error {
		return err2(w.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: w.last, IsOnline: true}))
	}
	return []operation{
		{name: "SetDiskState, online, refused", calls: 25, perDisk: perTwin, run: func(ctx context.Context, w *world) error {
			w.node.KeepReadOnly = true
			defer func() { w.node.KeepReadOnly = false }()
			if err := online(ctx, w); !errors.Is(err, hosterr.ErrFailedPrecondition) {
				return fmt.Errorf("a read-only clone: %w, want ErrFailedPrecondition", err)
			}
			return nil
		}},
		{name: "SetDiskState, online", calls: 110, perDisk: perTwin, run: online},
	}
}

// measureClone returns the calls of each operation on a read-only clone of the first of so
// many disks.
func measureClone(t *testing.T, disks int) []int64 {
	t.Helper()
	var all []int64
	synctest.Test(t, func(t *testing.T) {
		w := open(t, disks, nil)
		readOnly := true
		var err error
		if w.last, err = w.emulated.Attach(nodespec.Disk{Size: 1 << 30, Bytes: w.ends(t, blank+1, 1<<30), ReadOnly: &readOnly}); err == nil {
			err = w.emulated.AwaitDisk(w.last)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range cloneOperations() {
			n, err := w.count(func() error { return o.run(t.Context(), w) })
			if err != nil {
				t.Fatalf("%s with %d disks: %v", o.name, disks, err)
			}
			all = append(all, n)
		}
	})
	return all
}

// ends returns the first and the last MiB of a disk, where its partition table is.
func (w *world) ends(t *testing.T, number uint32, size int64) (ends []nodespec.Bytes) {
	t.Helper()
	h, err := w.emulated.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, number), win32.GENERIC_READ, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.emulated.CloseHandle(h)
	for _, at := range []int64{0, size - 1<<20} {
		b := make([]byte, 1<<20)
		if _, err := w.emulated.ReadAt(h, b, at); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, nodespec.Bytes{At: nodespec.Size(at), Data: b})
	}
	return ends
}
