package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	tempPrefix = "emulated-node-"
	lockName   = "lock"
	// graceTime is how long a directory is kept after its lock file was created: a
	// process needs a moment between creating the file and locking it.
	graceTime = time.Minute
)

// swept is done once a process has removed what killed ones left.
var swept sync.Once

// makeTempDir creates the directory of a temporary node. The first one of a process removes
// those of nodes whose processes were killed.
func (n *Kernel) makeTempDir() (string, error) {
	swept.Do(func() {
		if err := removeAbandoned(os.TempDir()); err != nil {
			n.Log.Warn("Failed to remove temporary directories of killed emulated nodes", "err", err)
		}
	})
	return os.MkdirTemp("", tempPrefix)
}

// removeAbandoned removes the temporary node directories in dir whose lock is free.
// It ignores those that it may not remove because they belong to other users.
func removeAbandoned(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range found {
		if err := removeIfAbandoned(d); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeIfAbandoned(dir string) error {
	path := filepath.Join(dir, lockName)
	for name, want := range map[string]fs.FileMode{dir: fs.ModeDir, path: 0} {
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		if info.Mode().Type() != want {
			return nil // not created by a node
		}
		if name == path && time.Since(info.ModTime()) < graceTime {
			return nil
		}
	}
	lock := lockOf(path)
	if held, err := lock.TryLock(); err != nil || !held {
		return err // if held is false, its process still runs
	}
	// No process uses such a directory again, so it is safe to close the lock first:
	// Windows does not remove open files.
	if err := lock.Close(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// lockOf returns the lock of an existing file. It does not create the file: another
// process may just be removing it together with its directory.
func lockOf(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_RDWR)) }
