package api

import (
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// GetDiskNumberWithID returns the number of the disk with a page 83h identifier as
// returned by ListDiskIDs. It skips disks that do not return theirs. If several disks
// have the identifier, it returns the lowest number. It fails with hosterr.ErrNotFound
// if there is no such disk, and with hosterr.ErrInvalid for the empty identifier, which
// many disks have.
func (d DiskAPI) GetDiskNumberWithID(page83ID string) (uint32, error) {
	if page83ID == "" {
		return 0, hosterr.Text(hosterr.ErrInvalid, "the page 83h identifier is empty")
	}
	all, err := d.ListDiskIDs()
	if err != nil {
		return 0, err
	}
	found, number := false, uint32(0)
	for n, ids := range all {
		if ids.Page83 == page83ID && (!found || n < number) {
			found, number = true, n
		}
	}
	if !found {
		return 0, hosterr.Text(hosterr.ErrNotFound, "could not find disk with Page83 ID %s: not found", page83ID)
	}
	return number, nil
}

// GetDiskNumberAndPage83ID returns the number and the page 83h identifier of the disk
// at a device path, such as \\.\PhysicalDrive1. The identifier is empty if the disk has
// none. It fails with hosterr.ErrNotFound if there is no device at the path.
func (d DiskAPI) GetDiskNumberAndPage83ID(path string) (uint32, string, error) {
	if err := d.host.Ready(); err != nil {
		return 0, "", err
	}
	disk, err := storage.OpenDiskPath(d.host.Ctx, d.host.Node, path, storage.Query)
	if err != nil {
		return 0, "", hosterr.Wrap("open", hosterr.Quote(path), err)
	}
	defer disk.Close()
	number, err := d.numberOf(disk)
	if err != nil {
		return 0, "", err
	}
	id, err := d.page83IDOf(disk)
	if err != nil {
		return 0, "", err
	}
	return number, id, nil
}

// borrow returns the disk of a handle that the caller has opened.
func (d DiskAPI) borrow(h uintptr) (*storage.Disk, error) {
	if err := d.host.Ready(); err != nil {
		return nil, err
	}
	return storage.Borrow(d.host.Node, win32.Handle(h)), nil
}

// numberOf returns the number of an open disk.
func (d DiskAPI) numberOf(disk *storage.Disk) (uint32, error) {
	n, err := disk.Number(d.host.Ctx)
	if err == nil && n.DeviceNumber == storage.NoNumber {
		err = hosterr.Text(hosterr.ErrNotFound, "the device is not a disk with a number")
	}
	if err != nil {
		return 0, hosterr.Wrap("get the disk's number", "", err)
	}
	return n.DeviceNumber, nil
}

// page83IDOf returns the page 83h identifier of an open disk, or "" if it has none or
// does not support the query. It uses identifiers before a malformed one.
func (d DiskAPI) page83IDOf(disk *storage.Disk) (string, error) {
	ids, err := d.identifiers(disk)
	id := page83Of(ids)
	if id != "" || errors.Is(err, errors.ErrUnsupported) {
		return id, nil
	}
	return "", hosterr.Wrap("get the disk's page 83h identifier", "", err)
}
