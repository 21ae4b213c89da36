// Package disk is the published surface of the disk service.
package disk

import (
	"context"

	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
)

type Interface interface {
	GetDiskState(context.Context, *GetDiskStateRequest) (*GetDiskStateResponse, error)
	GetDiskStats(context.Context, *GetDiskStatsRequest) (*GetDiskStatsResponse, error)
	ListDiskIDs(context.Context, *ListDiskIDsRequest) (*ListDiskIDsResponse, error)
	ListDiskLocations(context.Context, *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error)
	PartitionDisk(context.Context, *PartitionDiskRequest) (*PartitionDiskResponse, error)
	Rescan(context.Context, *RescanRequest) (*RescanResponse, error)
	SetDiskState(context.Context, *SetDiskStateRequest) (*SetDiskStateResponse, error)
	GetDiskReadOnly(context.Context, *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error)
	SetDiskReadOnly(context.Context, *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error)
}

type Disk struct {
	hostAPI diskapi.HostAPI
}

var _ Interface = &Disk{}

func New(hostAPI diskapi.HostAPI) (*Disk, error)

func (*Disk) GetDiskState(context.Context, *GetDiskStateRequest) (*GetDiskStateResponse, error)

func (*Disk) GetDiskStats(context.Context, *GetDiskStatsRequest) (*GetDiskStatsResponse, error)

func (*Disk) ListDiskIDs(context.Context, *ListDiskIDsRequest) (*ListDiskIDsResponse, error)

func (*Disk) ListDiskLocations(context.Context, *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error)

func (*Disk) PartitionDisk(context.Context, *PartitionDiskRequest) (*PartitionDiskResponse, error)

func (*Disk) Rescan(context.Context, *RescanRequest) (*RescanResponse, error)

func (*Disk) SetDiskState(context.Context, *SetDiskStateRequest) (*SetDiskStateResponse, error)

func (*Disk) GetDiskReadOnly(context.Context, *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error)

func (*Disk) SetDiskReadOnly(context.Context, *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error)

type ListDiskIDsRequest struct{}

type ListDiskLocationsRequest struct{}

type PartitionDiskResponse struct{}

type RescanRequest struct{}

type RescanResponse struct{}

type SetDiskStateResponse struct{}

type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

type ListDiskLocationsResponse struct{ DiskLocations map[uint32]*DiskLocation }

type PartitionDiskRequest struct{ DiskNumber uint32 }

type DiskIDs struct {
	Page83       string
	SerialNumber string
}

type ListDiskIDsResponse struct{ DiskIDs map[uint32]*DiskIDs }

type GetDiskStatsRequest struct{ DiskNumber uint32 }

type GetDiskStatsResponse struct{ TotalBytes int64 }

type SetDiskStateRequest struct {
	DiskNumber uint32
	IsOnline   bool
}

type GetDiskStateRequest struct{ DiskNumber uint32 }

type GetDiskStateResponse struct{ IsOnline bool }

type GetDiskReadOnlyRequest struct{ DiskNumber uint32 }

type GetDiskReadOnlyResponse struct{ IsReadOnly bool }

type SetDiskReadOnlyRequest struct {
	DiskNumber uint32
	IsReadOnly bool
}

type SetDiskReadOnlyResponse struct{}
