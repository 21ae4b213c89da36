package api

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// attributes returns the disk's DISK_ATTRIBUTE_ bits.
func (d DiskAPI) attributes(diskNumber uint32) (uint64, error) {
	return with(d, diskNumber, storage.Query, func(disk *storage.Disk) (uint64, error) { return disk.Attributes(d.host.Ctx) })
}

// GetDiskState implements [HostAPI].
func (d DiskAPI) GetDiskState(diskNumber uint32) (bool, error) {
	attrs, err := d.attributes(diskNumber)
	return attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0, err
}

// SetDiskState implements [HostAPI]. It waits for the volume even if the disk is
// already online, because the call that took it online may have ended before its
// volume arrived.
func (d DiskAPI) SetDiskState(diskNumber uint32, isOnline bool) error {
	attrs, err := d.attributes(diskNumber)
	if err != nil {
		return err
	}
	switch online := attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0; {
	case online != isOnline:
		err = d.switchState(diskNumber, isOnline)
	case isOnline && attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0:
		err = d.renew(diskNumber)
	}
	if err != nil || !isOnline {
		return err
	}
	// Drivers list the disk's volumes next, so wait for the volume. The disk is
	// online even if no volume arrives.
	if err := d.AwaitPartition(diskNumber); err != nil {
		if ended := d.host.Ctx.Err(); ended != nil {
			return ended
		}
		now, removed := d.attributes(diskNumber)
		if removed != nil {
			return removed
		}
		if now&win32.DISK_ATTRIBUTE_OFFLINE != 0 || errors.Is(err, hosterr.ErrUnavailable) && !errors.Is(err, storage.ErrLate) {
			return err // the disk is offline again, or another one has its number
		}
		d.host.Node.Log.Warn("Took disk online, but its volume did not arrive", "disk", diskNumber, "err", err)
	}
	return nil
}

func (d DiskAPI) switchState(diskNumber uint32, isOnline bool) error {
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()
	if isOnline {
		return d.bringOnline(diskNumber, disk)
	}
	l, err := disk.Layout(d.host.Ctx)
	if err != nil {
		return err
	}
	if err := storage.GuardState(d.host.Ctx, disk, l); err != nil {
		return err
	}
	number, err := disk.Number(d.host.Ctx) // the disk's own, which may have changed
	if err != nil {
		return hosterr.Wrap("get the disk's number", "", err)
	}
	released, err := storage.Release(d.host.Ctx, d.host.Node, number.DeviceNumber)
	if err != nil {
		return err
	}
	defer released()
	return disk.SetAttributes(d.host.Ctx, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE, storage.Remembered)
}

// renew takes an online disk that is read-only offline and online again, which makes it writable
// and mounts its file systems again: Windows remembered the attribute for the slot, from an
// earlier disk there. A disk that stays read-only is logged.
func (d DiskAPI) renew(number uint32) error {
	disk, err := d.open(number, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()
	done, err := d.idle(number, disk)
	if ended := d.host.Ctx.Err(); ended != nil {
		return ended
	}
	if err != nil {
		d.host.Node.Log.Warn("A disk is online and read-only, and stays so", "disk", number, "err", err)
		return nil
	}
	err = disk.SetAttributes(d.host.Ctx, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE, storage.Passing)
	done()
	if err != nil {
		return err
	}
	if err = d.bringOnline(number, disk); err == nil {
		return nil
	}
	// It was online before, and other volumes may be on it.
	if failed := disk.SetAttributes(context.WithoutCancel(d.host.Ctx), 0, win32.DISK_ATTRIBUTE_OFFLINE, storage.Passing); failed != nil {
		d.host.Node.Log.Warn("Failed to take a disk online again", "disk", number, "err", failed)
	}
	return err
}

// idle locks and dismounts the volumes of a disk until the caller calls done, or returns why the disk has to stay
// read-only or is in use.
func (d DiskAPI) idle(number uint32, disk *storage.Disk) (done func(), err error) {
	ctx := d.host.Ctx
	l, err := disk.Layout(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.mayWrite(number, disk, l); err != nil {
		return nil, err
	}
	own, err := disk.Number(ctx) // the disk's own, which may have changed
	if err != nil {
		return nil, hosterr.Wrap("get the disk's number", "", err)
	}
	folders, err := storage.Folders(ctx, d.host.Node, own.DeviceNumber)
	if err != nil {
		return nil, err
	}
	if len(folders) > 0 {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "its volume is mounted at %q (if that folder is gone, mountvol /R makes Windows forget it)", folders[0].Path)
	}
	look, err := disk.NewLook(ctx, own.DeviceNumber, l)
	if err != nil {
		return nil, err
	}
	return disk.Hold(ctx, look)
}

// mayWrite says why a read-only disk has to stay so: by the administrator's choice, a driver's
// request, or the node's need of it.
func (d DiskAPI) mayWrite(number uint32, disk *storage.Disk, l win32.Layout) error {
	switch {
	case d.host.Node.KeepReadOnly:
		return hosterr.Text(hosterr.ErrFailedPrecondition, "disks are kept read-only by -read-only-disks=keep")
	case disk.Protected(d.host.Ctx, number):
		return hosterr.Text(hosterr.ErrFailedPrecondition, "SetDiskReadOnly made it read-only")
	}
	return storage.GuardState(d.host.Ctx, disk, l)
}

// bringOnline makes the disk online. One that is read-only as well is in the state that the
// policy for disks on a shared bus leaves, so it becomes writable, unless that is switched off
// or the node itself needs the disk.
//
// Windows writes a new identity to a disk that has the one of another disk, such as a clone.
func (d DiskAPI) bringOnline(number uint32, disk *storage.Disk) error {
	ctx := d.host.Ctx
	attrs, err := disk.Attributes(ctx)
	if err != nil {
		return err
	}
	before, unread := disk.Layout(ctx)
	if unread != nil {
		// As published, the table of a disk that is offline does not matter.
		d.host.Node.Log.Warn("Taking a disk online whose partition table cannot be read", "disk", number, "err", unread)
		before = win32.Layout{Style: win32.PARTITION_STYLE_RAW}
	}
	readOnly := attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0
	clear := readOnly && unread == nil
	if clear {
		err = d.mayWrite(number, disk, before)
		if known := errors.Is(err, hosterr.ErrFailedPrecondition) && !errors.Is(err, storage.ErrNeedsUnknown); err != nil && !known {
			return err // the disk would be in use, and stay read-only
		}
		clear = err == nil
	}
	mask := uint64(win32.DISK_ATTRIBUTE_OFFLINE)
	if clear {
		mask |= win32.DISK_ATTRIBUTE_READ_ONLY
	}
	failed := disk.SetAttributes(ctx, 0, mask, storage.Remembered)
	switch {
	case win32.IsCode(failed, win32.ERROR_INVALID_PARAMETER):
		return d.refusedOnline(number, disk, before, readOnly && !clear, failed)
	case failed != nil:
		return failed
	case clear:
		if err := d.cleared(number, disk); err != nil {
			return err
		}
	case readOnly:
		d.host.Node.Log.Warn("Took a read-only disk online; it stays read-only", "disk", number, "err", errors.Join(err, unread))
	}
	if now, err := disk.Layout(ctx); err == nil && storage.Identity(before) != "" && storage.Identity(now) != storage.Identity(before) {
		d.host.Node.Log.Warn("Windows gave a disk a new identity, because another one has the same", "disk", number, "others", d.twins(number, before),
			"old", storage.Identity(before), "new", storage.Identity(now))
	}
	return nil
}

// cleared logs that a disk is writable from now on, unless its medium cannot be written.
func (d DiskAPI) cleared(number uint32, disk *storage.Disk) error {
	protected, err := disk.WriteProtected(d.host.Ctx)
	if err != nil {
		return err
	}
	if protected {
		d.host.Node.Log.Warn("Took a disk online whose medium cannot be written", "disk", number)
		return nil
	}
	serial := ""
	if desc, err := disk.Descriptor(d.host.Ctx); err == nil {
		serial = desc.SerialNumber
	}
	d.host.Node.Log.Info("Made a disk writable that was read-only", "disk", number, "serial", serial, "flag", "-read-only-disks=writable")
	return nil
}

// refusedOnline explains Windows' refusal to take a disk online, if another disk has the same
// identity or the disk is read-only.
func (d DiskAPI) refusedOnline(number uint32, disk *storage.Disk, l win32.Layout, readOnly bool, err error) error {
	others := d.twins(number, l)
	if !readOnly {
		protected, failed := disk.WriteProtected(d.host.Ctx)
		readOnly = failed == nil && protected
	}
	switch {
	case readOnly && len(others) > 0:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "it is read-only and has the identity of disk %s, so Windows cannot give it one of its own: %w", join(others), err)
	case readOnly:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "it is read-only, so Windows cannot give it an identity of its own: %w", err)
	case len(others) > 0:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "it has the identity of disk %s: %w", join(others), err)
	default:
		return err
	}
	return hosterr.WithHint("take the disk online", "", err,
		"if it is a copy of another disk, detach that one, or make this one writable first: SetDiskReadOnly, or Set-Disk -IsReadOnly $false")
}

// Identity returns the identity by which Windows distinguishes disks: the GUID of a GPT, or
// the signature of an MBR. It is "" for a disk without a partition table. A copy of a disk has the same one
// until Windows takes it online.
func (d DiskAPI) Identity(diskNumber uint32) (string, error) {
	l, err := d.layout(diskNumber)
	return storage.Identity(l), err
}

// twins returns the numbers of the other disks that have the identity of a disk with table l.
func (d DiskAPI) twins(number uint32, l win32.Layout) []uint32 {
	if storage.Identity(l) == "" {
		return nil
	}
	var others []uint32
	err := storage.EachDisk(d.host.Ctx, d.host.Node, storage.Query, func(n uint32, disk *storage.Disk) {
		if n == number {
			return
		}
		if o, err := disk.Layout(d.host.Ctx); err == nil && storage.Identity(o) == storage.Identity(l) {
			others = append(others, n)
		}
	})
	if err != nil {
		d.host.Node.Log.Warn("Failed to look for a disk with the same identity", "disk", number, "err", err)
	}
	return others
}

func join(numbers []uint32) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(texts, ", ")
}

// rescanLimit is how long a caller waits for a rescan. The rescan continues after it,
// and the next caller joins it.
const rescanLimit = time.Minute

var errRescanSlow = errors.New("rescan limit")

// Rescan implements [HostAPI]. Only one rescan runs at a time, because it is work for
// every bus of the node. A caller that arrives during a rescan waits for it and for
// the next one, because the first may have begun before the caller's change.
func (d DiskAPI) Rescan() error {
	if err := d.host.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(d.host.Ctx, rescanLimit, errRescanSlow)
	defer cancel()
	var mine atomic.Bool
	scan := func() error {
		mine.Store(true)
		return d.rescan(context.WithoutCancel(d.host.Ctx))
	}
	err := d.host.Node.Join(ctx, "rescan", scan)
	if !mine.Load() && ctx.Err() == nil {
		err = d.host.Node.Join(ctx, "rescan", scan)
	}
	if err != nil && errors.Is(context.Cause(ctx), errRescanSlow) {
		return hosterr.Text(hosterr.ErrUnavailable, "the rescan is still running after %s; try again later", rescanLimit)
	}
	return err
}

func (d DiskAPI) rescan(ctx context.Context) error {
	// The disks that are there already may have grown, whether or not Windows finds new
	// ones.
	scan := hosterr.Wrap("scan for new devices", "", d.host.Node.API.WithPrivilege(win32.SE_LOAD_DRIVER_NAME, win32.API.Reenumerate))
	sizes := storage.UpdateDisks(ctx, d.host.Node)
	storage.UpdateCache(ctx, d.host.Node)
	return errors.Join(scan, sizes)
}
