//go:build !windows

package driver

import (
	"errors"
	"fmt"
)

// FreeSpace fails: paths of Windows nodes are measured on Windows.
func FreeSpace(path string) (total, free int64, err error) {
	return 0, 0, fmt.Errorf("free space of %q: %w", path, errors.ErrUnsupported)
}
