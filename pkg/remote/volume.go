package remote

import (
	"context"
	"fmt"
	"math"

	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Before v1beta3 disk numbers were decimal strings, and four methods had other names.

func v1beta2_ListVolumesOnDisk(ctx context.Context, c *connection, in *volume.ListVolumesOnDiskRequest) (*volume.ListVolumesOnDiskResponse, error) {
	out := new(v1beta2.ListVolumesOnDiskResponse)
	if err := c.call(ctx, "ListVolumesOnDisk", &v1beta2.ListVolumesOnDiskRequest{DiskId: diskID(in.DiskNumber)}, out); err != nil {
		return nil, err
	}
	return &volume.ListVolumesOnDiskResponse{VolumeIDs: out.VolumeIds}, nil
}

// UnmountVolume was DismountVolume.
func v1beta2_UnmountVolume(ctx context.Context, c *connection, in *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	request := &v1beta2.DismountVolumeRequest{VolumeId: in.VolumeID, Path: in.TargetPath}
	if err := c.callAs(ctx, "UnmountVolume", "DismountVolume", request, new(v1beta2.DismountVolumeResponse)); err != nil {
		return nil, err
	}
	return &volume.UnmountVolumeResponse{}, nil
}

// GetVolumeStats was VolumeStats.
func v1beta2_GetVolumeStats(ctx context.Context, c *connection, in *volume.GetVolumeStatsRequest) (*volume.GetVolumeStatsResponse, error) {
	out := new(v1beta2.VolumeStatsResponse)
	if err := c.callAs(ctx, "GetVolumeStats", "VolumeStats", &v1beta2.VolumeStatsRequest{VolumeId: in.VolumeID}, out); err != nil {
		return nil, err
	}
	return &volume.GetVolumeStatsResponse{TotalBytes: out.VolumeSize, UsedBytes: out.VolumeUsedSize}, nil
}

// GetDiskNumberFromVolumeID was GetVolumeDiskNumber.
func v1beta2_GetDiskNumberFromVolumeID(ctx context.Context, c *connection, in *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	out := new(v1beta2.VolumeDiskNumberResponse)
	if err := c.callAs(ctx, "GetDiskNumberFromVolumeID", "GetVolumeDiskNumber", &v1beta2.VolumeDiskNumberRequest{VolumeId: in.VolumeID}, out); err != nil {
		return nil, err
	}
	if out.DiskNumber < 0 || out.DiskNumber > math.MaxUint32 {
		return nil, c.badResponse("GetDiskNumberFromVolumeID", "a disk number", fmt.Errorf("%d does not fit into 32 bits", out.DiskNumber))
	}
	return &volume.GetDiskNumberFromVolumeIDResponse{DiskNumber: uint32(out.DiskNumber)}, nil
}

// GetVolumeIDFromTargetPath was GetVolumeIDFromMount.
func v1beta2_GetVolumeIDFromTargetPath(ctx context.Context, c *connection, in *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	out := new(v1beta2.VolumeIDFromMountResponse)
	if err := c.callAs(ctx, "GetVolumeIDFromTargetPath", "GetVolumeIDFromMount", &v1beta2.VolumeIDFromMountRequest{Mount: in.TargetPath}, out); err != nil {
		return nil, err
	}
	return &volume.GetVolumeIDFromTargetPathResponse{VolumeID: out.VolumeId}, nil
}
