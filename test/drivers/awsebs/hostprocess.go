package awsebs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	disk "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	fs "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	fsapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	volume "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// HostProcess is the driver's mounter with the library: the same calls, in process.
type HostProcess struct {
	FsClient     fs.Interface
	DiskClient   disk.Interface
	VolumeClient volume.Interface
}

// NewHostProcess makes the services for this node.
func NewHostProcess() (*HostProcess, error) {
	files, err := fs.New(fsapi.New())
	if err != nil {
		return nil, err
	}
	disks, err := disk.New(diskapi.New())
	if err != nil {
		return nil, err
	}
	volumes, err := volume.New(volumeapi.New())
	if err != nil {
		return nil, err
	}
	return &HostProcess{FsClient: files, DiskClient: disks, VolumeClient: volumes}, nil
}

// FindDisk finds a disk by its serial number.
func (m *HostProcess) FindDisk(ctx context.Context, serial string) (string, error) {
	out, err := m.DiskClient.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return "", err
	}
	for number, ids := range out.DiskIDs {
		if strings.Contains(ids.SerialNumber, serial) {
			return strconv.Itoa(int(number)), nil
		}
	}
	return "", fmt.Errorf("no disk %s", serial)
}

// FindLUN finds a disk by its location.
func (m *HostProcess) FindLUN(ctx context.Context, lun string) (uint32, error) {
	out, err := m.DiskClient.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return 0, err
	}
	for number, at := range out.DiskLocations {
		if strings.EqualFold(at.LUNID, lun) {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no LUN %s", lun)
}

// Prepare removes what is at a path and makes a link there.
func (m *HostProcess) Prepare(ctx context.Context, staging, target string) error {
	there, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: target})
	if err != nil {
		return err
	}
	if there.Exists {
		is, err := m.FsClient.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: target})
		if err != nil || is.IsSymlink {
			return err
		}
		if _, err := m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Force: true}); err != nil {
			return err
		}
	}
	if _, err := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: target}); err != nil {
		return err
	}
	_, err = m.FsClient.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: staging, TargetPath: target})
	return err
}

// Stage mounts a volume on a directory.
func (m *HostProcess) Stage(ctx context.Context, number uint32, target string) error {
	if _, err := m.DiskClient.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return err
	}
	if _, err := m.DiskClient.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if _, err := m.DiskClient.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	volumes, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	if len(volumes.VolumeIDs) == 0 {
		return os.ErrNotExist
	}
	id := volumes.VolumeIDs[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target})
	return err
}

// Unstage unmounts a volume.
func (m *HostProcess) Unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	if out, err := m.VolumeClient.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: mounted.VolumeID}); err != nil {
		return fmt.Errorf("%v: %w", out, err)
	}
	_, failed := m.VolumeClient.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: mounted.VolumeID, TargetPath: target})
	on, err := m.VolumeClient.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: mounted.VolumeID})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	_, err = m.DiskClient.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: on.DiskNumber, IsOnline: false})
	return err
}

// Grow grows a volume and returns the sizes of its disk and the volume.
func (m *HostProcess) Grow(ctx context.Context, number uint32, id string, size int64) (int64, int64, error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id, SizeBytes: size}); err != nil {
		return -1, -1, err
	}
	whole, err := m.DiskClient.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return -1, -1, err
	}
	part, err := m.VolumeClient.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		return -1, -1, err
	}
	return whole.TotalBytes, part.TotalBytes, nil
}
