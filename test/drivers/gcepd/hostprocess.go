package gcepd

import (
	"context"
	"errors"
	"fmt"

	disk "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	libdiskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	fs "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	libfsapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	volume "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	libvolumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// HostProcess is the driver's mounter with the library.
type HostProcess struct {
	Fs     fs.Interface
	Disk   disk.Interface
	Volume volume.Interface
}

// NewHostProcess makes the services for this node. Each is a pointer to a struct that
// is stored in a field of the Interface's type.
func NewHostProcess() (*HostProcess, error) {
	files, err := fs.New(libfsapi.New())
	if err != nil {
		return nil, err
	}
	disks, err := disk.New(libdiskapi.New())
	if err != nil {
		return nil, err
	}
	volumes, err := volume.New(libvolumeapi.New())
	if err != nil {
		return nil, err
	}
	return &HostProcess{Fs: files, Disk: disks, Volume: volumes}, nil
}

func (m *HostProcess) publish(ctx context.Context, staging, target string) error {
	_, err := m.Fs.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: staging, TargetPath: target})
	return err
}

func (m *HostProcess) look(ctx context.Context, path string) (exists, link bool, err error) {
	there, err := m.Fs.PathExists(ctx, &fs.PathExistsRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	is, err := m.Fs.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	return there.Exists, is.IsSymlink, nil
}

func (m *HostProcess) stage(ctx context.Context, device, target string) error {
	out, err := m.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, ids := range out.DiskIDs {
		if ids.Page83 != device {
			continue
		}
		if _, err := m.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
			return err
		}
		if _, err := m.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
			return err
		}
		return m.mount(ctx, number, target)
	}
	return fmt.Errorf("no disk %s", device)
}

func (m *HostProcess) mount(ctx context.Context, number uint32, target string) error {
	volumes, err := m.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	if len(volumes.VolumeIDs) == 0 {
		return errors.New("no volume")
	}
	id := volumes.VolumeIDs[0]
	formatted, err := m.Volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	_, err = m.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target})
	return err
}

func (m *HostProcess) unstage(ctx context.Context, target string) error {
	mounted, err := m.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	if _, err := m.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{TargetPath: target, VolumeID: mounted.VolumeID}); err != nil {
		return err
	}
	if _, err := m.Fs.Rmdir(ctx, &fs.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	on, err := m.Volume.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: mounted.VolumeID})
	if err != nil {
		return err
	}
	_, err = m.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: on.DiskNumber, IsOnline: false})
	return err
}

func (m *HostProcess) size(ctx context.Context, number uint32) (int64, error) {
	out, err := m.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

var (
	_ = (*HostProcess).publish
	_ = (*HostProcess).look
	_ = (*HostProcess).stage
	_ = (*HostProcess).unstage
	_ = (*HostProcess).size
)
