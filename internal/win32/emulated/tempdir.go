package emulated

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	tempPrefix = "emulated-node-"
	lockName   = "lock"
	// settling is how long a directory is left alone after its lock was made:
	// the process that makes one needs a moment between that and holding it.
	settling = time.Minute
)

// makeTempDir makes the directory of a node that is not kept, and removes those
// of nodes whose processes were killed.
func (n *Node) makeTempDir() (string, error) {
	if err := removeAbandoned(os.TempDir()); err != nil {
		n.log.Warn("emulated node: directories of nodes that were killed cannot be removed", "err", err)
	}
	return os.MkdirTemp("", tempPrefix)
}

// removeAbandoned removes the temporary directories of nodes in dir whose lock
// nobody holds. Those of other users stay, if they may not be removed.
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
			return nil // not what a node makes
		}
		if name == path && time.Since(info.ModTime()) < settling {
			return nil
		}
	}
	lock := lockOf(path)
	if held, err := lock.TryLock(); err != nil || !held {
		return err // held is false: its process lives
	}
	// Nobody comes back to such a directory, so the lock may go first: Windows
	// removes no open file.
	if err := lock.Close(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// lockOf is a lock that is there. Its process may be removing it at this moment,
// together with the directory: a new one would be in its way.
func lockOf(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_RDWR)) }
