package utils

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// The exported functions ask the Windows that the process runs on.
func TestTheNodeThatTheProcessRunsOn(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	for _, path := range []string{dir, EnsureLongPath(dir)} {
		if exists, err := PathExists(path); !exists || err != nil {
			t.Errorf("PathExists(%q) = %t, %v", path, exists, err)
		}
		if valid, err := IsPathValid(path); !valid || err != nil {
			t.Errorf("IsPathValid(%q) = %t, %v", path, valid, err)
		}
		if mounted, err := IsMountedFolder(path); mounted || err != nil {
			t.Errorf("IsMountedFolder(%q) = %t, %v", path, mounted, err)
		}
		if link, err := IsPathSymlink(path); link || err != nil {
			t.Errorf("IsPathSymlink(%q) = %t, %v", path, link, err)
		}
	}
	if exists, err := PathExists(missing); exists || err != nil {
		t.Errorf("PathExists(%q) = %t, %v", missing, exists, err)
	}
	if valid, err := IsPathValid(missing); valid || err != nil {
		t.Errorf("IsPathValid(%q) = %t, %v", missing, valid, err)
	}
	if _, err := IsMountedFolder(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("IsMountedFolder(%q): %v, want not-found", missing, err)
	}
}
