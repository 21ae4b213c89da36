package driver

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// FreeSpace returns the size and the free bytes of the file system at a path, as this
// process sees it.
func FreeSpace(path string) (total, free int64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %q: %w", path, err)
	}
	var available, size uint64
	if err := windows.GetDiskFreeSpaceEx(p, &available, &size, nil); err != nil {
		return 0, 0, fmt.Errorf("free space of %q: %w", path, err)
	}
	return int64(size), int64(available), nil
}
