package api

import (
	"syscall"
	"testing"
)

func TestCallerHandleStaysOpen(t *testing.T) {
	d, win := identified(t, plainly)
	h := syscall.Handle(open(t, win, `\\.\PhysicalDrive1`))
	if n, err := d.GetDiskNumber(h); n != 1 || err != nil {
		t.Errorf("GetDiskNumber = %d, %v, want 1", n, err)
	}
	if id, err := d.GetDiskPage83ID(h); id != "Google  disk-1" || err != nil {
		t.Errorf("GetDiskPage83ID = %q, %v", id, err)
	}
	if _, err := (DiskAPI{}).GetDiskNumber(h); err == nil {
		t.Error("GetDiskNumber without a node")
	}
	if _, err := (DiskAPI{}).GetDiskPage83ID(h); err == nil {
		t.Error("GetDiskPage83ID without a node")
	}
}
