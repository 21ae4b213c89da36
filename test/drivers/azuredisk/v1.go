// Package azuredisk uses the identifiers that the Azure Disk CSI driver uses
// (kubernetes-sigs/azuredisk-csi-driver, pkg/mounter): v1.go those of
// safe_mounter_windows.go at 7bc5bcf24423, v1beta.go those of
// safe_mounter_v1beta_windows.go at e532f578d3b2. Its go.mod at 003e4affc782 has
// client v1.1.3. In HostProcess containers the driver makes Windows calls itself.
package azuredisk

import (
	"context"
	"fmt"
	"strings"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// V1 is the driver's mounter for the stable versions.
type V1 struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
}

// NewV1 connects to the proxy.
func NewV1() (*V1, error) {
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
	return &V1{FsClient: files, DiskClient: disks, VolumeClient: volumes}, nil
}

func (m *V1) versions() string {
	return fmt.Sprintf("%s, %s, %s", fsclient.Version, diskclient.Version, volumeclient.Version)
}

func (m *V1) paths(ctx context.Context, source, target string) error {
	if _, err := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: target}); err != nil {
		return err
	}
	if out, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: target}); err != nil || !out.Exists {
		return err
	}
	if out, err := m.FsClient.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: target}); err != nil || out.IsSymlink {
		return err
	}
	if _, err := m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	_, err := m.FsClient.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	return err
}

func (m *V1) diskOfLUN(ctx context.Context, lun string) (number uint32, err error) {
	if _, err := m.DiskClient.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return 0, err
	}
	out, err := m.DiskClient.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return 0, err
	}
	for n, at := range out.DiskLocations {
		if strings.EqualFold(at.LUNID, lun) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no LUN %s", lun)
}

func (m *V1) stage(ctx context.Context, number uint32, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	out, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	id := out.VolumeIds[0]
	is, err := m.VolumeClient.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !is.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

// flush prints responses, which are nil if there is an error.
func (m *V1) flush(ctx context.Context, target string) string {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil || mounted == nil {
		return fmt.Sprintf("%v %v", err, mounted)
	}
	out, err := m.VolumeClient.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeId: mounted.VolumeId})
	return fmt.Sprintf("%v %v", err, out)
}

func (m *V1) grow(ctx context.Context, id string) (total, used int64, err error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id, SizeBytes: 0}); err != nil {
		return 0, 0, err
	}
	out, err := m.VolumeClient.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, err
	}
	return out.TotalBytes, out.UsedBytes, nil
}

// mounter is implemented for both versions.
type mounter interface {
	versions() string
	paths(ctx context.Context, source, target string) error
	flush(ctx context.Context, target string) string
	grow(ctx context.Context, id string) (total, used int64, err error)
}

var (
	_ mounter = (*V1)(nil)
	_ mounter = (*V1Beta)(nil)
	_         = (*V1).diskOfLUN
	_         = (*V1).stage
)
