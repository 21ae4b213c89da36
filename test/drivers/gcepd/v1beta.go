package gcepd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta1"
)

// V1Beta is the driver's mounter for beta versions, in which disks are strings.
type V1Beta struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
}

// NewV1Beta connects to the proxy.
func NewV1Beta() (*V1Beta, error) {
	var m V1Beta
	var errs [3]error
	m.FsClient, errs[0] = fsclient.NewClient()
	m.DiskClient, errs[1] = diskclient.NewClient()
	m.VolumeClient, errs[2] = volumeclient.NewClient()
	return &m, errors.Join(errs[:]...)
}

func (m *V1Beta) versions() string {
	return fmt.Sprintf("%s %s %s", diskclient.Version, fsclient.Version, volumeclient.Version)
}

func (m *V1Beta) publish(ctx context.Context, staging, target string) error {
	out, err := m.FsClient.LinkPath(ctx, &fsapi.LinkPathRequest{SourcePath: staging, TargetPath: target})
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	return err
}

func (m *V1Beta) look(ctx context.Context, path string) (exists, mounted bool, err error) {
	there, err := m.FsClient.PathExists(ctx, &fsapi.PathExistsRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	is, err := m.FsClient.IsMountPoint(ctx, &fsapi.IsMountPointRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	return there.Exists, is.IsMountPoint, nil
}

func (m *V1Beta) find(ctx context.Context, device string) (string, error) {
	out, err := m.DiskClient.ListDiskIDs(ctx, &diskapi.ListDiskIDsRequest{})
	if err != nil {
		return "", err
	}
	for number, ids := range out.GetDiskIDs() {
		if id, ok := ids.Identifiers["page83"]; ok && id == device {
			return number, nil
		}
	}
	return "", fmt.Errorf("no disk %s", device)
}

func (m *V1Beta) stage(ctx context.Context, disk, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &diskapi.PartitionDiskRequest{DiskID: disk}); err != nil {
		return err
	}
	if _, err := m.DiskClient.SetAttachState(ctx, &diskapi.SetAttachStateRequest{DiskID: disk, IsOnline: true}); err != nil {
		return err
	}
	volumes, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volumeapi.ListVolumesOnDiskRequest{DiskId: disk})
	if err != nil {
		return err
	}
	id := volumes.VolumeIds[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &volumeapi.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volumeapi.MountVolumeRequest{VolumeId: id, Path: target})
	return err
}

func (m *V1Beta) unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromMount(ctx, &volumeapi.VolumeIDFromMountRequest{Mount: target})
	if err != nil {
		return err
	}
	id := mounted.GetVolumeId()
	if _, err := m.VolumeClient.DismountVolume(ctx, &volumeapi.DismountVolumeRequest{Path: target, VolumeId: id}); err != nil {
		return err
	}
	for _, where := range []fsapi.PathContext{fsapi.PathContext_PLUGIN, fsapi.PathContext_POD} {
		if _, err := m.FsClient.Rmdir(ctx, &fsapi.RmdirRequest{Path: target, Context: where, Force: true}); err != nil {
			return err
		}
	}
	disk, err := m.VolumeClient.GetVolumeDiskNumber(ctx, &volumeapi.VolumeDiskNumberRequest{VolumeId: id})
	if err != nil {
		return err
	}
	_, err = m.DiskClient.SetAttachState(ctx, &diskapi.SetAttachStateRequest{DiskID: strconv.FormatInt(disk.GetDiskNumber(), 10)})
	return err
}

func (m *V1Beta) size(ctx context.Context, disk string) (int64, error) {
	out, err := m.DiskClient.DiskStats(ctx, &diskapi.DiskStatsRequest{DiskID: disk})
	if err != nil {
		return 0, err
	}
	return out.DiskSize, nil
}

var (
	_ = (*V1Beta).find
	_ = (*V1Beta).stage
	_ = (*V1Beta).size
)
