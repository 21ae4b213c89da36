package api

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// GetDiskReadOnly implements [HostAPI]. It does not check whether the device of an
// offline disk refuses writes, because Windows refuses all writes to it.
func (d DiskAPI) GetDiskReadOnly(diskNumber uint32) (bool, error) {
	disk, err := d.open(diskNumber, storage.Query)
	if err != nil {
		return true, err
	}
	defer disk.Close()
	attrs, err := disk.Attributes(d.host.Ctx)
	if err != nil || attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0 {
		return true, err
	}
	if attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
		return false, nil
	}
	protected, err := disk.WriteProtected(d.host.Ctx)
	return protected || err != nil, err
}

// SetDiskReadOnly implements [HostAPI]. It does not take the disk online or offline,
// and refuses to make a disk read-only that Windows needs.
//
// Making an online disk writable unmounts its volumes from containers (observed, vsphere-csi-driver
// issue 1631): drivers call this before SetDiskState takes the disk online.
func (d DiskAPI) SetDiskReadOnly(diskNumber uint32, isReadOnly bool) error {
	attrs, err := d.attributes(diskNumber)
	if err != nil {
		return err
	}
	set := d.unprotect
	if isReadOnly {
		set = d.protect
	}
	if readOnly := attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0; readOnly != isReadOnly {
		err = set(diskNumber)
	}
	if err == nil {
		err = d.note(diskNumber, isReadOnly)
	}
	if err != nil || isReadOnly {
		return err
	}
	return d.stillProtected(diskNumber)
}

// note keeps what SetDiskReadOnly did, for SetDiskState.
func (d DiskAPI) note(diskNumber uint32, isReadOnly bool) error {
	disk, err := d.open(diskNumber, storage.Query)
	if err != nil {
		return err
	}
	defer disk.Close()
	disk.Protect(d.host.Ctx, diskNumber, isReadOnly)
	return nil
}

func (d DiskAPI) protect(diskNumber uint32) error {
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()
	l, err := disk.Layout(d.host.Ctx)
	if err != nil {
		return err
	}
	if err := storage.GuardState(d.host.Ctx, disk, l); err != nil {
		return err
	}
	return disk.SetAttributes(d.host.Ctx, win32.DISK_ATTRIBUTE_READ_ONLY, win32.DISK_ATTRIBUTE_READ_ONLY, storage.Remembered)
}

func (d DiskAPI) unprotect(diskNumber uint32) error {
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()
	return disk.SetAttributes(d.host.Ctx, 0, win32.DISK_ATTRIBUTE_READ_ONLY, storage.Remembered)
}

// stillProtected returns an error if a disk that was made writable is still read-only.
func (d DiskAPI) stillProtected(diskNumber uint32) error {
	readOnly, err := d.GetDiskReadOnly(diskNumber)
	if err != nil || !readOnly {
		return err
	}
	return hosterr.WithHint("make the disk writable", "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "it stays read-only: %w", win32.ERROR_WRITE_PROTECT),
		"the device is write-protected, or another machine uses it: check how it is attached")
}
