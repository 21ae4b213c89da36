package api

import (
	"errors"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// MountVolume implements [HostAPI]. Volumes that are Windows' own are refused.
func (v volumeAPI) MountVolume(volumeID, targetPath string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	extents, err := v.extents(volumeID)
	if err != nil {
		return err
	}
	if err := storage.GuardVolume(v.host.Ctx, v.host.Node, extents); err != nil {
		return err
	}
	// SetVolumeMountPoint takes a path. The directory is held, so that it cannot
	// be swapped for another between the look at it and the call.
	held, err := winfs.HoldDirectory(v.host.Ctx, v.host.Node, targetPath)
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
	err = storage.Retry(v.host.Ctx, v.host.Node, func() error { return v.host.Node.API.SetMountPoint(root(held.Path), volumeID) })
	if win32.IsCode(err, win32.ERROR_DIR_NOT_EMPTY) {
		// The same answer for a directory with something in it and for one on
		// which a volume was mounted just now.
		if link, ok, linkErr := winfs.Readlink(v.host.Ctx, v.host.Node, held.Path); linkErr == nil && ok {
			return v.mounted(link, volumeID)
		}
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "%w", err)
	}
	return hosterr.Wrap("set mount point", hosterr.Quote(held.Path), err)
}

// root is a directory as the mount point functions want it.
func root(dir string) string { return strings.TrimSuffix(dir, `\`) + `\` }

// mounted is nil if link mounts the volume.
func (v volumeAPI) mounted(link winfs.Link, volumeID string) error {
	switch {
	case link.Volume == "":
		return hosterr.Text(hosterr.ErrFailedPrecondition, "the target path is a link to %s, not a directory", hosterr.Quote(link.Substitute))
	case !v.same(link.Volume, volumeID):
		return hosterr.Text(hosterr.ErrFailedPrecondition, "another volume is mounted on the target path: %s", link.Volume)
	}
	return nil
}

// same tells whether two IDs name one volume. Windows may know a volume by more
// than one; it calls each by the same first name.
func (v volumeAPI) same(a, b string) bool {
	if storage.SameVolume(a, b) {
		return true
	}
	a, errA := v.host.Node.API.VolumeNameForMountPoint(a)
	b, errB := v.host.Node.API.VolumeNameForMountPoint(b)
	return errA == nil && errB == nil && storage.SameVolume(a, b)
}

// UnmountVolume implements [HostAPI]. The volume may be gone, its mount point
// stays behind and must go too. The target path may be gone or be a plain
// directory: then somebody, perhaps this call before its answer was lost,
// unmounted it.
func (v volumeAPI) UnmountVolume(volumeID, targetPath string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	held, err := winfs.HoldParent(v.host.Ctx, v.host.Node, targetPath)
	if errors.Is(err, hosterr.ErrNotFound) {
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
	err = storage.Retry(v.host.Ctx, v.host.Node, func() error { return v.host.Node.API.DeleteMountPoint(root(held.Path)) })
	if win32.IsCode(err, win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND) {
		return nil // somebody was faster
	}
	return hosterr.Wrap("delete mount point", hosterr.Quote(held.Path), err)
}

// WriteVolumeCache implements [HostAPI].
func (v volumeAPI) WriteVolumeCache(volumeID string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	return storage.FlushVolume(v.host.Ctx, v.host.Node, volumeID)
}
