package api

import (
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MountVolume implements [HostAPI]. It refuses volumes that Windows needs.
func (v volumeAPI) MountVolume(volumeID, targetPath string) error {
	if err := v.usable(volumeID); err != nil {
		return err
	}
	extents, err := v.extents(volumeID)
	if err != nil {
		return err
	}
	if err := storage.GuardVolume(v.host.Ctx, v.host.Node, extents); err != nil {
		return err
	}
	if len(extents) == 1 {
		if err := v.writable(volumeID, extents[0]); err != nil {
			return err
		}
	}
	if err := v.repairRights(volumeID); err != nil {
		return err
	}
	// SetVolumeMountPoint takes a path. The directory's parent is held, so that the path
	// cannot lead elsewhere; the directory itself cannot be, because Windows opens it.
	held, err := winfs.Hold(v.host.Ctx, v.host.Node, targetPath)
	if errors.Is(err, hosterr.ErrNotFound) {
		return hosterr.TextWithHint(hosterr.ErrNotFound, "the driver makes it, with Mkdir, before it mounts a volume there", "the target directory does not exist: %w", err)
	}
	if err != nil {
		return err
	}
	defer held.Close()
	if held.Link != nil {
		return v.mounted(*held.Link, volumeID)
	}
	if err := v.host.Ctx.Err(); err != nil {
		return err
	}
	storage.FormatEnds(v.host.Node, volumeID) // from now on, what is on it may be a pod's
	err = storage.Retry(v.host.Ctx, v.host.Node, func() error { return v.host.Node.API.SetMountPoint(root(held.Path), volumeID) })
	if win32.IsCode(err, win32.ERROR_DIR_NOT_EMPTY) {
		// Windows returns this error for a directory with content, and also for one that
		// a volume was just mounted on.
		if link, ok, linkErr := winfs.Readlink(v.host.Ctx, v.host.Node, held.Path); linkErr == nil && ok {
			return v.mounted(link, volumeID)
		}
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	}
	if err == nil {
		err = v.mountedOn(held, volumeID)
	}
	return hosterr.Wrap("set mount point", hosterr.Quote(held.Path), err)
}

// writable returns an error if the disk of a volume is read-only, unless that is the
// administrator's choice.
func (v volumeAPI) writable(volumeID string, at win32.Extent) error {
	disk, err := v.openDiskOf(volumeID, at, storage.Query)
	if err != nil {
		return err
	}
	defer disk.Close()
	err = disk.Writable(v.host.Ctx, at.Disk)
	if v.host.Node.KeepReadOnly && errors.Is(err, hosterr.ErrFailedPrecondition) {
		v.host.Node.Log.Warn("Mounting a volume of a read-only disk", "volume", volumeID, "err", err)
		return nil
	}
	return err
}

// repairRights sets the rights of an empty NTFS volume, if the process that formatted it
// ended before it could.
func (v volumeAPI) repairRights(volumeID string) error {
	if !v.host.Node.UsersModify {
		return nil
	}
	if fs, err := v.fileSystem(volumeID); err != nil || fs != ntfs {
		return v.host.Ctx.Err() // another volume is mounted as it is
	}
	err := storage.LetUsersModify(v.host.Ctx, v.host.Node, volumeID, false)
	if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
		return nil // a copy, or one of many readers
	}
	return err
}

// mountedOn returns an error if another directory took the path of held before the volume
// was mounted there, or if another program unmounted the volume or removed the directory
// since. A repeated request checks the directory that is there now.
func (v volumeAPI) mountedOn(held *winfs.Held, volumeID string) error {
	if err := v.host.Ctx.Err(); err != nil {
		return err
	}
	volume, err := held.Mounted()
	if err != nil {
		return err
	}
	if volume == "" || !v.same(volume, volumeID) {
		if exists, err := winfs.Exists(v.host.Ctx, v.host.Node, held.Path); err != nil || !exists {
			return errors.Join(err, win32.ERROR_FILE_NOT_FOUND)
		}
		return hosterr.Text(hosterr.ErrUnavailable, "another program replaced the directory or unmounted the volume at the same time; try again")
	}
	return nil
}

// root returns a directory with the trailing backslash that mount point functions need.
func root(dir string) string { return strings.TrimSuffix(dir, `\`) + `\` }

// mounted returns nil if link is a mount point of the volume.
func (v volumeAPI) mounted(link winfs.Link, volumeID string) error {
	switch {
	case link.Volume == "":
		return hosterr.Text(hosterr.ErrFailedPrecondition, "the target path is a link to %s, not a directory", hosterr.Quote(link.Substitute))
	case !v.same(link.Volume, volumeID):
		return hosterr.Text(hosterr.ErrFailedPrecondition, "another volume is mounted on the target path: %s", link.Volume)
	}
	return nil
}

// same reports whether two IDs are of the same volume. Windows can have several IDs for
// a volume, and returns the same one for all of them.
func (v volumeAPI) same(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	a, errA := v.host.Node.API.VolumeNameForMountPoint(a)
	b, errB := v.host.Node.API.VolumeNameForMountPoint(b)
	return errA == nil && errB == nil && strings.EqualFold(a, b)
}

// UnmountVolume implements [HostAPI]. If the volume no longer exists, its mount point is
// left and is removed here. If the target path does not exist or is a plain directory,
// the volume was already unmounted, perhaps by an earlier call whose response was lost.
func (v volumeAPI) UnmountVolume(volumeID, targetPath string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	held, err := winfs.Hold(v.host.Ctx, v.host.Node, targetPath)
	// A device that stays away has taken its mount points with it.
	if errors.Is(err, hosterr.ErrNotFound) || winfs.IsAway(err) && v.host.Ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	if held.Link == nil {
		return nil
	}
	if err := v.mounted(*held.Link, volumeID); err != nil {
		return err
	}
	storage.FlushBeforeUnmount(v.host.Ctx, v.host.Node, volumeID)
	if err := v.host.Ctx.Err(); err != nil {
		return err
	}
	err = storage.Retry(v.host.Ctx, v.host.Node, held.Unmount)
	return hosterr.Wrap("delete mount point", hosterr.Quote(held.Path), err)
}

// WriteVolumeCache implements [HostAPI].
func (v volumeAPI) WriteVolumeCache(volumeID string) error {
	if err := v.usable(volumeID); err != nil {
		return err
	}
	return storage.FlushVolume(v.host.Ctx, v.host.Node, volumeID)
}
