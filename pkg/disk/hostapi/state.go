package api

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// attributes returns the disk's DISK_ATTRIBUTE_ bits.
func (d DiskAPI) attributes(diskNumber uint32) (uint64, error) {
	if err := d.host.Ready(); err != nil {
		return 0, err
	}
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.Query)
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	return disk.Attributes(d.host.Ctx)
}

// GetDiskState implements [HostAPI].
func (d DiskAPI) GetDiskState(diskNumber uint32) (bool, error) {
	attrs, err := d.attributes(diskNumber)
	return attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0, err
}

// SetDiskState implements [HostAPI]. It logs a warning if the disk stays read-only,
// which SetDiskReadOnly would change. It waits for the volume even if the disk is
// already online, because the call that took it online may have ended before its
// volume arrived.
func (d DiskAPI) SetDiskState(diskNumber uint32, isOnline bool) error {
	attrs, err := d.attributes(diskNumber)
	if err != nil {
		return err
	}
	if isOnline && attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0 {
		d.host.Node.Log.Warn("Taking a read-only disk online; it stays read-only", "disk", diskNumber)
	}
	if online := attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0; online != isOnline {
		err = d.switchState(diskNumber, isOnline)
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
		if _, removed := d.attributes(diskNumber); removed != nil {
			return removed
		}
		d.host.Node.Log.Warn("Took disk online, but its volume did not arrive", "disk", diskNumber, "err", err)
	}
	return nil
}

func (d DiskAPI) switchState(diskNumber uint32, isOnline bool) error {
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()
	if isOnline {
		return d.bringOnline(disk)
	}
	l, err := disk.Layout(d.host.Ctx)
	if err != nil {
		return err
	}
	if err := storage.Guard(d.host.Ctx, disk, l); err != nil {
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
	return disk.SetAttributes(d.host.Ctx, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE)
}

// bringOnline makes the disk online. Windows writes a new identity to a disk that has the
// one of another disk, such as a clone, so it refuses if that disk is read-only. It stays
// so: the caller of SetDiskState asked for nothing else.
func (d DiskAPI) bringOnline(disk *storage.Disk) error {
	err := disk.SetAttributes(d.host.Ctx, 0, win32.DISK_ATTRIBUTE_OFFLINE)
	if !win32.IsCode(err, win32.ERROR_INVALID_PARAMETER) {
		return err
	}
	attrs, failed := disk.Attributes(d.host.Ctx)
	if failed != nil || attrs&win32.DISK_ATTRIBUTE_READ_ONLY == 0 {
		return err
	}
	return hosterr.WithHint("take the disk online", "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "it is read-only, so Windows cannot give it an identity of its own: %w", err),
		"if it is a copy of another disk, make it writable first: SetDiskReadOnly, or Set-Disk -IsReadOnly $false")
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
