package disk

import (
	"context"

	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ReadOnlyInterface is what can be asked about read-only disks. Disks on a bus
// that machines share come offline and read-only by Windows' SAN policy, and
// SetDiskState leaves them read-only; a driver that formats or writes them makes
// them writable first.
//
// It is not part of [Interface], so that whatever implements that goes on doing
// so. [Disk] has both; a driver that is given an Interface asks for the other:
//
//	if ro, ok := d.(disk.ReadOnlyInterface); ok {
//		_, err = ro.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: n})
//	}
//
// The published gRPC APIs have no such methods, so what package remote makes is
// no ReadOnlyInterface. Through a pipe only PartitionDisk makes a disk writable,
// and only one that has no partition yet.
//
// What is said of [Interface] about repeating and about goroutines holds here.
type ReadOnlyInterface interface {
	// GetDiskReadOnly tells whether a disk refuses to be written. A disk that the
	// node does not have is an error that is not-found.
	GetDiskReadOnly(context.Context, *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error)

	// SetDiskReadOnly makes a disk read-only or writable, for good, and leaves it
	// online or offline as it is. An online disk that is not writable after it was
	// made so, and one that Windows needs and shall be read-only, is an error that
	// is a failed precondition.
	SetDiskReadOnly(context.Context, *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error)
}

var _ ReadOnlyInterface = (*Disk)(nil)

// GetDiskReadOnlyRequest names the disk that is asked about.
type GetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskReadOnlyResponse tells whether a disk is read-only.
type GetDiskReadOnlyResponse struct {
	// IsReadOnly is true if the disk refuses to be written.
	IsReadOnly bool
}

// SetDiskReadOnlyRequest names a disk and whether it shall be read-only.
type SetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// IsReadOnly is true to make the disk read-only, false to make it writable.
	IsReadOnly bool
}

// SetDiskReadOnlyResponse is empty.
type SetDiskReadOnlyResponse struct{}

// readOnly is the part of host that knows about read-only disks.
func readOnly(host diskapi.HostAPI) (diskapi.ReadOnlyHostAPI, error) {
	if h, ok := host.(diskapi.ReadOnlyHostAPI); ok {
		return h, nil
	}
	return nil, hosterr.Text(hosterr.ErrUnimplemented, "this HostAPI is no ReadOnlyHostAPI")
}

// GetDiskReadOnly implements [ReadOnlyInterface].
func (d *Disk) GetDiskReadOnly(ctx context.Context, in *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, noRequest("GetDiskReadOnly")
	}
	n := in.DiskNumber
	is, err := do(ctx, d, "get read-only state of disk", n, d.node.Locks.Disks.RLock, func(host diskapi.HostAPI) (bool, error) {
		h, err := readOnly(host)
		if err != nil {
			return false, err
		}
		return h.GetDiskReadOnly(n)
	})
	if err != nil {
		return nil, err
	}
	return &GetDiskReadOnlyResponse{IsReadOnly: is}, nil
}

// SetDiskReadOnly implements [ReadOnlyInterface].
func (d *Disk) SetDiskReadOnly(ctx context.Context, in *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, noRequest("SetDiskReadOnly")
	}
	n, wanted, op := in.DiskNumber, in.IsReadOnly, "make writable disk"
	if wanted {
		op = "make read-only disk"
	}
	_, err := do(ctx, d, op, n, d.node.Locks.Disks.Lock, func(host diskapi.HostAPI) (struct{}, error) {
		h, err := readOnly(host)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, h.SetDiskReadOnly(n, wanted)
	})
	if err != nil {
		return nil, err
	}
	return &SetDiskReadOnlyResponse{}, nil
}
