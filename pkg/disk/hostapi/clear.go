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

// Clearing says what ClearDisk clears: the whole disk, unless Partition or Behind is the number
// of a partition.
type Clearing struct {
	// Identity is the serial number or the page 83h identifier that the disk must have. With
	// DryRun, an empty one is every disk's.
	Identity string
	// Partition clears the content of a partition, and Behind that of the space behind one. The
	// partition table stays.
	Partition, Behind uint32
	// DryRun overwrites nothing. It does not lock volumes, nor does it know where those of an offline
	// disk are mounted. A disk that is offline goes online for a moment, read-only, if Windows cannot
	// read it otherwise.
	DryRun bool
}

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

// ClearDisk destroys the content of a disk, of a partition, or of the space behind one: it
// overwrites everything for which PartitionDisk, FormatVolume or ResizeVolume refuses it. The
// disk must have this serial number or page 83h identifier, except in a dry run. It may be repeated
// after it was cut off.
//
// It fails with hosterr.ErrFailedPrecondition for a disk that Windows needs, for volumes that are
// mounted or in use in what is to be cleared, and for an identity that another disk has, too, and
// with hosterr.ErrInvalid for another identity.
func (d DiskAPI) ClearDisk(diskNumber uint32, c Clearing) (Cleared, error) {
	var none Cleared
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return none, err
	}
	defer disk.Close()
	out := Cleared{IDs: DiskIDs{Page83: d.page83(diskNumber, disk), SerialNumber: d.serialNumber(diskNumber, disk)}}
	l, err := disk.Layout(d.host.Ctx)
	if err != nil {
		return none, err
	}
	if err := storage.GuardClear(d.host.Ctx, disk, l); err != nil {
		return none, err
	}
	if err := out.IDs.match(c.Identity, c.DryRun); err != nil {
		return none, err
	}
	number, err := disk.Number(d.host.Ctx) // the disk's own, which may have changed
	if err != nil {
		return none, hosterr.Wrap("get the disk's number", "", err)
	}
	if err := d.unique(number.DeviceNumber, c.Identity, out.IDs); err != nil {
		return none, err
	}
	w := &clearing{Clearing: c, api: d, disk: disk}
	if w.look, err = w.lookAt(number.DeviceNumber, l); err != nil {
		return none, err
	}
	out.SizeBytes = w.look.Size
	if err := w.run(&out); err != nil {
		return none, err
	}
	if c.DryRun || c.Partition != 0 || c.Behind != 0 {
		return out, nil
	}
	if l, err = disk.Layout(d.host.Ctx); err == nil && !storage.Uninitialized(l) {
		err = hosterr.Text(hosterr.ErrUnavailable, "Windows still reports a partition table after it was overwritten; try again")
	}
	return out, err
}

// clearing is a ClearDisk that has found its disk.
type clearing struct {
	Clearing
	api     DiskAPI
	disk    *storage.Disk
	look    storage.Look
	touched bool // something may be overwritten
}

// lookAt returns the look at what is to be cleared.
func (w *clearing) lookAt(number uint32, l win32.Layout) (storage.Look, error) {
	look, err := w.disk.NewLook(w.api.host.Ctx, number, l)
	if err != nil || w.Partition == 0 && w.Behind == 0 {
		return look, err
	}
	if w.Partition != 0 && w.Behind != 0 {
		return look, hosterr.Text(hosterr.ErrInvalid, "want a partition to clear, or one behind which to clear, not both (%d and %d); the disk was not changed", w.Partition, w.Behind)
	}
	for _, p := range storage.Used(l) {
		switch {
		case w.Partition != 0 && p.Number == w.Partition:
			return look.In(storage.Area{Offset: p.Offset, Length: p.Length}), nil
		case w.Behind != 0 && p.Number == w.Behind && storage.IsLogical(l, p):
			return look, hosterr.Text(hosterr.ErrFailedPrecondition, "partition %d is in an extended partition, whose table lies behind it; the disk was not changed", p.Number)
		case w.Behind != 0 && p.Number == w.Behind:
			return look.Behind(p), nil
		}
	}
	return look, hosterr.TextWithHint(hosterr.ErrNotFound, "csi-proxyctl disk clear NUMBER --dry-run lists the partitions of a disk", "the disk has no partition %d", max(w.Partition, w.Behind))
}

// run clears the disk, or does all but that in a dry run. A disk that was not changed gets its
// attributes back.
func (w *clearing) run(out *Cleared) error {
	d := w.api
	if err := w.unmounted(); err != nil {
		return err
	}
	before, err := w.disk.Attributes(d.host.Ctx)
	if err != nil {
		return err
	}
	err = d.inspect(w.look.Number, w.disk, func(disk *storage.Disk) error {
		found, err := disk.Contents(d.host.Ctx, w.look)
		out.Found = nil
		for _, f := range found {
			out.Found = append(out.Found, Content{f.Offset, f.Length, f.Kind})
		}
		return err
	})
	if err == nil && !w.DryRun {
		if err = w.online(before&win32.DISK_ATTRIBUTE_OFFLINE != 0); err == nil {
			out.WrittenBytes, err = w.clear(out)
		}
	}
	if err == nil && !w.DryRun {
		return nil // the disk stays online
	}
	if w.touched {
		return hosterr.Wrap("clear the disk", "", fmt.Errorf("part of it may be overwritten, so clear it again: %w", err))
	}
	if failed := d.restore(w.disk, before); failed != nil {
		d.host.Node.Log.Warn("Failed to give a disk its attributes back", "disk", w.look.Number, "err", failed)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("its content was not changed: %w", err)
	if win32.IsCode(err, win32.ERROR_ACCESS_DENIED) {
		return hosterr.WithHint("clear the disk", "", err, "a volume of it may have appeared meanwhile: clear it again")
	}
	return hosterr.Wrap("clear the disk", "", err)
}

// online takes the disk online and waits for its volumes: until they are there, it cannot be seen
// where they are mounted.
func (w *clearing) online(offline bool) error {
	d := w.api
	if w.Behind != 0 { // no volume is there
		if offline {
			return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "take it online with SetDiskState, and clear it again", "disk %d is offline", w.look.Number)
		}
		return w.disk.Writable(d.host.Ctx, w.look.Number)
	}
	if err := w.disk.MakeUsable(d.host.Ctx, storage.Passing); err != nil {
		return err
	}
	return w.awaitVolumes(offline)
}

// awaitVolumes waits for the volumes of the partitions that are to be cleared. Not each partition
// gets one: if a volume does not appear on a disk that was online before, the others are not
// waited for either, and what is there is all that there is. Windows may report a disk without a
// table as one partition; that has a volume only if it begins with what Windows mounts.
func (w *clearing) awaitVolumes(wasOffline bool) error {
	d := w.api
	for _, p := range w.look.Table.Partitions {
		if !storage.IsBasicData(w.look.Table, p) || !w.look.Has(p) {
			continue
		}
		if p.Offset == 0 {
			kind, err := w.disk.Begins(d.host.Ctx)
			if err != nil {
				return err
			}
			if !slices.Contains([]string{"NTFS", "ReFS", "exFAT", "FAT", storage.BitLocker, storage.BootSector}, kind) {
				continue
			}
		}
		err := storage.AwaitVolume(d.host.Ctx, d.host.Node, w.look.Number, w.look.Table, p.Offset)
		switch {
		case errors.Is(err, storage.ErrLate) && (!wasOffline || p.Offset == 0):
			d.host.Node.Log.Warn("Clearing a disk with a partition that has no volume", "disk", w.look.Number, "err", err)
			return nil
		case errors.Is(err, storage.ErrLate):
			return hosterr.WithHint("look for mounted volumes", "", err, "take the disk online with SetDiskState, and clear it again if no volume of it is needed")
		case err != nil:
			return hosterr.Wrap("look for mounted volumes", "", err)
		}
	}
	return nil
}

// unmounted returns an error if volumes are mounted in what is to be cleared.
func (w *clearing) unmounted() error {
	if w.Behind != 0 {
		return nil
	}
	mounted, err := w.disk.Mounted(w.api.host.Ctx, w.look)
	if err == nil && len(mounted) > 0 {
		err = storage.MountedError(mounted)
	}
	return err
}

// clear overwrites the content. Volumes are locked meanwhile, and no
// partition grows, because its caller has the lock of the disk.
func (w *clearing) clear(out *Cleared) (written uint64, err error) {
	d := w.api
	if w.Behind == 0 {
		done, err := w.disk.Hold(d.host.Ctx, w.look)
		if err != nil {
			return 0, err
		}
		defer done()
	}
	// The volumes of a disk that was offline were not there to be asked before, and any
	// volume may have been mounted, and any partition may have grown, since.
	l, err := w.disk.Layout(d.host.Ctx)
	if err != nil {
		return 0, err
	}
	if err := storage.GuardClear(d.host.Ctx, w.disk, l); err != nil {
		return 0, err
	}
	if err := w.unmounted(); err != nil {
		return 0, err
	}
	if now, err := w.lookAt(w.look.Number, l); err != nil {
		return 0, err
	} else if !w.look.Same(now) {
		return 0, hosterr.Text(hosterr.ErrUnavailable, "its partition table changed during the operation; try again")
	}
	for _, c := range out.Found {
		d.host.Node.Log.Warn("Clearing content of a disk", "disk", w.look.Number, "serial", out.IDs.SerialNumber, "content", c.What, "offset", c.OffsetBytes)
	}
	written, err = w.disk.Clear(d.host.Ctx, w.look)
	w.touched = w.touched || written > 0 || err != nil && !win32.IsCode(err, win32.ERROR_ACCESS_DENIED)
	return written, err
}

// unique returns an error if another disk has the identity, too: then the caller may mean
// that one. Without an identity, one of those of the disk must be its own.
func (d DiskAPI) unique(number uint32, identity string, ids DiskIDs) error {
	named := []string{identity}
	if identity == "" {
		named = slices.DeleteFunc([]string{ids.SerialNumber, ids.Page83}, func(id string) bool { return id == "" })
	}
	var err error
	for _, id := range named {
		if err = d.uniqueID(number, id); err == nil {
			return nil
		}
	}
	return err
}

func (d DiskAPI) uniqueID(number uint32, identity string) error {
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
	return disk.SetAttributes(ctx, before&both, both, storage.Passing)
}

// match returns an error unless identity is one of the disk's.
func (i DiskIDs) match(identity string, dryRun bool) error {
	switch {
	case i.SerialNumber == "" && i.Page83 == "":
		return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "clear it with diskpart (select disk, clean all)",
			"the disk reports no serial number and no page 83h identifier, so it cannot be told from others and was not changed")
	case identity == "" && dryRun:
		return nil
	case identity == "":
		return hosterr.Text(hosterr.ErrInvalid, "the serial number of the disk is missing; the disk was not changed")
	case identity == i.SerialNumber, identity == i.Page83:
		return nil
	}
	return hosterr.TextWithHint(hosterr.ErrInvalid, "csi-proxyctl disk list shows the numbers and serial numbers of all disks",
		"the disk has the serial number %q and the page 83h identifier %q, not %q; it was not changed", i.SerialNumber, i.Page83, identity)
}
