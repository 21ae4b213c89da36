// Package pipes is the mounter of a driver that uses the client module v1.x: it has a
// client for each group and version, and distinguishes errors by their texts. It
// compiles with the published client and with ours.
package pipes

import (
	"context"
	"fmt"
	"strings"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	volumeapibeta "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	volumebeta "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
)

// Mounter does a node plugin's work on disks and directories.
type Mounter struct {
	disks   *disk.Client
	volumes *volume.Client
	files   *filesystem.Client
}

// NewMounter connects to the CSI Proxy of this node.
func NewMounter() (*Mounter, error) {
	disks, err := disk.NewClient()
	if err != nil {
		return nil, err
	}
	volumes, err := volume.NewClient()
	if err != nil {
		return nil, err
	}
	files, err := filesystem.NewClient()
	if err != nil {
		return nil, err
	}
	return &Mounter{disks, volumes, files}, nil
}

// FormatAndMount mounts the volume of the disk with a serial number at target,
// and formats it if it is new.
func (m *Mounter) FormatAndMount(ctx context.Context, serial, target string) error {
	if _, err := m.disks.Rescan(ctx, &diskapi.RescanRequest{}); err != nil {
		return err
	}
	list, err := m.disks.ListDiskIDs(ctx, &diskapi.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, id := range list.DiskIDs {
		if strings.TrimSpace(id.SerialNumber) == serial {
			return m.mountDisk(ctx, number, target)
		}
	}
	return fmt.Errorf("no disk has the serial number %q", serial)
}

func (m *Mounter) mountDisk(ctx context.Context, number uint32, target string) error {
	if _, err := m.disks.PartitionDisk(ctx, &diskapi.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if _, err := m.disks.SetDiskState(ctx, &diskapi.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	list, err := m.volumes.ListVolumesOnDisk(ctx, &volumeapi.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	if len(list.VolumeIds) == 0 {
		return fmt.Errorf("disk %d has no volume", number)
	}
	id := list.VolumeIds[0]
	formatted, err := m.volumes.IsVolumeFormatted(ctx, &volumeapi.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.volumes.FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	if _, err := m.files.Mkdir(ctx, &filesystemapi.MkdirRequest{Path: target}); err != nil {
		return err
	}
	_, err = m.volumes.MountVolume(ctx, &volumeapi.MountVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

// Unmount unmounts the volume at target and removes the directory.
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	id, err := m.volumes.GetVolumeIDFromTargetPath(ctx, &volumeapi.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		if strings.Contains(err.Error(), "not a mounted folder") || strings.Contains(err.Error(), "cannot find") {
			return nil
		}
		return err
	}
	if _, err := m.volumes.UnmountVolume(ctx, &volumeapi.UnmountVolumeRequest{VolumeId: id.VolumeId, TargetPath: target}); err != nil {
		return err
	}
	_, err = m.files.Rmdir(ctx, &filesystemapi.RmdirRequest{Path: target, Force: true})
	return err
}

// Expand grows the volume at target to the end of its disk.
func (m *Mounter) Expand(ctx context.Context, target string) error {
	if _, err := m.disks.Rescan(ctx, &diskapi.RescanRequest{}); err != nil {
		return err
	}
	id, err := m.volumes.GetVolumeIDFromTargetPath(ctx, &volumeapi.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	_, err = m.volumes.ResizeVolume(ctx, &volumeapi.ResizeVolumeRequest{VolumeId: id.VolumeId})
	return err
}

// Publish makes a link at target to source.
func (m *Mounter) Publish(ctx context.Context, source, target string) error {
	link, err := m.files.PathExists(ctx, &filesystemapi.PathExistsRequest{Path: target})
	if err != nil || link.Exists {
		return err
	}
	_, err = m.files.CreateSymlink(ctx, &filesystemapi.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

// Unpublish removes the link at target and keeps what it leads to.
func (m *Mounter) Unpublish(ctx context.Context, target string) error {
	_, err := m.files.Rmdir(ctx, &filesystemapi.RmdirRequest{Path: target, Force: true})
	return err
}

// Close closes the connections.
func (m *Mounter) Close() {
	m.disks.Close()
	m.volumes.Close()
	m.files.Close()
}

// VolumeSizeByHand returns the size of a volume, using the version that is served.
func VolumeSizeByHand(ctx context.Context, id string) (total int64, err error) {
	if c, err := volume.NewClient(); err == nil {
		defer c.Close()
		out, err := c.GetVolumeStats(ctx, &volumeapi.GetVolumeStatsRequest{VolumeId: id})
		return out.GetTotalBytes(), err
	}
	c, err := volumebeta.NewClient()
	if err != nil {
		return 0, err // the proxy is too old, not running, or refuses access
	}
	defer c.Close()
	out, err := c.VolumeStats(ctx, &volumeapibeta.VolumeStatsRequest{VolumeId: id})
	return out.GetVolumeSize(), err
}

// VolumeSize does the same with package negotiate: ctx limits how long it waits for a
// proxy that is starting, and the error says which of the three it is.
func VolumeSize(ctx context.Context, id string) (total int64, err error) {
	conn, err := negotiate.Connect(ctx, volume.GroupName, []apiversion.Version{volume.Version, volumebeta.Version})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if conn.Version == volume.Version {
		out, err := volumeapi.NewVolumeClient(conn).GetVolumeStats(ctx, &volumeapi.GetVolumeStatsRequest{VolumeId: id})
		return out.GetTotalBytes(), err
	}
	out, err := volumeapibeta.NewVolumeClient(conn.ClientConn).VolumeStats(ctx, &volumeapibeta.VolumeStatsRequest{VolumeId: id})
	return out.GetVolumeSize(), err
}
