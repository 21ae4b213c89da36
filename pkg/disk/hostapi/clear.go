package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Cleared is what ClearDisk found and did.
type Cleared struct {
	// IDs identify the disk.
	IDs DiskIDs
	// SizeBytes is the size of the disk.
	SizeBytes uint64
	// Found is what was on the disk.
	Found []Content
	// WrittenBytes is how much was overwritten.
	WrittenBytes uint64
}

// Content is a partition of a disk, or known or unknown content at a place of it.
type Content struct {
	OffsetBytes, LengthBytes uint64
	What                     string
}

// ClearDisk destroys the partitions and the content of a disk: it overwrites everything at
// which PartitionDisk looks before it writes. The disk must have this serial number or page
// 83h identifier. With dryRun it only reads, and an empty identity is every disk's. It may
// be repeated after it was cut off.
//
// It fails with hosterr.ErrFailedPrecondition for a disk that Windows needs, that has
// mounted volumes, or whose identity another disk has, too, and with hosterr.ErrInvalid for
// another identity.
func (d DiskAPI) ClearDisk(diskNumber uint32, identity string, dryRun bool) (Cleared, error) {
	var none Cleared
	if err := d.host.Ready(); err != nil {
		return none, err
	}
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.ReadWrite)
	if err != nil {
		return none, err
	}
	defer disk.Close()
	out := Cleared{IDs: DiskIDs{Page83: d.page83(diskNumber, disk), SerialNumber: d.serialNumber(diskNumber, disk)}}
	l, err := disk.Layout(d.host.Ctx)
	if err != nil {
		return none, err
	}
	if err := storage.Guard(d.host.Ctx, disk, l); err != nil {
		return none, err
	}
	if err := out.IDs.match(identity, dryRun); err != nil {
		return none, err
	}
	number, err := disk.Number(d.host.Ctx) // the disk's own, which may have changed
	if err != nil {
		return none, hosterr.Wrap("get the disk's number", "", err)
	}
	if identity != "" {
		if err := d.unique(number.DeviceNumber, identity); err != nil {
			return none, err
		}
	}
	mounted, err := disk.Mounted(d.host.Ctx, number.DeviceNumber, l)
	if err != nil {
		return none, err
	}
	if len(mounted) > 0 {
		return none, storage.MountedError(mounted)
	}
	if out.SizeBytes, err = disk.Length(d.host.Ctx); err != nil {
		return none, err
	}
	before, err := disk.Attributes(d.host.Ctx)
	if err != nil {
		return none, err
	}
	if err := d.contents(diskNumber, disk, l, dryRun, &out); err != nil || dryRun {
		return out, err
	}
	if err := disk.MakeUsable(d.host.Ctx); err != nil {
		return none, err
	}
	for _, c := range out.Found {
		d.host.Node.Log.Warn("Clearing content of a disk", "disk", diskNumber, "serial", out.IDs.SerialNumber, "content", c.What, "offset", c.OffsetBytes)
	}
	var touched bool
	out.WrittenBytes, err = d.clearOnline(disk, number.DeviceNumber, l, out.SizeBytes, before&win32.DISK_ATTRIBUTE_OFFLINE != 0, &touched)
	switch {
	case err != nil && touched:
		return none, hosterr.Wrap("clear the disk", "", fmt.Errorf("part of it may be overwritten, so clear it again: %w", err))
	case err != nil:
		if failed := d.restore(disk, before); failed != nil {
			d.host.Node.Log.Warn("Failed to give a disk its attributes back", "disk", diskNumber, "err", failed)
		}
		return none, hosterr.Wrap("clear the disk", "", fmt.Errorf("its content was not changed: %w", err))
	}
	if l, err = disk.Layout(d.host.Ctx); err == nil && !storage.Uninitialized(l) {
		err = hosterr.Text(hosterr.ErrUnavailable, "Windows still reports a partition table after it was overwritten; try again")
	}
	return out, err
}

// awaitVolumes waits for the volumes of a disk that is online, perhaps only since now. Until
// they are there, it cannot be seen where they are mounted. Not each partition gets one: if a
// volume does not appear on a disk that was online before, the others are not waited for
// either, and what is there is all that there is. The same holds for a disk without a table,
// which Windows may report as one partition although it is blank.
func (d DiskAPI) awaitVolumes(number uint32, l win32.Layout, size uint64, wasOffline bool) error {
	for _, p := range l.Partitions { // also the whole disk, if it has no table
		if !storage.IsBasicData(l, p) || p.Offset >= size {
			continue
		}
		_, err := storage.AwaitVolume(d.host.Ctx, d.host.Node, number, l, p.Offset)
		switch {
		case errors.Is(err, storage.ErrLate) && (!wasOffline || p.Offset == 0):
			d.host.Node.Log.Warn("Clearing a disk with a partition that has no volume", "disk", number, "err", err)
			return nil
		case errors.Is(err, storage.ErrLate):
			return hosterr.WithHint("look for mounted volumes", "", err, "take the disk online with SetDiskState, and clear it again if no volume of it is needed")
		case err != nil:
			return hosterr.Wrap("look for mounted volumes", "", err)
		}
	}
	return nil
}

// clearTries is how often a disk is written. Windows refuses it if a volume of the disk
// arrived only after the others were locked, such as right after the disk went online.
const clearTries = 3

// clearOnline clears a disk that is online now. It sets touched unless it wrote nothing.
func (d DiskAPI) clearOnline(disk *storage.Disk, number uint32, l win32.Layout, size uint64, wasOffline bool, touched *bool) (written uint64, err error) {
	if err := d.awaitVolumes(number, l, size, wasOffline); err != nil {
		return 0, err
	}
	for range clearTries {
		if written, err = d.clear(disk, number, l, size, touched); !win32.IsCode(err, win32.ERROR_ACCESS_DENIED) {
			break
		}
	}
	return written, err
}

func (d DiskAPI) clear(disk *storage.Disk, number uint32, l win32.Layout, size uint64, touched *bool) (uint64, error) {
	done, err := disk.Hold(d.host.Ctx, number, l)
	if err != nil {
		return 0, err
	}
	defer done()
	// The volumes of a disk that was offline were not there to be asked before, and any
	// volume may have been mounted since.
	if err := storage.Guard(d.host.Ctx, disk, l); err != nil {
		return 0, err
	}
	mounted, err := disk.Mounted(d.host.Ctx, number, l)
	if err != nil {
		return 0, err
	}
	if len(mounted) > 0 {
		return 0, storage.MountedError(mounted)
	}
	written, err := disk.Clear(d.host.Ctx, l, size)
	*touched = *touched || written > 0 || !win32.IsCode(err, win32.ERROR_ACCESS_DENIED)
	return written, err
}

// unique returns an error if another disk has the identity, too: then the caller may mean
// that one.
func (d DiskAPI) unique(number uint32, identity string) error {
	var others []uint32
	err := storage.EachDisk(d.host.Ctx, d.host.Node, storage.Query, func(n uint32, disk *storage.Disk) {
		if n != number && slices.Contains([]string{d.serialNumber(n, disk), d.page83(n, disk)}, identity) {
			others = append(others, n)
		}
	})
	if err != nil || len(others) == 0 {
		return err
	}
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition,
		"name the disk by its other identifier (csi-proxyctl disk list shows both), detach the other disk, or clear it with diskpart (select disk, clean all)",
		"disk %s has the identity %q, too, so disk %d was not changed", join(others), identity, number)
}

// restore gives the disk back whether it was offline and read-only, also if the context has
// ended.
func (d DiskAPI) restore(disk *storage.Disk, before uint64) error {
	const both = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	ctx := context.WithoutCancel(d.host.Ctx)
	if now, err := disk.Attributes(ctx); err != nil || now&both == before&both {
		return err
	}
	return disk.SetAttributes(ctx, before&both, both)
}

// contents adds to out what is on the disk. A disk that has to go online to be read goes
// offline again if restore is set.
func (d DiskAPI) contents(number uint32, disk *storage.Disk, l win32.Layout, restore bool, out *Cleared) error {
	before, err := disk.Attributes(d.host.Ctx)
	if err != nil {
		return err
	}
	err = d.inspect(number, disk, func(disk *storage.Disk) error {
		found, err := disk.Contents(d.host.Ctx, l, out.SizeBytes)
		out.Found = nil
		for _, f := range found {
			out.Found = append(out.Found, Content{f.Offset, f.Length, f.What})
		}
		return err
	})
	if err != nil || !restore {
		return err
	}
	return d.restore(disk, before)
}

// match returns an error unless identity is one of the disk's.
func (i DiskIDs) match(identity string, dryRun bool) error {
	switch {
	case identity == "" && dryRun:
		return nil
	case i.SerialNumber == "" && i.Page83 == "":
		return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "clear it with diskpart (select disk, clean all)",
			"the disk reports no serial number and no page 83h identifier, so it cannot be told from others and was not changed")
	case identity == "":
		return hosterr.Text(hosterr.ErrInvalid, "the serial number of the disk is missing; the disk was not changed")
	case identity == i.SerialNumber, identity == i.Page83:
		return nil
	}
	return hosterr.TextWithHint(hosterr.ErrInvalid, "csi-proxyctl disk list shows the numbers and serial numbers of all disks",
		"the disk has the serial number %q and the page 83h identifier %q, not %q; it was not changed", i.SerialNumber, i.Page83, identity)
}
