package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commit, Close and Open again: the values and the last record's writes are there.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	s, pending, err := Open(dir)
	if err != nil || len(pending) != 0 {
		t.Fatalf("Open = %v, %v", pending, err)
	}
	var r Record
	if err := r.Put("bad", func() {}); err == nil || !r.Empty() {
		t.Errorf("Put of a function = %v, record empty: %t", err, r.Empty())
	}
	if err := errors.Join(r.Put("a", 1), r.Put("b", "two"), s.Commit(&r)); err != nil {
		t.Fatal(err)
	}
	r.Reset()
	r.Delete("a")
	r.Write("disk", 7, []byte("data"))
	r.Zero("disk", 100, 1<<30)
	if err := errors.Join(s.Commit(&r), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(&r); err == nil {
		t.Error("Commit after Close succeeded")
	}
	for _, compact := range []bool{false, true} {
		if s, pending, err = Open(dir); err != nil {
			t.Fatal(err)
		}
		var b string
		if err := s.Read("b", &b); err != nil || b != "two" || strings.Join(s.Keys(""), " ") != "b" {
			t.Errorf("keys %q, b = %q, %v", s.Keys(""), b, err)
		}
		if !compact && (len(pending) != 2 || string(pending[0].Data) != "data" || pending[0].Offset != 7 || pending[1].Data != nil || pending[1].Length != 1<<30) {
			t.Errorf("pending writes %+v", pending)
		}
		if compact && len(pending) != 0 {
			t.Errorf("pending writes %+v after a snapshot", pending)
		}
		if err := errors.Join(s.Compact(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A damaged record ends the journal, and the records after it do not reappear
// when others are written over it.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	put := func(s *Store, key string) {
		t.Helper()
		var r Record
		if err := errors.Join(r.Put(key, 1), s.Commit(&r)); err != nil {
			t.Fatal(err)
		}
	}
	s, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	put(s, "a")
	size := s.Size()
	put(s, "b")
	put(s, "c")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal.0")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[size+HeaderSize+2]++ // the key "b" becomes "c"
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a", "a d"} { // d is as long as b
		if s, _, err = Open(dir); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Keys(""), " "); got != want {
			t.Errorf("keys %q, want %q", got, want)
		}
		put(s, "d")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzReplay: no bytes of a journal cause a panic, the valid bytes are a prefix,
// and replaying that prefix gives the same result.
func FuzzReplay(f *testing.F) {
	record := func(payload ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
		return append(b, payload...)
	}
	f.Add([]byte{})
	f.Add(record())
	f.Add(record(opPut, 1, 'k', 1, '7'))
	f.Add(append(record(opPut, 1, 'k', 1, '7'), record(opDel, 1, 'k')...))
	f.Add(record(opWrite, 1, 'd', 5, 2, 'a', 'b'))
	f.Add(record(opZero, 1, 'd', 0x80, 1, 0xFF, 0xFF, 3))
	f.Add(append(record(opPut, 1, 'k', 1, '7'), record(opPut, 9, 'k')...))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		data := map[string][]byte{}
		good, _ := replay(b, data)
		if good < 0 || good > len(b) {
			t.Fatalf("%d of %d bytes are valid", good, len(b))
		}
		again := map[string][]byte{}
		if n, _ := replay(b[:good], again); n != good || len(again) != len(data) {
			t.Errorf("the valid part, %d bytes, replays to %d bytes and %d keys, want %d keys", good, n, len(again), len(data))
		}
		// The same bytes with a correct checksum, so that the ops are read.
		good, _ = replay(record(b...), map[string][]byte{})
		if good != 0 && good != len(b)+HeaderSize {
			t.Errorf("%d bytes of one record of %d bytes are valid", good, len(b)+HeaderSize)
		}
	})
}
