package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Read)
	if err != nil {
		return false, err
	}
	defer vol.Close()
	length, err := vol.Length(v.host.Ctx)
	if err != nil {
		return false, err
	}
	c, err := vol.Look(v.host.Ctx, storage.Area{Length: length})
	rest = slices.Contains([]string{ntfs, storage.BootSector, storage.UnknownContent}, c.Name())
	if err == nil && c.Blank && length >= 3*storage.Edge {
		// The image of a disk that has lost its partition table has its first partition there.
		var inside storage.Content
		if inside, err = vol.Look(v.host.Ctx, storage.Area{Offset: storage.Edge, Length: storage.Edge}); inside.Kind != "" {
			c = inside
		}
	}
	if err != nil {
		return false, err
	}
	return rest, vol.Occupied(c, "check that the volume is free", "a volume", "volume", volumeID)
}

// found returns the volume's file system, or "" if it has none and is vacant. rest reports
// whether a format that was cut off may have left what is there.
func (v volumeAPI) found(volumeID string) (fs string, rest bool, err error) {
	fs, err = v.fileSystem(volumeID)
	if err != nil || fs != "" {
		return fs, fs == ntfs || corrupt(err), err
	}
	rest, occupied := v.vacant(volumeID)
	if errors.Is(occupied, hosterr.ErrFailedPrecondition) {
		// Another program may have formatted the volume in the meantime.
		if fs, err := v.fileSystem(volumeID); err == nil && fs != "" {
			return fs, fs == ntfs, nil
		}
		return "", rest, occupied
	}
	return "", false, occupied
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

// content is found, except that it returns "" for what a format has left that was cut off:
// remains of NTFS, or an NTFS without files, in a partition with the mark of a format. A
// volume that another program has mounted in a folder may have had files, so there the mark
// proves nothing about remains.
func (v volumeAPI) content(volumeID string) (string, error) {
	fs, rest, err := v.found(volumeID)
	if !rest {
		return fs, err
	}
	marked, failed := v.marked(volumeID)
	if failed != nil || !marked {
		return fs, cmp.Or(err, failed)
	}
	if fs == ntfs {
		var name string
		if name, err = storage.FirstName(v.host.Ctx, v.host.Node, volumeID); name != "" || err != nil && !corrupt(err) {
			return fs, err
		}
		err = damaged("list the root directory", err)
	}
	if err != nil {
		folders, failed := storage.MountFolders(v.host.Node, volumeID)
		if failed != nil || len(folders) > 0 {
			return fs, cmp.Or(failed, err)
		}
	}
	v.host.Node.Log.Info("Found a format that was cut off", "volume", volumeID)
	return "", nil
}

// IsVolumeFormatted implements [HostAPI].
func (v volumeAPI) IsVolumeFormatted(volumeID string) (bool, error) {
	if err := v.usable(volumeID); err != nil {
		return false, err
	}
	fs, err := v.content(volumeID)
	return fs != "" && err == nil, err
}

// FormatVolume implements [HostAPI]. Concurrent calls for one volume share one format. A
// format that has begun continues to its end, even if the context ends.
func (v volumeAPI) FormatVolume(volumeID string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	v.host.Ctx = context.WithoutCancel(v.host.Ctx)
	return v.host.Node.Join(v.host.Ctx, "format "+strings.ToLower(volumeID), func() error { return v.format(volumeID) })
}

func (v volumeAPI) format(volumeID string) error {
	t := &formatTries{api: v, volume: volumeID}
	for {
		done, err := t.try()
		if done {
			if err != nil {
				t.settle()
			}
			return err
		}
		pause, again := t.next(err)
		if !again {
			t.settle()
			return t.error(err)
		}
		if err := v.host.Node.Clock.Sleep(v.host.Ctx, pause); err != nil {
			return err
		}
	}
}

// settle takes the mark off again if the format that failed has left nothing, or if another
// program has files there. Otherwise the next FormatVolume finishes the format.
func (t *formatTries) settle() {
	v := t.api
	fs, _, err := v.found(t.volume)
	if err != nil {
		return
	}
	if fs == ntfs {
		if name, err := storage.FirstName(v.host.Ctx, v.host.Node, t.volume); err != nil || name == "" {
			return
		}
	}
	if err := v.unmark(t.volume, t.name); err != nil {
		v.host.Node.Log.Warn("Failed to remove the mark of a format", "volume", t.volume, "err", err)
	}
}

// formatTries are the tries of one FormatVolume.
type formatTries struct {
	api    volumeAPI
	volume string

	name    string    // of the partition, without a mark
	begun   bool      // Windows was asked to format the volume
	inUse   int       // how many tries failed because the volume was in use
	unknown time.Time // since when WMI does not know the volume; zero if it does
	pause   time.Duration
	refused bool  // WMI said that a parameter is invalid
	direct  bool  // WMI is not used any more
	wmi     error // of its last try
}

const (
	// unknownLimit is how long WMI may take to know a new volume. Other formatters wait
	// for up to 30 s.
	unknownLimit = 45 * time.Second
	firstPause   = 20 * time.Millisecond
	longestPause = 2 * time.Second
	maxInUse     = 3 // tries of a volume that is in use
	pauseInUse   = time.Second
	hintNoFormat = "see whether the service smphost is disabled on the node, and whether PowerShell's Get-Volume lists the volume"
)

// try formats the volume unless it has an empty NTFS file system. If done is false, the
// format failed with err, which is Windows' error.
func (t *formatTries) try() (done bool, err error) {
	v := t.api
	if err := storage.EnsureOnline(v.host.Ctx, v.host.Node, t.volume); err != nil {
		return true, err
	}
	// Each try checks the volume first: the last one may have formatted it although
	// it failed.
	fs, err := v.content(t.volume)
	if err != nil {
		return true, err
	}
	if done, err := v.formatted(t.volume, fs); err != nil || done {
		if err == nil && t.begun {
			err = v.openToUsers(t.volume)
		}
		return true, err
	}
	before, err := v.formattable(t.volume, fs == "")
	if err != nil {
		return true, err
	}
	if t.name == "" {
		t.name = before.name
	}
	// In the meantime another program may have formatted and filled the volume, so
	// check again right before the format. What was there when this call marked the
	// partition does not come from a format.
	again := v.content
	if !before.marked {
		again = func(id string) (string, error) {
			fs, _, err := v.found(id)
			return fs, err
		}
	}
	if fs, err = again(t.volume); err != nil {
		return true, err
	}
	if done, err := v.formatted(t.volume, fs); err != nil || done {
		return true, cmp.Or(err, v.unmark(t.volume, t.name))
	}
	t.begun = true
	err = v.host.Node.API.Format(t.volume, win32.FormatOptions{FileSystem: ntfs, Quick: true, Direct: t.direct})
	if err != nil {
		return false, err
	}
	if err := v.verify(t.volume); err != nil {
		return true, err
	}
	// As long as the mark is there, the next FormatVolume does all of this again.
	if err := v.openToUsers(t.volume); err != nil {
		return true, err
	}
	return true, v.unmark(t.volume, t.name)
}

// next decides whether to try again after Windows' error, and after which pause. It updates
// the cache of WMI's storage provider if the provider does not know the volume, and turns to
// formatting without WMI if that does not help.
func (t *formatTries) next(err error) (pause time.Duration, again bool) {
	now := t.api.host.Node.Clock.Now()
	switch {
	case t.direct && win32.IsCode(err, win32.ERROR_NOT_SUPPORTED):
		return 0, false
	case !t.direct && win32.IsCode(err, win32.ERROR_SERVICE_DISABLED):
		return 0, t.turn(err)
	case !t.direct && win32.IsCode(err, win32.ERROR_INVALID_PARAMETER):
		if t.refused {
			return 0, t.turn(err)
		}
		t.refused = true
		t.update()
		return 0, true
	case !t.direct && win32.IsCode(err, win32.ERROR_NOT_READY):
		if t.unknown.IsZero() {
			t.unknown = now
		} else if now.Sub(t.unknown) >= unknownLimit {
			return 0, t.turn(err)
		} else if t.pause == 0 {
			t.pause = firstPause
		} else {
			t.pause = min(2*t.pause, longestPause)
		}
		t.update()
		return t.pause, true
	// Other programs may have a new volume open for a moment.
	case win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_NOT_READY, win32.ERROR_BUSY):
		t.inUse++
		return pauseInUse, t.inUse < maxInUse
	}
	return 0, false
}

// turn goes on without WMI.
func (t *formatTries) turn(why error) bool {
	t.direct, t.wmi = true, why
	t.api.host.Node.Log.Warn("Formatting without WMI", "volume", t.volume, "err", why)
	return true
}

// update updates the cache of WMI's storage provider. The next try shows whether it helped.
func (t *formatTries) update() { storage.UpdateCache(t.api.host.Ctx, t.api.host.Node) }

// error returns the error of the last try.
func (t *formatTries) error(err error) error {
	if t.direct && win32.IsCode(err, win32.ERROR_NOT_SUPPORTED) {
		return hosterr.WithHint("make an NTFS file system", "", hosterr.Text(hosterr.ErrUnavailable, "WMI: %w; without WMI: %w", t.wmi, err), hintNoFormat)
	}
	return hosterr.Wrap("make an NTFS file system", "", storage.Gone(err))
}

// formatted reports whether the volume, which has file system fs, has an empty NTFS file
// system. Other content is an error.
func (v volumeAPI) formatted(volumeID, fs string) (bool, error) {
	switch fs {
	case "":
		return false, nil
	case ntfs:
		name, err := storage.FirstName(v.host.Ctx, v.host.Node, volumeID)
		if err != nil || name == "" {
			return err == nil, err
		}
		if v.host.Node.FormatExisting {
			if err := v.unshared(volumeID); err != nil {
				return false, err
			}
			v.host.Node.Log.Warn("Formatting an NTFS volume that is not empty", "volume", volumeID, "contains", name)
			return false, nil
		}
		return false, hosterr.TextWithHint(hosterr.ErrFailedPrecondition,
			"if the data may be lost, as with the local static provisioner, empty the volume first or start csi-proxy with -format-existing=ntfs",
			"it has an NTFS file system that is not empty (it contains %q), so it was not formatted", name)
	}
	return false, hosterr.Text(hosterr.ErrFailedPrecondition, "it already has a file system (%s), so it was not formatted", v.behind(volumeID, fs))
}

// behind returns the name of a file system for an error. Where Windows has no BitLocker, it
// mounts the FAT that BitLocker To Go puts in front of its data.
func (v volumeAPI) behind(volumeID, fs string) string {
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Read)
	if err != nil {
		return fs
	}
	defer vol.Close()
	const start = 4096 // at least a sector
	if c, err := vol.Look(v.host.Ctx, storage.Area{Length: start}); err == nil && c.Kind == storage.BitLocker {
		return fs + ", in front of a BitLocker volume"
	}
	return fs
}

// marking is the state of a partition before FormatVolume marked it.
type marking struct {
	name   string // without the mark
	marked bool
}

// formattable returns an error if the volume is not a basic data partition, or if its
// disk must not be changed. If mark is set, it marks the partition, which is known to be
// empty. If Windows does not rename it, that is logged: then a format that is cut off looks
// like damage afterwards, as on an MBR disk.
func (v volumeAPI) formattable(volumeID string, mark bool) (marking, error) {
	at, err := v.place(volumeID)
	if err != nil {
		return marking{}, err
	}
	disk, err := v.openDiskOf(volumeID, at, storage.ReadWrite)
	if err != nil {
		return marking{}, err
	}
	defer disk.Close()
	l, err := disk.Layout(v.host.Ctx)
	if err != nil {
		return marking{}, err
	}
	p, err := basicData(l, at)
	if err != nil {
		return marking{}, err
	}
	if err := storage.Guard(v.host.Ctx, disk, l); err != nil {
		return marking{}, err
	}
	if err := disk.Writable(v.host.Ctx, at.Disk); err != nil {
		return marking{}, err
	}
	if !mark {
		return marking{name: p.Name, marked: storage.Marked(p)}, nil
	}
	name, err := disk.Mark(v.host.Ctx, at.Disk, p)
	if err != nil && !v.endsFormat(err) {
		v.host.Node.Log.Warn("Formatting a partition without a mark", "volume", volumeID, "err", err)
		err = nil
	}
	return marking{name: name, marked: storage.Marked(p)}, err
}

// endsFormat reports whether a volume cannot be formatted because of the error of its mark:
// its disk is gone or cannot be written, another program changes the table, or the request
// has ended.
func (v volumeAPI) endsFormat(err error) bool {
	return v.host.Ctx.Err() != nil || errors.Is(storage.Gone(err), hosterr.ErrNotFound) || errors.Is(err, hosterr.ErrUnavailable) ||
		win32.IsCode(err, win32.ERROR_WRITE_PROTECT)
}

// marked reports whether the volume's partition has the mark of a format that has not ended.
func (v volumeAPI) marked(volumeID string) (bool, error) {
	marked := false
	err := v.partitionOf(volumeID, storage.Query, func(_ *storage.Disk, _ uint32, p win32.Partition) error {
		marked = storage.Marked(p)
		return nil
	})
	return marked, err
}

// unmark takes the mark of a format off the volume's partition, which gets this name, or if
// that is "" what stands behind the mark.
func (v volumeAPI) unmark(volumeID, name string) error {
	return v.partitionOf(volumeID, storage.ReadWrite, func(disk *storage.Disk, number uint32, p win32.Partition) error {
		return disk.Unmark(v.host.Ctx, number, p, name)
	})
}

// partitionOf calls do with the partition of a basic volume and its open disk. It does
// nothing for a volume of another kind, which has no mark.
func (v volumeAPI) partitionOf(volumeID string, access uint32, do func(disk *storage.Disk, number uint32, p win32.Partition) error) error {
	es, err := v.anyExtents(volumeID)
	if err != nil || len(es) != 1 {
		return err
	}
	disk, err := v.openDiskOf(volumeID, es[0], access)
	if err != nil {
		return err
	}
	defer disk.Close()
	l, err := disk.Layout(v.host.Ctx)
	if err != nil {
		return err
	}
	p, ok := storage.At(l, es[0].Offset)
	if !ok {
		return nil
	}
	return do(disk, es[0].Disk, p)
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

// verify returns an error if the volume does not have the new file system.
func (v volumeAPI) verify(volumeID string) error {
	fs, err := v.fileSystem(volumeID)
	if err == nil && fs != ntfs {
		err = hosterr.Text(hosterr.ErrUnavailable, "the format succeeded, but Windows finds the file system %q instead of NTFS", fs)
	}
	return err
}

// openToUsers lets the group Users change everything on a volume that was just formatted, if
// that was chosen.
func (v volumeAPI) openToUsers(volumeID string) error {
	if !v.host.Node.UsersModify {
		return nil
	}
	return storage.LetUsersModify(v.host.Ctx, v.host.Node, volumeID)
}

// GetVolumeStats implements [HostAPI].
func (v volumeAPI) GetVolumeStats(volumeID string) (totalBytes, usedBytes int64, err error) {
	if err := v.usable(volumeID); err != nil {
		return -1, -1, err
	}
	var total, free uint64
	err = storage.Retry(v.host.Ctx, v.host.Node, func() (err error) {
		_, total, free, err = v.host.Node.API.FreeSpace(volumeID)
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
