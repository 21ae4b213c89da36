package emulated

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// dispose marks f for deletion or removes the mark. The mark is stored: when a
// process ends, Windows closes its handles, so marked files are deleted when the
// state directory is opened again.
func (f *file) dispose(t *kernel.Tx, flags uint32) error {
	if err := f.tree.SetDisposition(f.open, flags); err != nil {
		return err
	}
	if e := f.open.Entry(); e.DeletePending() {
		t.Put(closingKey(f.vol.fsid, e.ID()), true)
	} else {
		t.Delete(closingKey(f.vol.fsid, e.ID()))
	}
	return nil
}

// closingPrefix returns the prefix of the keys of a file system's files that are
// marked for deletion.
func closingPrefix(fsid string) string { return "closing/" + fsid + "/" }

func closingKey(fsid string, id filetree.ID) string {
	return closingPrefix(fsid) + strconv.FormatUint(uint64(id), 10)
}

// finishDeletions deletes the files marked for deletion, as Windows does when the
// process with the handles ends.
func (n *Node) finishDeletions(t *kernel.Tx) error {
	for _, k := range n.Store.Keys("closing/") {
		fsid, number, _ := strings.Cut(strings.TrimPrefix(k, "closing/"), "/")
		id, err := strconv.ParseUint(number, 10, 64)
		tree := n.trees[fsid]
		if err != nil || tree == nil {
			return fmt.Errorf("%s: no such file", k)
		}
		tree.Remove(fileChanges{tx: t, prefix: filePrefix(fsid)}, filetree.ID(id))
		t.Delete(k)
	}
	return nil
}
