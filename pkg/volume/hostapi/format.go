package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const ntfs = "NTFS"

// fileSystem is the name of the volume's file system, "" if Windows says that
// it recognises none. Any other failure to tell is an error: who hears "none"
// goes on to format.
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
		// As a format leaves it whose process died, or as damage does: nobody can
		// tell the two apart, so nothing is written.
		return "", hosterr.WithHint("ask for the file system", "",
			hosterr.Text(hosterr.ErrFailedPrecondition, "it has a file system that is damaged or was not finished, and is not changed: %w", err),
			"repair it with chkdsk; or, if nobody needs the data, wipe the first MiB of the volume and try again")
	case err != nil:
		return "", hosterr.Wrap("ask for the file system", "", storage.Gone(err))
	case info.FileSystem == "":
		return "", hosterr.Text(hosterr.ErrUnavailable, "Windows names no file system, and does not say that there is none")
	}
	return info.FileSystem, nil
}

// vacant refuses a volume that Windows takes for empty and that holds what
// another system put there.
func (v volumeAPI) vacant(volumeID string) error {
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Read)
	if err != nil {
		return err
	}
	defer vol.Close()
	b, err := vol.Start(v.host.Ctx, storage.ContentSize)
	if err != nil {
		return err
	}
	if content := storage.Content(b); content != "" {
		return hosterr.WithHint("check that the volume is free", "",
			hosterr.Text(hosterr.ErrFailedPrecondition, "it holds data (%s) that Windows cannot read and is not changed", content),
			"if nobody needs the data, wipe the first MiB of the volume and try again")
	}
	return nil
}

// content is fileSystem of a volume that, if it has none, is vacant.
func (v volumeAPI) content(volumeID string) (string, error) {
	fs, err := v.fileSystem(volumeID)
	if err != nil || fs != "" {
		return fs, err
	}
	taken := v.vacant(volumeID)
	if errors.Is(taken, hosterr.ErrFailedPrecondition) {
		// What is there now may be what another program has formatted just now.
		if fs, err := v.fileSystem(volumeID); err == nil && fs != "" {
			return fs, nil
		}
	}
	return "", taken
}

// IsVolumeFormatted implements [HostAPI].
func (v volumeAPI) IsVolumeFormatted(volumeID string) (bool, error) {
	if err := v.known(volumeID); err != nil {
		return false, err
	}
	fs, err := v.content(volumeID)
	return fs != "" && err == nil, err
}

// FormatVolume implements [HostAPI]. Formats of one volume at the same time are
// one. A format that has begun goes on to its end, whatever becomes of the context.
func (v volumeAPI) FormatVolume(volumeID string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	v.host.Ctx = context.WithoutCancel(v.host.Ctx)
	return v.host.Node.Join(v.host.Ctx, "format "+strings.ToLower(volumeID), func() error { return v.format(volumeID) })
}

func (v volumeAPI) format(volumeID string) error {
	return v.host.Poll(node.Pace{Pause: time.Second, Tries: 3}, func() (bool, error) {
		// Each try looks first what is there: the last one may have done more than
		// it says.
		if done, err := v.formatted(volumeID); err != nil || done {
			return true, err
		}
		if err := v.formattable(volumeID); err != nil {
			return true, err
		}
		// That took a while, in which another program may have formatted and
		// filled the volume: nothing comes between this look and the format.
		if done, err := v.formatted(volumeID); err != nil || done {
			return true, err
		}
		err := v.host.Node.API.Format(volumeID, win32.FormatOptions{FileSystem: ntfs, Quick: true})
		if err == nil {
			return true, v.verify(volumeID)
		}
		// Other programs may hold a fresh volume for a moment.
		inUse := win32.IsCode(err, win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_NOT_READY, win32.ERROR_BUSY)
		return !inUse, hosterr.Wrap("make an NTFS file system", "", storage.Gone(err))
	})
}

// formatted tells whether the volume is as a format leaves it; anything else
// that is on it is an error.
func (v volumeAPI) formatted(volumeID string) (bool, error) {
	fs, err := v.content(volumeID)
	if err != nil {
		return false, err
	}
	switch fs {
	case "":
		return false, nil
	case ntfs:
		name, err := storage.FirstName(v.host.Ctx, v.host.Node, volumeID)
		if err != nil || name == "" {
			return err == nil, err
		}
		if v.host.Node.FormatExisting {
			v.host.Node.Log.Warn("Formatting an NTFS volume that holds data", "volume", volumeID, "holds", name)
			return false, nil
		}
		return false, hosterr.TextWithHint(hosterr.ErrFailedPrecondition,
			"if the volume is to lose its data, as the local static provisioner wants, empty it first or start csi-proxy with -format-existing=ntfs",
			"it has an NTFS file system that is not empty (it holds %q) and is not formatted", name)
	}
	return false, hosterr.Text(hosterr.ErrFailedPrecondition, "it has a file system (%s) and is not formatted", fs)
}

// formattable refuses volumes that are not one basic data partition of a disk
// that may be changed.
func (v volumeAPI) formattable(volumeID string) error {
	at, err := v.place(volumeID)
	if err != nil {
		return err
	}
	disk, err := v.openDiskOf(volumeID, at, storage.Query)
	if err != nil {
		return err
	}
	defer disk.Close()
	l, err := disk.Layout(v.host.Ctx)
	if err != nil {
		return err
	}
	if _, err := basicData(l, at); err != nil {
		return err
	}
	return storage.Guard(v.host.Ctx, disk, l)
}

// place is the one extent of a basic volume.
func (v volumeAPI) place(volumeID string) (win32.Extent, error) {
	es, err := v.extents(volumeID)
	if err == nil && len(es) != 1 {
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "it is spread over %d places of its disks (a dynamic volume) and is not changed", len(es))
	}
	if err != nil {
		return win32.Extent{}, err
	}
	return es[0], nil
}

// openDiskOf opens the disk of the volume at a place. The number can have passed
// to another disk since the volume was asked for its place, so it is asked again
// while the disk is open.
func (v volumeAPI) openDiskOf(volumeID string, at win32.Extent, access uint32) (*storage.Disk, error) {
	disk, err := storage.OpenDisk(v.host.Ctx, v.host.Node, at.Disk, access)
	if err != nil {
		return nil, err
	}
	now, err := v.place(volumeID)
	if err == nil && (now.Disk != at.Disk || now.Offset != at.Offset) {
		err = hosterr.Text(hosterr.ErrUnavailable, "it moved from disk %d to disk %d meanwhile; try again", at.Disk, now.Disk)
	}
	if err != nil {
		disk.Close()
		return nil, err
	}
	return disk, nil
}

// basicData is the partition that begins where the volume does, if it is one
// for data.
func basicData(l win32.Layout, at win32.Extent) (win32.Partition, error) {
	p, ok := storage.At(l, at.Offset)
	switch {
	case !ok:
		return p, hosterr.Text(hosterr.ErrFailedPrecondition, "no partition of disk %d begins where it does (byte %d); it is not changed", at.Disk, at.Offset)
	case !storage.IsBasicData(l, p):
		return p, hosterr.Text(hosterr.ErrFailedPrecondition, "partition %d of disk %d is not a basic data partition and is not changed", p.Number, at.Disk)
	}
	return p, nil
}

// verify is nil if the volume has the file system that it was formatted with.
func (v volumeAPI) verify(volumeID string) error {
	fs, err := v.fileSystem(volumeID)
	if err == nil && fs != ntfs {
		err = hosterr.Text(hosterr.ErrUnavailable, "Windows said that the format succeeded, and finds no NTFS file system (but %q)", fs)
	}
	return err
}

// GetVolumeStats implements [HostAPI].
func (v volumeAPI) GetVolumeStats(volumeID string) (totalBytes, usedBytes int64, err error) {
	if err := v.known(volumeID); err != nil {
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
		return -1, -1, hosterr.Wrap("ask for the free space", "", storage.Gone(err))
	}
	if total > 1<<63-1 || free > total {
		return -1, -1, hosterr.Text(hosterr.ErrUnavailable, "Windows says that %d of %d bytes are free", free, total)
	}
	return int64(total), int64(total - free), nil
}
