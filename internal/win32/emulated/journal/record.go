package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Record collects the changes of one call. The zero Record is empty.
type Record struct {
	b       []byte // with room for the header
	changes []change
	writes  []ImageWrite
}

func (r *Record) begin() {
	if len(r.b) == 0 {
		r.b = append(r.b, make([]byte, HeaderSize)...)
	}
}

// Put stores v, as JSON, under key.
func (r *Record) Put(key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %q: %w", key, err)
	}
	r.begin()
	r.b = appendBytes(appendBytes(append(r.b, opPut), key), raw)
	r.changes = append(r.changes, change{key, raw})
	return nil
}

// Delete removes key, which need not exist.
func (r *Record) Delete(key string) {
	r.begin()
	r.b = appendBytes(append(r.b, opDel), key)
	r.changes = append(r.changes, change{key, nil})
}

// Write writes data at an offset of a disk's image. It keeps data, so the caller
// must not change it before [Record.Reset].
func (r *Record) Write(disk string, offset uint64, data []byte) {
	r.begin()
	r.b = binary.AppendUvarint(appendBytes(append(r.b, opWrite), disk), offset)
	r.b = appendBytes(r.b, data)
	r.writes = append(r.writes, ImageWrite{Disk: disk, Offset: offset, Data: data, Length: uint64(len(data))})
}

// Zero writes length zeros at an offset of a disk's image.
func (r *Record) Zero(disk string, offset, length uint64) {
	r.begin()
	r.b = binary.AppendUvarint(appendBytes(append(r.b, opZero), disk), offset)
	r.b = binary.AppendUvarint(r.b, length)
	r.writes = append(r.writes, ImageWrite{Disk: disk, Offset: offset, Length: length})
}

// Empty reports whether r has no changes.
func (r *Record) Empty() bool { return len(r.b) == 0 }

// Writes returns the image writes of r, in order.
func (r *Record) Writes() []ImageWrite { return r.writes }

// Reset empties r. It reuses small buffers.
func (r *Record) Reset() {
	if cap(r.b) > 1<<20 {
		r.b = nil
	}
	r.b, r.changes, r.writes = r.b[:0], r.changes[:0], r.writes[:0]
}
