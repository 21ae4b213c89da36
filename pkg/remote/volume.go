package remote

import (
	"context"
	"fmt"
	"math"

	"github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Before v1beta3 disk numbers were decimal strings, and four methods had other names.

// ListVolumesOnDisk had no partition number. Without it the response would include volumes of
// other partitions, so this is an error.
func (c *volumeV1beta2) ListVolumesOnDisk(ctx context.Context, in *volume.ListVolumesOnDiskRequest) (*volume.ListVolumesOnDiskResponse, error) {
	if in.PartitionNumber != 0 {
		return nil, c.pipe.lacks(fmt.Sprintf("ListVolumesOnDisk of partition %d", in.PartitionNumber))
	}
	out := new(v1beta2.ListVolumesOnDiskResponse)
	if err := c.pipe.call(ctx, "ListVolumesOnDisk", &v1beta2.ListVolumesOnDiskRequest{DiskId: diskID(in.DiskNumber)}, out); err != nil {
		return nil, err
	}
	return &volume.ListVolumesOnDiskResponse{VolumeIDs: out.VolumeIds}, nil
}

// UnmountVolume was DismountVolume.
func (c *volumeV1beta2) UnmountVolume(ctx context.Context, in *volume.UnmountVolumeRequest) (*volume.UnmountVolumeResponse, error) {
	request := &v1beta2.DismountVolumeRequest{VolumeId: in.VolumeID, Path: in.TargetPath}
	if err := c.pipe.callAs(ctx, "UnmountVolume", "DismountVolume", request, new(v1beta2.DismountVolumeResponse)); err != nil {
		return nil, err
	}
	return &volume.UnmountVolumeResponse{}, nil
}

// GetVolumeStats was VolumeStats.
func (c *volumeV1beta2) GetVolumeStats(ctx context.Context, in *volume.GetVolumeStatsRequest) (*volume.GetVolumeStatsResponse, error) {
	out := new(v1beta2.VolumeStatsResponse)
	if err := c.pipe.callAs(ctx, "GetVolumeStats", "VolumeStats", &v1beta2.VolumeStatsRequest{VolumeId: in.VolumeID}, out); err != nil {
		return nil, err
	}
	return &volume.GetVolumeStatsResponse{TotalBytes: out.VolumeSize, UsedBytes: out.VolumeUsedSize}, nil
}

// GetDiskNumberFromVolumeID was GetVolumeDiskNumber.
func (c *volumeV1beta2) GetDiskNumberFromVolumeID(ctx context.Context, in *volume.GetDiskNumberFromVolumeIDRequest) (*volume.GetDiskNumberFromVolumeIDResponse, error) {
	out := new(v1beta2.VolumeDiskNumberResponse)
	if err := c.pipe.callAs(ctx, "GetDiskNumberFromVolumeID", "GetVolumeDiskNumber", &v1beta2.VolumeDiskNumberRequest{VolumeId: in.VolumeID}, out); err != nil {
		return nil, err
	}
	if out.DiskNumber < 0 || out.DiskNumber > math.MaxUint32 {
		return nil, c.pipe.badResponse("GetDiskNumberFromVolumeID", "a disk number", fmt.Errorf("%d does not fit into 32 bits", out.DiskNumber))
	}
	return &volume.GetDiskNumberFromVolumeIDResponse{DiskNumber: uint32(out.DiskNumber)}, nil
}

// GetVolumeIDFromTargetPath was GetVolumeIDFromMount.
func (c *volumeV1beta2) GetVolumeIDFromTargetPath(ctx context.Context, in *volume.GetVolumeIDFromTargetPathRequest) (*volume.GetVolumeIDFromTargetPathResponse, error) {
	out := new(v1beta2.VolumeIDFromMountResponse)
	if err := c.pipe.callAs(ctx, "GetVolumeIDFromTargetPath", "GetVolumeIDFromMount", &v1beta2.VolumeIDFromMountRequest{Mount: in.TargetPath}, out); err != nil {
		return nil, err
	}
	return &volume.GetVolumeIDFromTargetPathResponse{VolumeID: out.VolumeId}, nil
}
