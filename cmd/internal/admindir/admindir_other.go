//go:build !windows

package admindir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Make makes a directory that only this user can use. It reports whether it made it.
func Make(path string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	err = os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}
