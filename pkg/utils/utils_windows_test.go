package utils

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

// The exported functions call the Windows that the process runs on.
func TestPathsOnThisWindows(t *testing.T) {
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
	_, err := IsMountedFolder(missing)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("IsMountedFolder(%q): %v, want not-found", missing, err)
	}
	// As published, the error also matches those of package syscall.
	var number syscall.Errno
	if !errors.Is(err, syscall.ERROR_FILE_NOT_FOUND) || !errors.As(err, &number) || number != syscall.ERROR_FILE_NOT_FOUND {
		t.Errorf("IsMountedFolder(%q): %v of number %d, want syscall.ERROR_FILE_NOT_FOUND", missing, err, number)
	}
}
