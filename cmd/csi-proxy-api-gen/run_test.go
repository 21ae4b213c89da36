package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// compare compares generated files with those at root.
func compare(t *testing.T, root string, want files) {
	t.Helper()
	for name, content := range want {
		if have, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(have, content) {
			t.Errorf("%s is not up to date (%v): run make generate", name, err)
		}
	}
}

// The repository has what its .proto files and packages make. That it compiles, and is the published
// API, its own tests show.
func TestRepositoryIsUpToDate(t *testing.T) {
	want, err := generate(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../..", want)
}

// Only what is not up to date is written, and if something fails, nothing.
func TestRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	all := files{"a/b.go": []byte("new"), "c.go": []byte("new")}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "c.go"), all["c.go"], 0o444); err != nil {
		t.Fatal(err)
	}
	if err := write(root, all, &stdout); err != nil || stdout.String() != "a/b.go\n" {
		t.Errorf("write printed %q, %v, want a/b.go", stdout.String(), err)
	}
	compare(t, root, all)
	for code, args := range map[int][]string{0: {"-h"}, 1: {"-root", "internal"}, 2: {"-chekc"}} {
		stdout.Reset()
		if got := run(t.Context(), args, &stdout, &stderr); got != code || stdout.Len() > 0 {
			t.Errorf("run(%q) = %d, and printed %q, want %d", args, got, stdout.String(), code)
		}
	}
}
