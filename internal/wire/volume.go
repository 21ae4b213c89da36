package wire

import (
	"context"
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Before v1beta3 disks were identified by decimal strings, and four methods had other
// names. Their errors contain the new name, as published.

func forwarded(to string, err error) error {
	//lint:ignore ST1005 drivers match on the published text
	return fmt.Errorf("Forward to %s failed, err=%w", to, err)
}

func v1beta2_ListVolumesOnDisk(ctx context.Context, to target[volume.Service], in *v1beta2.ListVolumesOnDiskRequest) (*v1beta2.ListVolumesOnDiskResponse, error) {
	n, err := diskNumber(in.DiskId)
	if err != nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "Failed to parse diskId: err=%w", err)
	}
	out, err := ask(ctx, to, volume.Service.ListVolumesOnDisk, &volume.ListVolumesOnDiskRequest{DiskNumber: n})
	if err != nil {
		return nil, err
	}
	return &v1beta2.ListVolumesOnDiskResponse{VolumeIds: out.VolumeIDs}, nil
}

func v1beta2_DismountVolume(ctx context.Context, to target[volume.Service], in *v1beta2.DismountVolumeRequest) (*v1beta2.DismountVolumeResponse, error) {
	if _, err := ask(ctx, to, volume.Service.UnmountVolume, &volume.UnmountVolumeRequest{VolumeID: in.VolumeId, TargetPath: in.Path}); err != nil {
		return nil, forwarded("UnmountVolume", err)
	}
	return &v1beta2.DismountVolumeResponse{}, nil
}

func v1beta2_VolumeStats(ctx context.Context, to target[volume.Service], in *v1beta2.VolumeStatsRequest) (*v1beta2.VolumeStatsResponse, error) {
	out, err := ask(ctx, to, volume.Service.GetVolumeStats, &volume.GetVolumeStatsRequest{VolumeID: in.VolumeId})
	if err != nil {
		return nil, forwarded("GetVolumeStats", err)
	}
	return &v1beta2.VolumeStatsResponse{VolumeSize: out.TotalBytes, VolumeUsedSize: out.UsedBytes}, nil
}

func v1beta2_GetVolumeDiskNumber(ctx context.Context, to target[volume.Service], in *v1beta2.VolumeDiskNumberRequest) (*v1beta2.VolumeDiskNumberResponse, error) {
	out, err := ask(ctx, to, volume.Service.GetDiskNumberFromVolumeID, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: in.VolumeId})
	if err != nil {
		return nil, forwarded("GetDiskNumberFromVolumeID", err)
	}
	return &v1beta2.VolumeDiskNumberResponse{DiskNumber: int64(out.DiskNumber)}, nil
}

func v1beta2_GetVolumeIDFromMount(ctx context.Context, to target[volume.Service], in *v1beta2.VolumeIDFromMountRequest) (*v1beta2.VolumeIDFromMountResponse, error) {
	out, err := ask(ctx, to, volume.Service.GetVolumeIDFromTargetPath, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: in.Mount})
	if err != nil {
		return nil, forwarded("GetVolumeIDFromTargetPath", err)
	}
	return &v1beta2.VolumeIDFromMountResponse{VolumeId: out.VolumeID}, nil
}

// v2alpha1_MountVolume is hand-written because of one error text that drivers match on.
// The published API and the published library spell a field name in it differently, and
// the service has the spelling of the library.
func v2alpha1_MountVolume(ctx context.Context, to target[volume.Service], in *v2alpha1.MountVolumeRequest) (*v2alpha1.MountVolumeResponse, error) {
	_, err := ask(ctx, to, volume.Service.MountVolume, &volume.MountVolumeRequest{VolumeID: in.VolumeId, TargetPath: in.TargetPath})
	if err != nil && err.Error() == "MountVolumeRequest.VolumeID is empty" {
		err = hosterr.Text(hosterr.ErrInvalid, "MountVolumeRequest.VolumeId is empty")
	}
	if err != nil {
		return nil, err
	}
	return &v2alpha1.MountVolumeResponse{}, nil
}
