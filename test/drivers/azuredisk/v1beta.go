package azuredisk

import (
	"context"
	"fmt"
	"strings"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta2"
)

// V1Beta is the driver's mounter for beta versions.
type V1Beta struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
}

// NewV1Beta connects to the proxy.
func NewV1Beta() (*V1Beta, error) {
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
	return &V1Beta{FsClient: files, DiskClient: disks, VolumeClient: volumes}, nil
}

func (m *V1Beta) versions() string {
	return fmt.Sprintf("%s, %s, %s", fsclient.Version, diskclient.Version, volumeclient.Version)
}

func (m *V1Beta) paths(ctx context.Context, source, target string) error {
	if _, err := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: target, Context: fs.PathContext_PLUGIN}); err != nil {
		return err
	}
	if out, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: target}); err != nil || !out.Exists {
		return err
	}
	if out, err := m.FsClient.IsMountPoint(ctx, &fs.IsMountPointRequest{Path: target}); err != nil || out.IsMountPoint {
		return err
	}
	if _, err := m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Context: fs.PathContext_POD, Force: true}); err != nil {
		return err
	}
	_, err := m.FsClient.LinkPath(ctx, &fs.LinkPathRequest{SourcePath: source, TargetPath: target})
	return err
}

func (m *V1Beta) diskOfLUN(ctx context.Context, lun string) (disks string, err error) {
	if _, err := m.DiskClient.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return "", err
	}
	out, err := m.DiskClient.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	if err != nil {
		return "", err
	}
	for id, at := range out.DiskLocations {
		if strings.EqualFold(at.LUNID, lun) {
			return id, nil
		}
	}
	return "", fmt.Errorf("no LUN %s", lun)
}

func (m *V1Beta) stage(ctx context.Context, diskID, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskID: diskID}); err != nil {
		return err
	}
	out, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskId: diskID})
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
	_, err = m.VolumeClient.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, Path: target})
	return err
}

func (m *V1Beta) flush(ctx context.Context, target string) string {
	mounted, err := m.VolumeClient.GetVolumeIDFromMount(ctx, &volume.VolumeIDFromMountRequest{Mount: target})
	if err != nil || mounted == nil {
		return fmt.Sprintf("%v %v", err, mounted)
	}
	out, err := m.VolumeClient.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeId: mounted.VolumeId})
	return fmt.Sprintf("%v %v", err, out)
}

func (m *V1Beta) grow(ctx context.Context, id string) (total, used int64, err error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id, Size: 0}); err != nil {
		return 0, 0, err
	}
	out, err := m.VolumeClient.VolumeStats(ctx, &volume.VolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, err
	}
	return out.VolumeSize, out.VolumeUsedSize, nil
}

var (
	_ = (*V1Beta).diskOfLUN
	_ = (*V1Beta).stage
)
