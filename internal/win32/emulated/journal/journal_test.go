package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// Every change of one byte of a journal or a snapshot, and every hole, is an error that
// names the file, and changes nothing. Only a cut at the end is repaired, and only down to
// the last whole record.
func TestDamagedState(t *testing.T) {
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
	put(s, "z")
	if err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	ends := []int{0}
	for _, key := range []string{"a", "b", "c"} {
		put(s, key)
		ends = append(ends, int(s.Size()))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(dir, "journal.1"))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	// open returns the keys with these files, or the error.
	open := func(journal, snap []byte) (string, error) {
		t.Helper()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "journal.1"), journal, 0o600), os.WriteFile(filepath.Join(dir, "state.json"), snap, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, _, err := Open(dir)
		if err != nil {
			return "", err
		}
		defer s.Close()
		put(s, "d")
		return strings.Join(s.Keys(""), " "), nil
	}
	damaged, cut := 0, 0
	for at := range journal {
		b := slices.Clone(journal)
		b[at] ^= 0x40
		number := 1
		for at >= ends[number] {
			number++
		}
		got, err := open(b, snap)
		if want := fmt.Sprintf("record %d, at byte %d", number, ends[number-1]); err == nil || !strings.Contains(err.Error(), "journal.1") || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d changed: keys %q, %v; want an error with %q", at, got, err, want)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, "journal.1")); !slices.Equal(now, b) {
			t.Errorf("byte %d changed: the journal was changed", at)
		}
		damaged++
	}
	for at := range snap {
		b := slices.Clone(snap)
		b[at] ^= 0x04
		if got, err := open(journal, b); err == nil || !strings.Contains(err.Error(), "state.json") {
			t.Errorf("byte %d of the snapshot changed to %q: keys %q, %v", at, b[at], got, err)
		}
		damaged++
	}
	if _, err := open(slices.Delete(slices.Clone(journal), ends[1]+3, ends[1]+8), snap); err == nil {
		t.Error("a hole in the second record is not noticed")
	}
	for end := range journal {
		want := "d z"
		for i, key := range []string{"a d z", "a b d z"} {
			if end >= ends[i+1] {
				want = key
			}
		}
		if got, err := open(journal[:end], snap); err != nil || got != want {
			t.Errorf("cut at %d: keys %q, %v; want %q", end, got, err, want)
		}
		cut++
	}
	for _, name := range []string{"journal.1", "state.json"} {
		if _, err := open(journal, snap); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if s, _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is missing") {
			t.Errorf("without %s: keys %q, %v", name, s.Keys(""), err)
		}
	}
	if damaged < 100 || cut < 40 {
		t.Errorf("%d bytes changed, %d cuts", damaged, cut)
	}
}

// FuzzReplay: no bytes of a journal cause a panic, the valid bytes are a prefix,
// and replaying that prefix gives the same result.
func FuzzReplay(f *testing.F) {
	record := func(payload ...byte) []byte {
		b := append(make([]byte, HeaderSize), payload...)
		putHeader(b, payload)
		return b
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
		good, _, _ := replay(b, data)
		if good < 0 || good > len(b) {
			t.Fatalf("%d of %d bytes are valid", good, len(b))
		}
		again := map[string][]byte{}
		if n, _, _ := replay(b[:good], again); n != good || len(again) != len(data) {
			t.Errorf("the valid part, %d bytes, replays to %d bytes and %d keys, want %d keys", good, n, len(again), len(data))
		}
		// The same bytes with a correct checksum, so that the ops are read.
		good, _, _ = replay(record(b...), map[string][]byte{})
		if good != 0 && good != len(b)+HeaderSize {
			t.Errorf("%d bytes of one record of %d bytes are valid", good, len(b)+HeaderSize)
		}
	})
}
