package kernel

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// Tx is one transaction: one Win32 call. It collects the changes that the call makes
// to the store and to disk images. If the call succeeds, [Kernel.Do] writes those of images and
// then those of the store, as one line of the journal; if it fails, that drops them.
//
// Memory follows the same rule in one of two ways. Either the call checks
// everything before it changes anything, or it makes its changes of memory in
// [tx.onCommit], which runs after the record is written.
type Tx struct {
	n *Kernel
	// Privilege is the privilege that is enabled for this call, or "".
	Privilege string
	record    journal.Record
	writes    []imageWrite
	commits   []func()
	undos     []func()
	Err       error // the error of a method that returns none
}

// Put stores v, as JSON, under key.
func (t *Tx) Put(key string, v any) {
	if err := t.record.Put(key, v); err != nil {
		t.Err = err
	}
}

// Delete removes key, which need not exist.
func (t *Tx) Delete(key string) { t.record.Delete(key) }

// DeletePrefix removes every committed key with the prefix.
func (t *Tx) DeletePrefix(prefix string) {
	for _, k := range t.n.Store.Keys(prefix) {
		t.Delete(k)
	}
}

// WriteImage writes b at off of a disk's image. It keeps b, so the caller must not change
// it before the end of the call. Zeros stay holes.
func (t *Tx) WriteImage(disk string, off uint64, b []byte) {
	if len(b) == 0 {
		return
	}
	if allZero(b) {
		t.ZeroImage(disk, off, uint64(len(b)))
		return
	}
	t.writes = append(t.writes, imageWrite{disk, off, uint64(len(b)), b})
}

// ZeroImage writes length zeros at off of a disk's image.
func (t *Tx) ZeroImage(disk string, off, length uint64) {
	t.writes = append(t.writes, imageWrite{disk, off, length, nil})
}

// OnCommit calls f after the record is written and before the call returns, in the
// order of registration. f cannot fail.
func (t *Tx) OnCommit(f func()) { t.commits = append(t.commits, f) }

// OnRollback calls f if the call fails, in reverse order of registration. It is for
// changes of memory that cannot wait for onCommit.
func (t *Tx) OnRollback(f func()) { t.undos = append(t.undos, f) }

// reset prepares t for the next call.
func (t *Tx) reset() {
	clear(t.record)
	t.writes, t.commits, t.undos, t.Err, t.Privilege = t.writes[:0], t.commits[:0], t.undos[:0], nil, ""
}

func (t *Tx) rollback() {
	for _, f := range slices.Backward(t.undos) {
		f()
	}
}

// commit writes the images, then the record, then memory. A process that is killed in between has
// written to an image in a call that never returned: what is stored is read again from the
// images. If an image or the journal cannot be written, memory and disk may disagree, and the
// node returns ERROR_IO_DEVICE from then on.
func (t *Tx) commit() error {
	if t.Err != nil {
		t.rollback()
		t.n.Log.Error("Failed to store a change of the emulated node", "err", t.Err)
		return win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
	}
	for _, w := range t.writes {
		if err := t.n.writeImage(w); err != nil {
			t.rollback()
			return t.n.BreakDown("write a disk image", err)
		}
	}
	if len(t.record) > 0 {
		if err := t.n.Store.Commit(t.record); err != nil {
			t.rollback()
			return t.n.BreakDown("write the journal", err)
		}
	}
	for _, f := range t.commits {
		f()
	}
	if len(t.record)+len(t.writes) > 0 {
		t.n.changed()
		if err := t.n.Store.CompactIfDue(); err != nil {
			t.n.Log.Warn("Failed to shorten the journal of the emulated node; going on with the long one", "err", err)
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

// PutIn stores a record, and puts it into a map in memory on commit.
func PutIn[V any](t *Tx, m map[string]V, prefix, key string, v V) {
	t.Put(prefix+key, v)
	t.OnCommit(func() { m[key] = v })
}

// DeleteFrom is the opposite of putIn.
func DeleteFrom[V any](t *Tx, m map[string]V, prefix, key string) {
	t.Delete(prefix + key)
	t.OnCommit(func() { delete(m, key) })
}

// LoadIn reads the records with a prefix.
func LoadIn[V any](store *journal.Store, m map[string]V, prefix string) error {
	for _, k := range store.Keys(prefix) {
		var v V
		if err := store.Read(k, &v); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		m[strings.TrimPrefix(k, prefix)] = v
	}
	return nil
}
