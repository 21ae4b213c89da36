// Package awsebs uses the identifiers that the AWS EBS CSI driver uses
// (kubernetes-sigs/aws-ebs-csi-driver, pkg/mounter): pipes.go those of the client in
// mount_windows_proxyV1.go at b75c575c5fba and safe_mounter_windows.go at
// 9f2cc4ef6ae1, hostprocess.go those of the library in mount_windows_proxyV2.go at
// ad9f05d027cb. Its go.mod at 0163e7b86ac8 has client v1.3.0 and library
// v2.0.0-alpha.2, replaced by alpha.1.
package awsebs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// Pipes is the driver's mounter with the proxy.
type Pipes struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
}

// NewPipes connects to the proxy.
func NewPipes() (*Pipes, error) {
	files, err := fsclient.NewClient()
	if err != nil {
		return nil, err
	}
	disks, err := diskclient.NewClient()
	if err != nil {
		return nil, err
	}
	volumes, err := volumeclient.NewClient()
	if err != nil {
		return nil, err
	}
	return &Pipes{FsClient: files, DiskClient: disks, VolumeClient: volumes}, nil
}

// FindDisk connects for a single call, as the driver did before it kept clients, and
// reads the response with its getters.
func FindDisk(ctx context.Context, serial string) (string, error) {
	disks, err := diskclient.NewClient()
	if err != nil {
		return "", err
	}
	defer disks.Close()
	out, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return "", err
	}
	for number, ids := range out.GetDiskIDs() {
		if strings.Contains(ids.GetSerialNumber(), serial) {
			return strconv.Itoa(int(number)), nil
		}
	}
	return "", fmt.Errorf("no disk %s", serial)
}

// FindLUN finds a disk by its location.
func (m *Pipes) FindLUN(ctx context.Context, lun string) (uint32, error) {
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
func (m *Pipes) Prepare(ctx context.Context, staging, target string) error {
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
func (m *Pipes) Stage(ctx context.Context, number uint32, target string) error {
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
	if len(volumes.VolumeIds) == 0 {
		return os.ErrNotExist
	}
	id := volumes.VolumeIds[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

// Unstage unmounts a volume.
func (m *Pipes) Unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	if out, err := m.VolumeClient.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeId: mounted.VolumeId}); err != nil {
		return fmt.Errorf("%v: %w", out, err)
	}
	_, failed := m.VolumeClient.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeId: mounted.VolumeId, TargetPath: target})
	on, err := m.VolumeClient.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeId: mounted.VolumeId})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	_, err = m.DiskClient.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: on.DiskNumber, IsOnline: false})
	return err
}

// Grow grows a volume and returns the sizes of its disk and the volume.
func (m *Pipes) Grow(ctx context.Context, number uint32, id string) (int64, int64, error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id}); err != nil {
		return -1, -1, err
	}
	whole, err := m.DiskClient.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return -1, -1, err
	}
	part, err := m.VolumeClient.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	if err != nil {
		return -1, -1, err
	}
	return whole.TotalBytes, part.TotalBytes, nil
}
