package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put stores a value of a key.
func put(t *testing.T, s *Store, key, value string) error {
	t.Helper()
	r := Record{}
	if err := r.Put(key, value); err != nil {
		t.Fatal(err)
	}
	return s.Commit(r)
}

// keys opens a state and returns its keys.
func keys(t *testing.T, dir string) (string, error) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		return "", err
	}
	defer s.Close()
	return strings.Join(s.Keys(""), " "), nil
}

// Commit, Close and Open again: the values are there, also from a file that was replaced.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := Record{}
	if err := r.Put("bad", func() {}); err == nil || len(r) > 0 {
		t.Errorf("Put of a function = %v, record %v", err, r)
	}
	if err := errors.Join(put(t, s, "a", "one"), put(t, s, `b\`, "two")); err != nil {
		t.Fatal(err)
	}
	r.Delete("a")
	if err := s.Commit(r); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var b string
		if err := s.Read(`b\`, &b); err != nil || b != "two" || strings.Join(s.Keys(""), " ") != `b\` {
			t.Errorf("keys %q, b = %q, %v", s.Keys(""), b, err)
		}
		long := s.Size()
		s.CompactAt = 1
		if err := errors.Join(s.CompactIfDue(), put(t, s, "c", "x"), s.Commit(Record{"c": []byte("null")}), s.Close()); err != nil || s.Size() >= 2*long {
			t.Fatalf("%d bytes after %d, %v", s.Size(), long, err)
		}
		if s, err = Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, "d", "x"); err == nil {
		t.Error("Commit after Close succeeded")
	}
}

// Only the beginning of a last line is cut off. Another line that is no JSON is an error that
// names the file and the line, and changes nothing.
func TestDamagedState(t *testing.T) {
	const a, b = `{"a":1}` + "\n", `{"b":{"c":[1,"x"]}}` + "\n"
	type file struct{ text, keys, err string }
	files := []file{
		{a[:3] + "\n" + b, "", "line 1:"},
		{a + "[]\n", "", "line 2:"},
		{a + "\n" + b, "", "line 2:"},
		{a + b[:3] + a, "", "line 2:"},
		{a + b, "a b", ""},
	}
	for at := range len(a) {
		files = append(files, file{text: a[:at]})
	}
	for at := range len(b) {
		files = append(files, file{text: a + b[:at], keys: "a"})
	}
	for _, c := range files {
		dir := t.TempDir()
		file := filepath.Join(dir, "journal")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := keys(t, dir)
		if got != c.keys || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), file+": "+c.err) {
			t.Errorf("%q: keys %q, %v, want %q and the error %q", c.text, got, err, c.keys, c.err)
		}
		if now, _ := os.ReadFile(file); err != nil && string(now) != c.text {
			t.Errorf("%q: the damaged file is %q", c.text, now)
		}
	}
}

// What could not replace the file leaves it in use.
func TestFileThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(put(t, s, "a", "x"), os.Mkdir(filepath.Join(dir, "journal.new"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.CompactAt = 1
	if err := s.CompactIfDue(); err == nil || s.CompactAt != 2 {
		t.Errorf("%v, the next try at %d bytes", err, s.CompactAt)
	}
	if err := errors.Join(put(t, s, "b", "x"), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := keys(t, dir); err != nil || got != "a b" {
		t.Errorf("keys %q, %v", got, err)
	}
}
