package emulated

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// tx is one transaction: one Win32 call. It collects what the call changes in
// the store and in disk images; Node.do writes that as one journal record when
// the call succeeds and forgets it when it fails.
//
// Memory follows the same rule in one of two ways. Either the call checks
// everything before it changes anything, or it leaves its changes of memory to
// [tx.onCommit], which runs once the record is written.
type tx struct {
	n       *Node
	record  []byte // the journal record being built, with room for its header
	values  []valueChange
	writes  []imageWrite
	commits []func()
	undos   []func()
	err     error // what went wrong in a method without an error of its own
}

type valueChange struct {
	key   string
	value []byte // nil deletes
}

func (t *tx) begin() {
	if len(t.record) == 0 {
		t.record = append(t.record, make([]byte, recordHeader)...)
	}
}

// Put stores v, as JSON, under key.
func (t *tx) Put(key string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		t.err = fmt.Errorf("store %q: %w", key, err)
		return
	}
	t.begin()
	t.record = appendBytes(appendBytes(append(t.record, opPut), key), raw)
	t.values = append(t.values, valueChange{key, raw})
}

// Delete removes key, which need not exist.
func (t *tx) Delete(key string) {
	t.begin()
	t.record = appendBytes(append(t.record, opDel), key)
	t.values = append(t.values, valueChange{key, nil})
}

// deletePrefix removes every committed key that begins with prefix.
func (t *tx) deletePrefix(prefix string) {
	for _, k := range t.n.store.keys(prefix) {
		t.Delete(k)
	}
}

// writeImage writes b at off of d's image. It keeps b: the caller must not
// change it until the call is over. Zeroes stay holes.
func (t *tx) writeImage(d *disk, off uint64, b []byte) {
	if len(b) == 0 {
		return
	}
	if allZero(b) {
		t.zeroImage(d, off, uint64(len(b)))
		return
	}
	t.begin()
	t.record = binary.AppendUvarint(appendBytes(append(t.record, opWrite), d.ID), off)
	t.record = appendBytes(t.record, b)
	t.writes = append(t.writes, imageWrite{disk: d.ID, off: off, data: b, length: uint64(len(b))})
}

// zeroImage writes length zeroes at off of d's image.
func (t *tx) zeroImage(d *disk, off, length uint64) {
	if length == 0 {
		return
	}
	t.begin()
	t.record = binary.AppendUvarint(appendBytes(append(t.record, opZero), d.ID), off)
	t.record = binary.AppendUvarint(t.record, length)
	t.writes = append(t.writes, imageWrite{disk: d.ID, off: off, length: length})
}

// onCommit runs f, in order, after the record is written and before the call
// returns. f cannot fail.
func (t *tx) onCommit(f func()) { t.commits = append(t.commits, f) }

// onRollback runs f, last first, when the call fails after all. It is for
// changes of memory that could not wait for onCommit.
func (t *tx) onRollback(f func()) { t.undos = append(t.undos, f) }

// files are the changes of the file tree of vol: its keys live below the file
// system's own prefix.
func (t *tx) files(vol *volume) fileChanges { return fileChanges{t, filePrefix(vol.fsid)} }

// fileChanges implements filetree.Changes.
type fileChanges struct {
	tx     *tx
	prefix string
}

func (c fileChanges) Put(key string, v any) { c.tx.Put(c.prefix+key, v) }
func (c fileChanges) Delete(key string)     { c.tx.Delete(c.prefix + key) }

func filePrefix(fsid string) string { return "file/" + fsid + "/" }

// reset makes t ready for the next call. Small buffers are used again.
func (t *tx) reset() {
	if cap(t.record) > 1<<20 {
		t.record = nil
	}
	*t = tx{n: t.n, record: t.record[:0], values: t.values[:0], writes: t.writes[:0], commits: t.commits[:0], undos: t.undos[:0]}
}

func (t *tx) rollback() {
	for _, f := range slices.Backward(t.undos) {
		f()
	}
}

// commit writes the record, then the images, then memory. Once the journal
// cannot be written or an image cannot follow it, memory and disk may disagree
// and the node answers ERROR_IO_DEVICE to everything.
func (t *tx) commit() error {
	if t.err != nil {
		t.rollback()
		t.n.log.Error("emulated node: a change cannot be stored", "err", t.err)
		return win32.ERROR_IO_DEVICE
	}
	s := t.n.store
	if len(t.record) > 0 {
		if err := s.append(t.record); err != nil {
			t.rollback()
			return t.n.breakDown("write the journal", err)
		}
		for _, c := range t.values {
			if c.value == nil {
				delete(s.data, c.key)
			} else {
				s.data[c.key] = c.value
			}
		}
		for _, w := range t.writes {
			if err := t.n.applyWrite(w); err != nil {
				return t.n.breakDown("write a disk image", err)
			}
		}
	}
	for _, f := range t.commits {
		f()
	}
	if len(t.record) > 0 && s.size >= s.compactAt {
		if err := s.compact(); err != nil {
			t.n.log.Warn("emulated node: no snapshot, the journal goes on", "err", err)
			s.compactAt *= 2
		}
	}
	return nil
}

var zeroes [64 << 10]byte

func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeroes))
		if !bytes.Equal(b[:n], zeroes[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
