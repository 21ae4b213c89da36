package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSyncFiles(t *testing.T) {
	root := t.TempDir()
	files := map[string][]byte{"pages/a.md": []byte("a\n"), "b.go": []byte("b\n")}
	if err := syncFiles(root, files, true); err == nil || !strings.Contains(err.Error(), "a.md") || !strings.Contains(err.Error(), "b.go") {
		t.Errorf("check of missing files: %v, want an error that names both", err)
	}
	if _, err := os.Stat(filepath.Join(root, "b.go")); err == nil {
		t.Error("check wrote a file")
	}
	if err := syncFiles(root, files, false); err != nil {
		t.Fatal(err)
	}
	if err := syncFiles(root, files, true); err != nil {
		t.Errorf("check of files just written: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "b.go"), []byte("b\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syncFiles(root, files, true); err == nil || strings.Contains(err.Error(), "a.md") || !strings.Contains(err.Error(), "b.go") {
		t.Errorf("check of a changed file: %v, want an error that names only that one", err)
	}
}
