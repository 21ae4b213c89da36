package api

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const ntfs = "NTFS"

// locked is FVE_E_LOCKED_VOLUME (winerror.h).
const locked win32.Errno = 0x80310000

// fileSystem returns the name of the volume's file system, or "" if Windows reports that
// it recognizes none. Every other failure is an error, because the caller formats volumes
// without a file system.
func (v volumeAPI) fileSystem(volumeID string) (string, error) {
	var info win32.VolumeInfo
	err := storage.Retry(v.host.Ctx, v.host.Node, func() (err error) {
		info, err = v.host.Node.API.VolumeInformation(volumeID)
		return err
	})
	switch {
	case win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME), err == nil && info.FileSystem == "RAW":
		return "", nil
	case win32.IsCode(err, win32.ERROR_DISK_CORRUPT, win32.ERROR_FILE_CORRUPT):
		return "", damaged("get the file system", err)
	case win32.IsCode(err, locked):
		return "", hosterr.WithHint("get the file system", "",
			hosterr.Text(hosterr.ErrFailedPrecondition, "it is locked by BitLocker, so it was not changed: %w", err),
			"unlock it with manage-bde -unlock; "+storage.ClearHint)
	case err != nil:
		return "", hosterr.Wrap("get the file system", "", storage.Gone(err))
	case info.FileSystem == "":
		return "", hosterr.Text(hosterr.ErrUnavailable, "Windows returned an empty file system name")
	}
	return info.FileSystem, nil
}

// vacant returns an error if a volume without a file system that Windows recognizes is not
// blank. rest reports whether a format that was cut off may have left what is there.
func (v volumeAPI) vacant(volumeID string) (rest bool, err error) {
	// While it is open, no other program can format it. Windows may open a damaged one for queries only.
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Read)
	if corrupt(err) {
		vol, err = storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Query)
	}
	if err != nil {
		return false, err
	}
	defer vol.Close()
	at, err := v.place(volumeID)
	if err != nil {
		return false, err
	}
	disk, err := v.openDiskOf(volumeID, at, storage.Read)
	if err != nil {
		return false, err
	}
	defer disk.Close()
	l, err := disk.Layout(v.host.Ctx)
	if err != nil {
		return false, err
	}
	look, err := disk.NewLook(v.host.Ctx, at.Disk, l)
	if err != nil {
		return false, err
	}
	refused, err := disk.Vacant(v.host.Ctx, look.In(storage.Area{Offset: at.Offset, Length: at.Length}))
	return storage.FormatMayLeave(v.host.Node, volumeID, refused), disk.TakenOffline(v.host.Ctx, at.Disk, err)
}

// look returns the file system of the volume, or "" if it may get one: it is blank, or has what
// a format has left that this process began. Anything else is an error.
func (v volumeAPI) look(volumeID string) (fs string, err error) {
	fs, rest, err := v.content(volumeID)
	if rest {
		begun, failed := storage.FormatBegun(v.host.Ctx, v.host.Node, volumeID)
		if failed != nil {
			return "", failed
		}
		if begun {
			v.host.Node.Log.Info("Found a format of this process that has not ended well", "volume", volumeID, "content", err)
			return "", nil
		}
	}
	return fs, mayStillRun("look at the volume", err)
}

// content returns the volume's file system, or "" if it is blank. rest reports whether an error
// is about content that a format which was cut off may have left.
func (v volumeAPI) content(volumeID string) (fs string, rest bool, err error) {
	fs, err = v.fileSystem(volumeID)
	if corrupt(err) {
		rest, failed := v.vacant(volumeID)
		return fs, rest || failed == nil, err
	}
	if err != nil || fs != "" {
		return fs, false, err
	}
	rest, err = v.vacant(volumeID)
	if errors.Is(err, hosterr.ErrFailedPrecondition) {
		// Another program may have formatted the volume in the meantime.
		if fs, err := v.fileSystem(volumeID); err == nil && fs != "" {
			return fs, false, nil
		}
	}
	return "", rest && err != nil, err
}

// mayStillRun gives the error of a volume that is locked its meaning: a format through WMI goes
// on after the process has ended that asked for it, or has stopped waiting.
func mayStillRun(op string, err error) error {
	if !win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION) {
		return err
	}
	return hosterr.Wrap(op, "", hosterr.Text(hosterr.ErrUnavailable, "it is locked, and a format of it may still run; try again later: %w", err))
}

// damaged is the error of a file system of which Windows says that it is corrupt. Either a
// format was interrupted or the file system is damaged: the two look the same, so nothing is
// written. It returns nil for nil.
func damaged(op string, err error) error {
	if err == nil {
		return nil
	}
	return hosterr.WithHint(op, "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "its file system is damaged or incomplete, so it was not changed: %w", err),
		"repair it with chkdsk; "+storage.ClearHint)
}

func corrupt(err error) bool {
	return win32.IsCode(err, win32.ERROR_DISK_CORRUPT, win32.ERROR_FILE_CORRUPT)
}

// IsVolumeFormatted implements [HostAPI].
func (v volumeAPI) IsVolumeFormatted(volumeID string) (bool, error) {
	if err := v.usable(volumeID); err != nil {
		return false, err
	}
	fs, err := v.look(volumeID)
	return fs != "" && err == nil, err
}

// FormatVolume implements [HostAPI]. Concurrent calls for one volume share one format. A
// format that has begun continues to its end, even if the context ends.
func (v volumeAPI) FormatVolume(volumeID string) error { return v.FormatVolumeWithUnit(volumeID, 0) }

// FormatVolumeWithUnit is FormatVolume with allocation units of a number of bytes, or, if that is
// 0, those that Windows chooses. An empty NTFS with other units is an error, unless the node's rule
// FormatExisting is set.
func (v volumeAPI) FormatVolumeWithUnit(volumeID string, bytes uint32) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	v.host.Ctx = context.WithoutCancel(v.host.Ctx)
	f := format{v, volumeID, bytes}
	own := false
	err := v.host.Node.Join(v.host.Ctx, "format "+strings.ToLower(volumeID), func() error {
		own = true
		return f.run()
	})
	if err != nil || own {
		return err
	}
	return f.hasUnit() // another call formatted it, perhaps with other units
}

// format is the format of one volume.
type format struct {
	v        volumeAPI
	volumeID string
	unit     uint32 // bytes of an allocation unit; 0 lets Windows choose
}

const (
	// unknownLimit is how long WMI may take to know a new volume. Other formatters wait
	// for up to 30 s.
	unknownLimit = 45 * time.Second
	maxInUse     = 3 // tries of a volume that is in use
	pauseInUse   = time.Second
	hintNoFormat = "see whether the service smphost is disabled on the node, and whether PowerShell's Get-Volume lists the volume"
)

// refusal is an error of Windows' format. Other errors end FormatVolume.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refused(err error, codes ...win32.Errno) bool {
	var r refusal
	return errors.As(err, &r) && win32.IsCode(r.error, codes...)
}

// run formats the volume through WMI, and without it if WMI does not know the volume.
func (f format) run() error {
	err := f.throughWMI()
	if refused(err, win32.ERROR_NOT_READY, win32.ERROR_INVALID_PARAMETER, win32.ERROR_SERVICE_DISABLED) {
		f.v.host.Node.Log.Warn("Formatting without WMI", "volume", f.volumeID, "err", err)
		wmi := err
		if err = f.unlessInUse(true); refused(err, win32.ERROR_NOT_SUPPORTED) {
			err = refusal{hosterr.TextWithHint(hosterr.ErrUnavailable, hintNoFormat, "WMI: %w; without WMI: %w", wmi, err)}
		}
	}
	if err == nil || f.v.leftNothing(f.volumeID) {
		storage.FormatEnds(f.v.host.Node, f.volumeID)
	}
	if errors.As(err, new(refusal)) {
		if f.unit != 0 && refused(err, win32.ERROR_INVALID_PARAMETER) {
			err = hosterr.TextWithHint(hosterr.ErrInvalid, "more than 65536 bytes need Windows Server 2019; with 0, Windows chooses", "Windows refuses allocation units of %d bytes: %w", f.unit, err)
		}
		return hosterr.Wrap("make an NTFS file system", "", storage.Gone(err))
	}
	return err
}

// leftNothing reports whether there is nothing to finish after a format of this process failed.
func (v volumeAPI) leftNothing(volumeID string) bool {
	if begun, err := storage.FormatBegun(v.host.Ctx, v.host.Node, volumeID); err != nil || !begun {
		return false
	}
	_, _, err := v.content(volumeID)
	return err == nil
}

// throughWMI formats the volume through WMI. The storage provider of WMI may not know a new
// volume, or say that a parameter is invalid, before its cache is updated.
func (f format) throughWMI() error {
	err := f.unlessInUse(false)
	if !refused(err, win32.ERROR_NOT_READY, win32.ERROR_INVALID_PARAMETER) {
		return err
	}
	return f.v.host.Poll(node.Pace{Pause: 20 * time.Millisecond, Longest: 2 * time.Second, Limit: unknownLimit}, func() (bool, error) {
		storage.UpdateCache(f.v.host.Ctx, f.v.host.Node) // the next try shows whether it helped
		err := f.unlessInUse(false)
		return !refused(err, win32.ERROR_NOT_READY), err
	})
}

// unlessInUse formats the volume. Other programs may have a new volume open for a moment.
func (f format) unlessInUse(direct bool) error {
	inUse := []win32.Errno{win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_BUSY}
	if direct {
		inUse = append(inUse, win32.ERROR_NOT_READY)
	}
	return f.v.host.Poll(node.Pace{Pause: pauseInUse, Tries: maxInUse}, func() (bool, error) {
		err := f.once(direct)
		return !refused(err, inUse...), err
	})
}

// once formats the volume unless it has an empty NTFS file system. The last try may have
// made that although it failed.
func (f format) once(direct bool) error {
	volumeID := f.volumeID
	if err := storage.EnsureOnline(f.v.host.Ctx, f.v.host.Node, volumeID); err != nil {
		return err
	}
	// What Windows recognizes may be what was asked for. The rest is looked at right before the format.
	var content error
	if fs, err := f.v.fileSystem(volumeID); err != nil || fs != "" {
		done, err := f.done()
		if done || err != nil && !errors.Is(err, hosterr.ErrFailedPrecondition) {
			return err
		}
		content = err
	}
	// Before content is refused: what clears it does not make the partition one that may be formatted.
	disk, at, err := f.v.formattable(volumeID)
	if err != nil {
		return err
	}
	begun := false
	defer func() {
		if !begun {
			disk.Close()
		}
	}()
	if err := f.fits(disk, at); err != nil {
		return err
	}
	if content != nil {
		return content
	}
	// In the meantime another program may have formatted and filled the volume.
	if done, err := f.done(); done || err != nil {
		return err
	}
	before, err := storage.FormatBegun(f.v.host.Ctx, f.v.host.Node, volumeID)
	if err != nil {
		return err
	}
	if err := storage.FormatBegins(f.v.host.Ctx, f.v.host.Node, volumeID, disk, at); err != nil {
		return err
	}
	begun = true // it has the disk now
	if err := f.v.host.Node.API.Format(volumeID, win32.FormatOptions{ClusterSize: f.unit, Direct: direct}); err != nil {
		if !before && neverBegan(err) {
			storage.FormatEnds(f.v.host.Node, volumeID)
		}
		return refusal{err}
	}
	fs, err := f.v.fileSystem(volumeID)
	if err == nil && fs != ntfs {
		err = hosterr.Text(hosterr.ErrUnavailable, "the format succeeded, but Windows finds the file system %q instead of NTFS", fs)
	}
	if err != nil {
		return err
	}
	return storage.LetUsersModify(f.v.host.Ctx, f.v.host.Node, volumeID, true)
}

// neverBegan reports whether Windows refused a format before it wrote anything, so that what is
// found there afterwards is another program's.
func neverBegan(err error) bool {
	return win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_BUSY, win32.ERROR_NOT_READY,
		win32.ERROR_INVALID_PARAMETER, win32.ERROR_NOT_SUPPORTED, win32.ERROR_SERVICE_DISABLED)
}

// done reports whether the volume has an empty NTFS file system. Content that is not to be
// formatted is an error.
func (f format) done() (bool, error) {
	volumeID := f.volumeID
	fs, err := f.v.look(volumeID)
	switch {
	case err != nil || fs == "":
		return false, err
	case fs != ntfs:
		return false, hosterr.TextWithHint(hosterr.ErrFailedPrecondition, storage.ClearHint, "it already has a file system (%s), so it was not formatted", f.v.behind(volumeID, fs))
	}
	name, err := storage.FirstName(f.v.host.Ctx, f.v.host.Node, volumeID)
	switch {
	case corrupt(err):
		return false, damaged("list the root directory", err)
	case err != nil:
		return false, mayStillRun("list the root directory", err)
	case name == "":
		err := f.hasUnit()
		if err == nil {
			return true, storage.LetUsersModify(f.v.host.Ctx, f.v.host.Node, volumeID, false)
		}
		// A file may come meanwhile, so only the rule that gives up content lets it be formatted.
		if !f.v.host.Node.FormatExisting || !errors.As(err, new(otherUnit)) {
			return false, err
		}
	}
	if f.v.host.Node.FormatExisting {
		if err := f.v.unshared(volumeID); err != nil {
			return false, err
		}
		f.v.host.Node.Log.Warn("Formatting an NTFS volume again", "volume", volumeID, "contains", name, "unit", f.unit)
		return false, nil
	}
	return false, hosterr.TextWithHint(hosterr.ErrFailedPrecondition,
		"if the data may be lost, as with the local static provisioner, empty the volume first or start csi-proxy with -format-existing=ntfs",
		"it has an NTFS file system that is not empty (it contains %q), so it was not formatted", name)
}

// otherUnit is the error of an empty NTFS with other allocation units than requested.
type otherUnit struct{ error }

func (o otherUnit) Unwrap() error { return o.error }

// hasUnit returns an error if the volume's NTFS has other allocation units than requested.
func (f format) hasUnit() error {
	if f.unit == 0 {
		return nil
	}
	vol, err := storage.OpenVolume(f.v.host.Ctx, f.v.host.Node, f.volumeID, storage.Read)
	if err != nil {
		return err
	}
	defer vol.Close()
	data, err := vol.NTFS(f.v.host.Ctx)
	if err == nil && data.BytesPerCluster != f.unit {
		err = otherUnit{hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "ask for the units that it has, or for 0; or start csi-proxy with -format-existing=ntfs; or "+storage.ClearHint,
			"it already has an empty NTFS file system with allocation units of %d bytes, not %d, so it was not formatted", data.BytesPerCluster, f.unit)}
	}
	return err
}

// fits returns an error if NTFS cannot have the requested allocation units on the volume. They
// are not smaller than a sector, and there are fewer than 2^32 (Microsoft: "NTFS overview").
func (f format) fits(disk *storage.Disk, at win32.Extent) error {
	if f.unit == 0 {
		return nil
	}
	g, err := disk.Geometry(f.v.host.Ctx)
	if err != nil {
		return err
	}
	least := g.BytesPerSector
	for at.Length/uint64(least) > math.MaxUint32 && least < 1<<31 {
		least *= 2
	}
	if f.unit < least {
		return hosterr.TextWithHint(hosterr.ErrInvalid, "ask for larger ones, or for 0, and Windows chooses",
			"allocation units of %d bytes are too small for its %d bytes with sectors of %d, want at least %d", f.unit, at.Length, g.BytesPerSector, least)
	}
	return nil
}

// behind returns the name of a file system for an error. Where Windows has no BitLocker, it
// mounts the FAT that BitLocker To Go puts in front of its data.
func (v volumeAPI) behind(volumeID, fs string) string {
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Read)
	if err != nil {
		return fs
	}
	defer vol.Close()
	if kind, err := vol.Begins(v.host.Ctx); err == nil && kind == storage.BitLocker {
		return fs + ", in front of a BitLocker volume"
	}
	return fs
}

// formattable returns the open disk of the volume and its place there. It is an error if the
// volume is not a basic data partition, or if its disk must not be changed.
func (v volumeAPI) formattable(volumeID string) (*storage.Disk, win32.Extent, error) {
	at, err := v.place(volumeID)
	if err != nil {
		return nil, at, err
	}
	disk, err := v.openDiskOf(volumeID, at, storage.Query)
	if err != nil {
		return nil, at, err
	}
	l, err := disk.Layout(v.host.Ctx)
	if err == nil {
		_, err = basicData(l, at)
	}
	if err == nil {
		err = storage.Guard(v.host.Ctx, disk, l)
	}
	if err == nil {
		err = disk.Writable(v.host.Ctx, at.Disk)
	}
	if err != nil {
		disk.Close()
		return nil, at, err
	}
	return disk, at, nil
}

// place returns the only extent of a basic volume.
func (v volumeAPI) place(volumeID string) (win32.Extent, error) {
	es, err := v.extents(volumeID)
	if err == nil && len(es) != 1 {
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "it has %d extents (a dynamic or spanned volume), so it was not changed", len(es))
	}
	if err != nil {
		return win32.Extent{}, err
	}
	return es[0], nil
}

// openDiskOf opens the disk of a volume with the given extent. Another disk may have got
// the number since the extent was read, so it is read again while the disk is open.
func (v volumeAPI) openDiskOf(volumeID string, at win32.Extent, access uint32) (*storage.Disk, error) {
	disk, err := storage.OpenDisk(v.host.Ctx, v.host.Node, at.Disk, access)
	if err != nil {
		return nil, err
	}
	now, err := v.place(volumeID)
	if err == nil && (now.Disk != at.Disk || now.Offset != at.Offset) {
		err = hosterr.Text(hosterr.ErrUnavailable, "it moved from disk %d to disk %d during the operation; try again", at.Disk, now.Disk)
	}
	if err != nil {
		disk.Close()
		return nil, err
	}
	return disk, nil
}

// basicData returns the partition that begins where the volume does. It is an error if
// that is not a basic data partition.
func basicData(l win32.Layout, at win32.Extent) (win32.Partition, error) {
	p, ok := storage.At(l, at.Offset)
	switch {
	case !ok:
		return p, hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d has no partition that begins at byte %d, as the volume does, so it was not changed", at.Disk, at.Offset)
	case !storage.IsBasicData(l, p):
		return p, hosterr.Text(hosterr.ErrFailedPrecondition, "partition %d of disk %d is not a basic data partition, so it was not changed", p.Number, at.Disk)
	}
	return p, nil
}

// GetVolumeStats implements [HostAPI].
func (v volumeAPI) GetVolumeStats(volumeID string) (totalBytes, usedBytes int64, err error) {
	if err := v.usable(volumeID); err != nil {
		return -1, -1, err
	}
	return v.space(volumeID)
}

// space returns the size and the used bytes of what has a root directory.
func (v volumeAPI) space(root string) (totalBytes, usedBytes int64, err error) {
	var total, free uint64
	err = storage.Retry(v.host.Ctx, v.host.Node, func() (err error) {
		_, total, free, err = v.host.Node.API.FreeSpace(root)
		return err
	})
	if win32.IsCode(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		return 0, 0, nil
	}
	if err != nil {
		return -1, -1, hosterr.Wrap("get the free space", "", storage.Gone(err))
	}
	if total > 1<<63-1 || free > total {
		return -1, -1, hosterr.Text(hosterr.ErrUnavailable, "Windows reports %d free bytes of %d", free, total)
	}
	return int64(total), int64(total - free), nil
}
