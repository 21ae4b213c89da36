// Package mounter is the mounter to which the pages in docs/migrating lead: written
// against the Interfaces, it works in process and through the pipes of a CSI Proxy.
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

// InProcess is the mounter of a HostProcess container.
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

// ThroughPipes is the mounter of a container that asks the CSI Proxy of its node.
// The connections last as long as the driver.
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
		return err // something else is on it, or it cannot be read: neither is a reason to format
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

// Unmount takes the volume at target away, and the directory. It may be repeated.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	id, err := m.Volume.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	switch {
	case errors.Is(err, hosterr.ErrNotFound), errors.Is(err, hosterr.ErrFailedPrecondition):
		// No such directory, or nothing mounted there.
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

// Expand lets the volume at target have all of its disk.
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

// Publish makes what is mounted at source appear at target. It may be repeated.
func (m *Mounter) Publish(ctx context.Context, source, target string) error {
	_, err := m.Filesystem.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

// Unpublish takes target away, and leaves what it led to. It may be repeated.
func (m *Mounter) Unpublish(ctx context.Context, target string) error {
	_, err := m.Filesystem.Rmdir(ctx, &filesystem.RmdirRequest{Path: target, Force: true})
	return err
}

// MountShare maps a share and links it at target. It may be repeated, also with a
// password that has changed.
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
