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
	ids := []string{}
	wanted := func(storage.Located) bool { return true }
	if partitionNumber != 0 {
		p, ok, err := v.partition(diskNumber, partitionNumber)
		if err != nil || !ok {
			return ids, err
		}
		wanted = func(l storage.Located) bool { return l.Within(diskNumber, p) }
	}
	all, err := storage.Volumes(v.host.Ctx, v.host.Node)
	if err != nil {
		return nil, err
	}
	// The caller names the disk whose volumes it will use, so those that are offline are
	// brought online.
	brought, err := storage.OnlineVolumes(v.host.Ctx, v.host.Node, diskNumber, all)
	if err == nil && brought {
		all, err = storage.Volumes(v.host.Ctx, v.host.Node)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range storage.OnDisk(all, diskNumber) {
		if wanted(l) {
			ids = append(ids, l.ID)
		}
	}
	return ids, nil
}

func (v volumeAPI) partition(diskNumber, number uint32) (win32.Partition, bool, error) {
	disk, err := storage.OpenDisk(v.host.Ctx, v.host.Node, diskNumber, storage.Query)
	if errors.Is(err, hosterr.ErrNotFound) {
		return win32.Partition{}, false, nil
	}
	if err != nil {
		return win32.Partition{}, false, err
	}
	defer disk.Close()
	l, err := disk.Layout(v.host.Ctx)
	if err != nil {
		return win32.Partition{}, false, err
	}
	for _, p := range storage.Used(l) {
		if p.Number == number {
			return p, true, nil
		}
	}
	return win32.Partition{}, false, nil
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

// GetVolumeIDFromTargetPath implements [HostAPI]. It follows a link to a mount point. It
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
