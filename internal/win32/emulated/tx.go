package emulated

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// tx is one transaction: one Win32 call. It collects the changes that the call makes
// to the store and to disk images. If the call succeeds, Node.do writes them as one
// journal record; if it fails, Node.do drops them.
//
// Memory follows the same rule in one of two ways. Either the call checks
// everything before it changes anything, or it makes its changes of memory in
// [tx.onCommit], which runs after the record is written.
type tx struct {
	n *Node
	// privilege is the privilege that is enabled for this call, or "".
	privilege string
	record    journal.Record
	commits   []func()
	undos     []func()
	err       error // the error of a method that returns none
}

// Put stores v, as JSON, under key.
func (t *tx) Put(key string, v any) {
	if err := t.record.Put(key, v); err != nil {
		t.err = err
	}
}

// Delete removes key, which need not exist.
func (t *tx) Delete(key string) { t.record.Delete(key) }

// deletePrefix removes every committed key with the prefix.
func (t *tx) deletePrefix(prefix string) {
	for _, k := range t.n.store.Keys(prefix) {
		t.Delete(k)
	}
}

// writeImage writes b at off of d's image. It keeps b, so the caller must not change
// it before the end of the call. Zeros stay holes.
func (t *tx) writeImage(d *disk, off uint64, b []byte) {
	if len(b) == 0 {
		return
	}
	if allZero(b) {
		t.zeroImage(d, off, uint64(len(b)))
		return
	}
	t.record.Write(d.ID, off, b)
}

// zeroImage writes length zeros at off of d's image.
func (t *tx) zeroImage(d *disk, off, length uint64) {
	if length == 0 {
		return
	}
	t.record.Zero(d.ID, off, length)
}

// onCommit calls f after the record is written and before the call returns, in the
// order of registration. f cannot fail.
func (t *tx) onCommit(f func()) { t.commits = append(t.commits, f) }

// onRollback calls f if the call fails, in reverse order of registration. It is for
// changes of memory that cannot wait for onCommit.
func (t *tx) onRollback(f func()) { t.undos = append(t.undos, f) }

// files returns the receiver for changes of vol's file tree. Its keys are below the
// file system's own prefix.
func (t *tx) files(vol *volume) fileChanges { return fileChanges{t, filePrefix(vol.fsid), vol} }

// fileChanges implements filetree.Changes.
type fileChanges struct {
	tx     *tx
	prefix string
	vol    *volume // nil if nothing is cached
}

func (c fileChanges) Put(key string, v any) {
	c.vol.cache(c.tx, c.prefix+key)
	c.tx.Put(c.prefix+key, v)
}

func (c fileChanges) Delete(key string) {
	c.vol.cache(c.tx, c.prefix+key)
	c.tx.Delete(c.prefix + key)
}

func filePrefix(fsid string) string { return "file/" + fsid + "/" }

// reset prepares t for the next call.
func (t *tx) reset() {
	t.record.Reset()
	t.commits, t.undos, t.err, t.privilege = t.commits[:0], t.undos[:0], nil, ""
}

func (t *tx) rollback() {
	for _, f := range slices.Backward(t.undos) {
		f()
	}
}

// commit writes the record, then the images, then memory. If the journal or an
// image cannot be written, memory and disk may disagree, and the node returns
// ERROR_IO_DEVICE from then on.
func (t *tx) commit() error {
	if t.err != nil {
		t.rollback()
		t.n.log.Error("Failed to store a change of the emulated node", "err", t.err)
		return win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
	}
	if !t.record.Empty() {
		if err := t.n.store.Commit(&t.record); err != nil {
			t.rollback()
			return t.n.breakDown("write the journal", err)
		}
		for _, w := range t.record.Writes() {
			if err := t.n.applyWrite(w); err != nil {
				return t.n.breakDown("write a disk image", err)
			}
		}
	}
	for _, f := range t.commits {
		f()
	}
	if !t.record.Empty() {
		t.n.changed()
		if err := t.n.store.CompactIfDue(); err != nil {
			t.n.log.Warn("Failed to write a snapshot of the emulated node; keeping the journal", "err", err)
		}
	}
	return nil
}

var zeros [64 << 10]byte

func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// putIn stores a record, and puts it into a map in memory on commit.
func putIn[V any](t *tx, m map[string]V, prefix, key string, v V) {
	t.Put(prefix+key, v)
	t.onCommit(func() { m[key] = v })
}

// deleteFrom is the opposite of putIn.
func deleteFrom[V any](t *tx, m map[string]V, prefix, key string) {
	t.Delete(prefix + key)
	t.onCommit(func() { delete(m, key) })
}

// loadIn reads the records with a prefix.
func loadIn[V any](n *Node, m map[string]V, prefix string) error {
	for _, k := range n.store.Keys(prefix) {
		var v V
		if err := n.store.Read(k, &v); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		m[strings.TrimPrefix(k, prefix)] = v
	}
	return nil
}
