package files

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// dispose marks f for deletion or removes the mark. The mark is stored: when a
// process ends, Windows closes its handles, so marked files are deleted when the
// state directory is opened again.
func (f *file) dispose(t *kernel.Tx, flags uint32) error {
	if err := f.tree.SetDisposition(f.open, flags); err != nil {
		return err
	}
	if e := f.open.Entry(); e.DeletePending() {
		t.Put(volume.ClosingKey(f.vol.FSID, e.ID()), true)
	} else {
		t.Delete(volume.ClosingKey(f.vol.FSID, e.ID()))
	}
	return nil
}
