package vsphere

import (
	"context"
	"errors"
	"fmt"

	libdisk "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	libdiskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	libfs "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	libfsapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	libsystem "github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	libsystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/utils"
	libvolume "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	libvolumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// HostProcess is the driver's mounter with the library.
type HostProcess struct {
	FsClient     libfs.Interface
	DiskClient   libdisk.Interface
	VolumeClient libvolume.Interface
	SystemClient libsystem.Interface
}

// NewHostProcess makes the services for this node.
func NewHostProcess() (*HostProcess, error) {
	files, err := libfs.New(libfsapi.New())
	if err != nil {
		return nil, err
	}
	disks, err := libdisk.New(libdiskapi.New())
	if err != nil {
		return nil, err
	}
	volumes, err := libvolume.New(libvolumeapi.New())
	if err != nil {
		return nil, err
	}
	systems, err := libsystem.New(libsystemapi.New())
	if err != nil {
		return nil, err
	}
	return &HostProcess{FsClient: files, DiskClient: disks, VolumeClient: volumes, SystemClient: systems}, nil
}

// Node returns the serial number of the virtual machine.
func (m *HostProcess) Node(ctx context.Context) (string, error) {
	out, err := m.SystemClient.GetBIOSSerialNumber(ctx, &libsystem.GetBIOSSerialNumberRequest{})
	if err != nil {
		return "", err
	}
	return out.SerialNumber, nil
}

// Paths makes directories and links, checks and removes them. The driver imports
// package utils only for RunPowershellCmd; here the constant shows that the import
// compiles.
func (m *HostProcess) Paths(ctx context.Context, source, target string) (bool, error) {
	if len(target) > utils.MaxPathLengthWindows {
		return false, errors.New("too long")
	}
	_, made := m.FsClient.Mkdir(ctx, &libfs.MkdirRequest{Path: source})
	_, linked := m.FsClient.CreateSymlink(ctx, &libfs.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	if err := errors.Join(made, linked); err != nil {
		return false, err
	}
	there, err := m.FsClient.PathExists(ctx, &libfs.PathExistsRequest{Path: target})
	if err != nil || !there.Exists {
		return false, err
	}
	_, err = m.FsClient.Rmdir(ctx, &libfs.RmdirRequest{Path: target, Force: true})
	return err == nil, err
}

// setState replaces a PowerShell command of the driver.
func (m *HostProcess) setState(ctx context.Context, in *libdisk.SetDiskStateRequest) error {
	if _, err := m.DiskClient.SetDiskReadOnly(ctx, &libdisk.SetDiskReadOnlyRequest{DiskNumber: in.DiskNumber}); err != nil {
		return err
	}
	_, err := m.DiskClient.SetDiskState(ctx, in)
	return err
}

// Stage finds a disk by its identifier and mounts its first volume.
func (m *HostProcess) Stage(ctx context.Context, page83, target string) error {
	if _, err := m.DiskClient.Rescan(ctx, &libdisk.RescanRequest{}); err != nil {
		return err
	}
	ids, err := m.DiskClient.ListDiskIDs(ctx, &libdisk.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, of := range ids.DiskIDs {
		if of.Page83 == page83 {
			return m.mount(ctx, number, target)
		}
	}
	return fmt.Errorf("no disk %s", page83)
}

func (m *HostProcess) mount(ctx context.Context, number uint32, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &libdisk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if err := m.setState(ctx, &libdisk.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	volumes, err := m.VolumeClient.ListVolumesOnDisk(ctx, &libvolume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	id := volumes.VolumeIDs[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &libvolume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &libvolume.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &libvolume.MountVolumeRequest{VolumeID: id, TargetPath: target})
	return err
}

// Unstage unmounts a volume and takes its disk offline.
func (m *HostProcess) Unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &libvolume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	if _, err := m.VolumeClient.UnmountVolume(ctx, &libvolume.UnmountVolumeRequest{TargetPath: target, VolumeID: mounted.VolumeID}); err != nil {
		return err
	}
	on, err := m.VolumeClient.GetDiskNumberFromVolumeID(ctx, &libvolume.GetDiskNumberFromVolumeIDRequest{VolumeID: mounted.VolumeID})
	if err != nil {
		return err
	}
	return m.setState(ctx, &libdisk.SetDiskStateRequest{DiskNumber: on.DiskNumber, IsOnline: false})
}

// Grow grows a volume and returns the sizes of its disk and the volume.
func (m *HostProcess) Grow(ctx context.Context, number uint32, id string) (whole, total, used int64, err error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &libvolume.ResizeVolumeRequest{VolumeID: id, SizeBytes: 0}); err != nil {
		return 0, 0, 0, err
	}
	disks, err := m.DiskClient.GetDiskStats(ctx, &libdisk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, 0, 0, err
	}
	out, err := m.VolumeClient.GetVolumeStats(ctx, &libvolume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		return 0, 0, 0, err
	}
	return disks.TotalBytes, out.TotalBytes, out.UsedBytes, nil
}
