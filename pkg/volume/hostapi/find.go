package api

import (
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ListVolumesOnDisk implements [HostAPI]. It returns an empty list for a disk or
// partition that does not exist.
func (v volumeAPI) ListVolumesOnDisk(diskNumber, partitionNumber uint32) ([]string, error) {
	if err := v.host.Ready(); err != nil {
		return nil, err
	}
	all, err := storage.OnDisk(v.host.Ctx, v.host.Node, diskNumber, partitionNumber, true)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, l := range all {
		ids = append(ids, l.ID)
	}
	return ids, nil
}

// extents returns the extents of a volume, of which there is at least one.
func (v volumeAPI) extents(volumeID string) ([]win32.Extent, error) {
	es, err := v.anyExtents(volumeID)
	if err == nil && len(es) == 0 {
		err = hosterr.Text(hosterr.ErrNotFound, "the disk of the volume was not found")
	}
	return es, err
}

// anyExtents returns the extents of a volume. A volume whose driver reports no disk has none.
func (v volumeAPI) anyExtents(volumeID string) ([]win32.Extent, error) {
	vol, err := storage.OpenVolume(v.host.Ctx, v.host.Node, volumeID, storage.Query)
	if err != nil {
		return nil, err
	}
	defer vol.Close()
	return vol.Extents(v.host.Ctx)
}

// GetDiskNumberFromVolumeID implements [HostAPI].
func (v volumeAPI) GetDiskNumberFromVolumeID(volumeID string) (uint32, error) {
	if err := v.known(volumeID); err != nil {
		return 0, err
	}
	es, err := v.extents(volumeID)
	if win32.IsCode(err, win32.ERROR_NOT_READY) && storage.EnsureOnline(v.host.Ctx, v.host.Node, volumeID) == nil {
		es, err = v.extents(volumeID)
	}
	if errors.Is(err, hosterr.ErrNotFound) {
		// A mount point keeps the ID of its volume while there is no such volume.
		return 0, hosterr.WithHint("open the volume, whose disk is detached or offline", "", err,
			"attach the disk, or take it online with SetDiskState")
	}
	if err != nil {
		return 0, err
	}
	return es[0].Disk, nil
}

// unshared returns an error if a part of the volume is in use as a volume of its own: a link
// in a working directory leads below its root. The local static provisioner can have several
// volumes on a disk, which are directories.
func (v volumeAPI) unshared(volumeID string) error {
	link, err := winfs.LinkBelow(v.host.Ctx, v.host.Node, volumeID)
	if err != nil {
		// The kind of err, such as not found, is not the kind of this error.
		return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, hosterr.HintOf(err), "cannot find out whether a part of it is in use as another volume, so it was not formatted: %v", err)
	}
	if link != "" {
		return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "remove the files of the volume that was released, instead of formatting all of them; if the link is of no use, remove it",
			"link %s leads to a part of it, which would be lost, so it was not formatted", hosterr.Quote(link))
	}
	return nil
}

// GetVolumeIDFromTargetPath implements [HostAPI]. It follows a link to the root of a volume. It
// also returns the ID of a volume that no longer exists, so that it can be unmounted.
//
// The AWS EBS driver continues after an error only if the text contains one of two
// phrases from CSI Proxy up to v1.2.1. The texts of v1.3.0 end with "not a mounted folder"
// and with Windows' message. The errors here contain both.
func (v volumeAPI) GetVolumeIDFromTargetPath(targetPath string) (string, error) {
	if err := v.host.Ready(); err != nil {
		return "", err
	}
	id, mounted, err := winfs.MountedVolume(v.host.Ctx, v.host.Node, targetPath)
	switch {
	case err == nil && mounted:
		return id, nil
	case err == nil:
		err = hosterr.Text(hosterr.ErrFailedPrecondition, "no volume is mounted on %s ((Get-Item -Path $Env:mount).Target, output: , error: <nil>): not a mounted folder", hosterr.Quote(targetPath))
	case win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND):
		err = hosterr.Text(hosterr.ErrNotFound, "cannot find path %s because it does not exist: %w", hosterr.Quote(targetPath), err)
	}
	return "", err
}

// GetClosestVolumeIDFromTargetPath implements [HostAPI].
func (v volumeAPI) GetClosestVolumeIDFromTargetPath(targetPath string) (string, error) {
	if err := v.host.Ready(); err != nil {
		return "", err
	}
	return winfs.VolumeOf(v.host.Ctx, v.host.Node, targetPath)
}

// PathKind is what is at a path.
type PathKind uint32

// What may be at a path. The numbers are those of package volume.
const (
	Absent    = PathKind(winfs.Absent)
	File      = PathKind(winfs.File)
	Directory = PathKind(winfs.Directory)
	// Mounted is a mount point of a volume that the node has.
	Mounted = PathKind(winfs.Mounted)
	// Linked is a symbolic link or a junction that is not known to be broken.
	Linked = PathKind(winfs.Linked)
	// Broken is a mount point or link whose target the node does not have.
	Broken = PathKind(winfs.Broken)
)

// PathKind returns what is at a path, and the volume of a mount point. It opens neither that
// volume's file system nor a share that a link leads to.
func (v volumeAPI) PathKind(path string) (PathKind, string, error) {
	if err := v.host.Ready(); err != nil {
		return 0, "", err
	}
	kind, volumeID, err := winfs.Look(v.host.Ctx, v.host.Node, path)
	return PathKind(kind), volumeID, err
}

// PathStats returns the size and the used bytes of the volume or mapped share that a path leads
// to. Both are -1 with an error.
func (v volumeAPI) PathStats(path string) (totalBytes, usedBytes int64, err error) {
	if err := v.host.Ready(); err != nil {
		return -1, -1, err
	}
	volumeID, share, err := winfs.Holder(v.host.Ctx, v.host.Node, path)
	switch {
	case err != nil:
		return -1, -1, err
	case share != "":
		return v.space(share)
	}
	return v.GetVolumeStats(volumeID)
}
