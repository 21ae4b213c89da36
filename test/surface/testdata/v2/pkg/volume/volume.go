// Package volume is the published surface of the volume service.
package volume

import (
	"context"

	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

type Interface interface {
	FormatVolume(context.Context, *FormatVolumeRequest) (*FormatVolumeResponse, error)
	GetClosestVolumeIDFromTargetPath(context.Context, *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error)
	GetDiskNumberFromVolumeID(context.Context, *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error)
	GetVolumeIDFromTargetPath(context.Context, *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error)
	GetVolumeStats(context.Context, *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error)
	IsVolumeFormatted(context.Context, *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error)
	ListVolumesOnDisk(context.Context, *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error)
	MountVolume(context.Context, *MountVolumeRequest) (*MountVolumeResponse, error)
	ResizeVolume(context.Context, *ResizeVolumeRequest) (*ResizeVolumeResponse, error)
	UnmountVolume(context.Context, *UnmountVolumeRequest) (*UnmountVolumeResponse, error)
	WriteVolumeCache(context.Context, *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error)
}

type Volume struct {
	hostAPI volumeapi.HostAPI
}

var _ Interface = &Volume{}

func New(hostAPI volumeapi.HostAPI) (*Volume, error)

func (*Volume) FormatVolume(context.Context, *FormatVolumeRequest) (*FormatVolumeResponse, error)

func (*Volume) GetClosestVolumeIDFromTargetPath(context.Context, *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error)

func (*Volume) GetDiskNumberFromVolumeID(context.Context, *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error)

func (*Volume) GetVolumeIDFromTargetPath(context.Context, *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error)

func (*Volume) GetVolumeStats(context.Context, *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error)

func (*Volume) IsVolumeFormatted(context.Context, *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error)

func (*Volume) ListVolumesOnDisk(context.Context, *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error)

func (*Volume) MountVolume(context.Context, *MountVolumeRequest) (*MountVolumeResponse, error)

func (*Volume) ResizeVolume(context.Context, *ResizeVolumeRequest) (*ResizeVolumeResponse, error)

func (*Volume) UnmountVolume(context.Context, *UnmountVolumeRequest) (*UnmountVolumeResponse, error)

func (*Volume) WriteVolumeCache(context.Context, *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error)

type FormatVolumeResponse struct{}

type MountVolumeResponse struct{}

type ResizeVolumeResponse struct{}

type UnmountVolumeResponse struct{}

type WriteVolumeCacheResponse struct{}

type ListVolumesOnDiskRequest struct {
	DiskNumber      uint32
	PartitionNumber uint32
}

type ListVolumesOnDiskResponse struct{ VolumeIDs []string }

type MountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

type UnmountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

type IsVolumeFormattedRequest struct{ VolumeID string }

type IsVolumeFormattedResponse struct{ Formatted bool }

type FormatVolumeRequest struct{ VolumeID string }

type WriteVolumeCacheRequest struct{ VolumeID string }

type ResizeVolumeRequest struct {
	VolumeID  string
	SizeBytes int64
}

type GetVolumeStatsRequest struct{ VolumeID string }

type GetVolumeStatsResponse struct {
	TotalBytes int64
	UsedBytes  int64
}

type GetDiskNumberFromVolumeIDRequest struct{ VolumeID string }

type GetDiskNumberFromVolumeIDResponse struct{ DiskNumber uint32 }

type GetVolumeIDFromTargetPathRequest struct{ TargetPath string }

type GetVolumeIDFromTargetPathResponse struct{ VolumeID string }

type GetClosestVolumeIDFromTargetPathRequest struct{ TargetPath string }

type GetClosestVolumeIDFromTargetPathResponse struct{ VolumeID string }
