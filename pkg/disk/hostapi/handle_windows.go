package api

import "syscall"

// GetDiskNumber tells the number of a disk that the caller has opened; it stays
// open.
func (d DiskAPI) GetDiskNumber(disk syscall.Handle) (uint32, error) {
	borrowed, err := d.borrow(uintptr(disk))
	if err != nil {
		return 0, err
	}
	return d.numberOf(borrowed)
}

// GetDiskPage83ID tells the page 83h identifier of a disk that the caller has
// opened, "" if it has none; it stays open.
func (d DiskAPI) GetDiskPage83ID(disk syscall.Handle) (string, error) {
	borrowed, err := d.borrow(uintptr(disk))
	if err != nil {
		return "", err
	}
	return d.page83IDOf(borrowed)
}
