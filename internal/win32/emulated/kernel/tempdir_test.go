package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// open opens a kernel in a temporary directory.
func open(t *testing.T) *Kernel {
	t.Helper()
	n := New(nodespec.Config{}, behavior.Windows{}, Machine{}, func() {})
	if _, err := n.Open(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// TestAbandonedDirectories: directories of killed processes are removed; those in
// use or just created stay, and so do those that no node created.
func TestAbandonedDirectories(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	lives := open(t)
	old := time.Now().Add(-2 * graceTime)
	leave := func(name string, age time.Time, files ...string) string {
		t.Helper()
		dir := filepath.Join(tmp, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			path := filepath.Join(dir, f)
			if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, age, age)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dead := leave(tempPrefix+"dead", old, lockName, "disk-a.img", "journal.0")
	stay := []string{
		lives.tempDir,
		leave(tempPrefix+"young", time.Now(), lockName),
		leave(tempPrefix+"without", old, "journal.0"),
		leave("another", old, lockName),
	}
	elsewhere := leave("elsewhere", old, lockName)
	if err := os.Symlink(elsewhere, filepath.Join(tmp, tempPrefix+"link")); err != nil {
		t.Logf("symbolic links are not tested: %v", err)
	}
	lock := filepath.Join(lives.tempDir, lockName)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	swept = sync.Once{} // as in another process
	open(t)
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a killed node still exists: %v", err)
	}
	for _, dir := range append(stay, elsewhere) {
		if names, err := os.ReadDir(dir); err != nil || len(names) == 0 {
			t.Errorf("%s: %d files, %v, want it untouched", filepath.Base(dir), len(names), err)
		}
	}
}

// Locking a directory that its node is just removing must not create a new lock
// file, which would be left in it.
func TestRemovedLockNotRecreated(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockName)
	if held, err := lockOf(path).TryLock(); held || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("TryLock = %t, %v, want that the file does not exist", held, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after TryLock: %v, want that the file does not exist", err)
	}
}
