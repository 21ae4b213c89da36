package api

import "syscall"

// GetDiskNumber returns the number of a disk that the caller has opened. The handle
// stays open.
func (d DiskAPI) GetDiskNumber(disk syscall.Handle) (uint32, error) {
	borrowed, err := d.borrow(uintptr(disk))
	if err != nil {
		return 0, err
	}
	return d.numberOf(borrowed)
}

// GetDiskPage83ID returns the page 83h identifier of a disk that the caller has opened,
// or "" if it has none. The handle stays open.
func (d DiskAPI) GetDiskPage83ID(disk syscall.Handle) (string, error) {
	borrowed, err := d.borrow(uintptr(disk))
	if err != nil {
		return "", err
	}
	return d.page83IDOf(borrowed)
}
