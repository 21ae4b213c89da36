// Package mounter is the result of the migrations in docs/drivers/migrating: a mounter that
// uses the Interfaces, in process or through the pipes of CSI Proxy.
package mounter

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Mounter does a node plugin's work on disks, shares and directories.
type Mounter struct {
	Disk       disk.Interface
	Volume     volume.Interface
	Filesystem filesystem.Interface
	SMB        smb.Interface
}

// InProcess returns the mounter of a HostProcess container.
func InProcess() (*Mounter, error) {
	d, err := disk.New(diskapi.New())
	if err != nil {
		return nil, err
	}
	v, err := volume.New(volumeapi.New())
	if err != nil {
		return nil, err
	}
	f, err := filesystem.New(filesystemapi.New())
	if err != nil {
		return nil, err
	}
	s, err := smb.New(smbapi.New(), f)
	if err != nil {
		return nil, err
	}
	return &Mounter{d, v, f, s}, nil
}

// ThroughPipes returns the mounter of a container that calls the CSI Proxy of its
// node. The connections stay open as long as the driver runs.
func ThroughPipes(ctx context.Context, opts ...remote.Option) (*Mounter, error) {
	d, err := remote.NewDisk(ctx, opts...)
	if err != nil {
		return nil, err
	}
	v, err := remote.NewVolume(ctx, opts...)
	if err != nil {
		return nil, err
	}
	f, err := remote.NewFilesystem(ctx, opts...)
	if err != nil {
		return nil, err
	}
	s, err := remote.NewSMB(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &Mounter{d, v, f, s}, nil
}

// FormatAndMount mounts the volume of the disk with a serial number at target,
// and formats it if it is new. It may be repeated.
func (m *Mounter) FormatAndMount(ctx context.Context, serial, target string) error {
	if _, err := m.Disk.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return err
	}
	list, err := m.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, id := range list.DiskIDs {
		if id.SerialNumber == serial {
			return m.mountDisk(ctx, number, target)
		}
	}
	return fmt.Errorf("no disk has the serial number %q", serial)
}

func (m *Mounter) mountDisk(ctx context.Context, number uint32, target string) error {
	if _, err := m.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if _, err := m.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	list, err := m.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	if len(list.VolumeIDs) != 1 {
		return fmt.Errorf("disk %d has the volumes %q, want one", number, list.VolumeIDs)
	}
	id := list.VolumeIDs[0]
	formatted, err := m.Volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err // the volume has other content or cannot be read: do not format it
	}
	if !formatted.Formatted {
		if _, err := m.Volume.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	if _, err := m.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: target}); err != nil {
		return err
	}
	_, err = m.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target})
	return err
}

// Unmount unmounts the volume at target and removes the directory. It may be repeated.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	id, err := m.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	switch {
	case errors.Is(err, hosterr.ErrNotFound), errors.Is(err, hosterr.ErrFailedPrecondition):
		// The directory does not exist, or no volume is mounted on it.
	case err != nil:
		return err
	default:
		if _, err := m.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: id.VolumeID, TargetPath: target}); err != nil {
			return err
		}
	}
	_, err = m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true})
	return err
}

// Expand grows the volume at target to the end of its disk.
func (m *Mounter) Expand(ctx context.Context, target string) error {
	if _, err := m.Disk.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return err
	}
	id, err := m.Volume.GetClosestVolumeIDFromTargetPath(ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	_, err = m.Volume.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id.VolumeID})
	return err
}

// Publish makes a link at target to source. It may be repeated.
func (m *Mounter) Publish(ctx context.Context, source, target string) error {
	_, err := m.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

// Unpublish removes the link at target and keeps what it leads to. It may be repeated.
func (m *Mounter) Unpublish(ctx context.Context, target string) error {
	_, err := m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true})
	return err
}

// MountShare maps a share and makes a link to it at target. It may be repeated, also
// with a new password.
func (m *Mounter) MountShare(ctx context.Context, share, target, user, password string) error {
	_, err := m.SMB.NewSMBGlobalMapping(ctx, &smb.NewSMBGlobalMappingRequest{RemotePath: share, LocalPath: target, Username: user, Password: password})
	return err
}

// UnmountShare removes the link, and the mapping if no other link uses it.
func (m *Mounter) UnmountShare(ctx context.Context, share, target string) error {
	if _, err := m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	_, err := m.SMB.RemoveSMBGlobalMapping(ctx, &smb.RemoveSMBGlobalMappingRequest{RemotePath: share})
	return err
}
