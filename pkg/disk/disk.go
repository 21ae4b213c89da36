package disk

import (
	"context"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Disk is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself cannot be stopped: it goes on, and
// holds the disk's lock until it returns, so that whoever asks next does not
// work beside it.
type Disk struct {
	host diskapi.HostAPI
	node *node.Node
}

var _ Service = (*Disk)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on,
// shared with the other services of that node; a hostAPI of another make gets
// locks of its own.
func New(hostAPI diskapi.HostAPI) (*Disk, error) {
	if hostAPI == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "disk service: the HostAPI is nil")
	}
	d := &Disk{host: hostAPI}
	if h, ok := hostAPI.(interface{ Node() *node.Node }); ok {
		d.node = h.Node()
	}
	if d.node == nil {
		d.node = node.New(nil)
	}
	return d, nil
}

// on is the host that heeds ctx, if it can.
func (d *Disk) on(ctx context.Context) diskapi.HostAPI {
	if h, ok := d.host.(interface {
		WithContext(context.Context) diskapi.HostAPI
	}); ok {
		return h.WithContext(ctx)
	}
	return d.host
}

// lock is Lock or RLock of a keymutex.Set.
type lock func(ctx context.Context, key string) (unlock func(), err error)

// do does op to one disk, under its lock.
func do[T any](ctx context.Context, d *Disk, op string, number uint32, lock lock, work func(diskapi.HostAPI) (T, error)) (T, error) {
	target := strconv.FormatUint(uint64(number), 10)
	v, err := node.Await(ctx, func() (T, error) {
		unlock, err := lock(ctx, target)
		if err != nil {
			var none T
			return none, err
		}
		defer unlock()
		return work(d.on(ctx))
	})
	return v, hosterr.Wrap(op, target, err)
}

func noRequest(method string) error {
	return hosterr.Text(hosterr.ErrInvalid, "%s: the request is nil", method)
}

// PartitionDisk implements [Interface]. Each step looks first whether it was
// done, so a call repeated after a lost answer or a crash takes up where the
// last one stopped.
//
// A disk without a partition table is made online and writable for the work,
// and stays so. A disk that has a partition is not touched, offline or not.
func (d *Disk) PartitionDisk(ctx context.Context, in *PartitionDiskRequest) (*PartitionDiskResponse, error) {
	if in == nil {
		return nil, noRequest("PartitionDisk")
	}
	n := in.DiskNumber
	_, err := do(ctx, d, "partition disk", n, d.node.Locks.Disks.Lock, func(host diskapi.HostAPI) (struct{}, error) {
		return struct{}{}, partition(host, n)
	})
	if err != nil {
		return nil, err
	}
	return &PartitionDiskResponse{}, nil
}

func partition(host diskapi.HostAPI, n uint32) error {
	initialized, err := host.IsDiskInitialized(n)
	if err != nil {
		return err
	}
	if !initialized {
		if err := host.InitializeDisk(n); err != nil {
			return err
		}
	}
	partitioned, err := host.BasicPartitionsExist(n)
	if err != nil {
		return err
	}
	if !partitioned {
		return host.CreateBasicPartition(n)
	}
	if h, ok := host.(interface{ AwaitPartition(uint32) error }); ok {
		return h.AwaitPartition(n)
	}
	return nil
}

// GetDiskState implements [Interface].
func (d *Disk) GetDiskState(ctx context.Context, in *GetDiskStateRequest) (*GetDiskStateResponse, error) {
	if in == nil {
		return nil, noRequest("GetDiskState")
	}
	n := in.DiskNumber
	online, err := do(ctx, d, "get state of disk", n, d.node.Locks.Disks.RLock, func(host diskapi.HostAPI) (bool, error) {
		return host.GetDiskState(n)
	})
	if err != nil {
		return nil, err
	}
	return &GetDiskStateResponse{IsOnline: online}, nil
}

// SetDiskState implements [Interface].
func (d *Disk) SetDiskState(ctx context.Context, in *SetDiskStateRequest) (*SetDiskStateResponse, error) {
	if in == nil {
		return nil, noRequest("SetDiskState")
	}
	n, online, op := in.DiskNumber, in.IsOnline, "take offline disk"
	if online {
		op = "take online disk"
	}
	_, err := do(ctx, d, op, n, d.node.Locks.Disks.Lock, func(host diskapi.HostAPI) (struct{}, error) {
		return struct{}{}, host.SetDiskState(n, online)
	})
	if err != nil {
		return nil, err
	}
	return &SetDiskStateResponse{}, nil
}

// GetDiskReadOnly implements [Interface].
func (d *Disk) GetDiskReadOnly(ctx context.Context, in *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, noRequest("GetDiskReadOnly")
	}
	n := in.DiskNumber
	readOnly, err := do(ctx, d, "get read-only state of disk", n, d.node.Locks.Disks.RLock, func(host diskapi.HostAPI) (bool, error) {
		return host.GetDiskReadOnly(n)
	})
	if err != nil {
		return nil, err
	}
	return &GetDiskReadOnlyResponse{IsReadOnly: readOnly}, nil
}

// SetDiskReadOnly implements [Interface].
func (d *Disk) SetDiskReadOnly(ctx context.Context, in *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, noRequest("SetDiskReadOnly")
	}
	n, readOnly, op := in.DiskNumber, in.IsReadOnly, "make writable disk"
	if readOnly {
		op = "make read-only disk"
	}
	_, err := do(ctx, d, op, n, d.node.Locks.Disks.Lock, func(host diskapi.HostAPI) (struct{}, error) {
		return struct{}{}, host.SetDiskReadOnly(n, readOnly)
	})
	if err != nil {
		return nil, err
	}
	return &SetDiskReadOnlyResponse{}, nil
}

// GetDiskStats implements [Interface].
func (d *Disk) GetDiskStats(ctx context.Context, in *GetDiskStatsRequest) (*GetDiskStatsResponse, error) {
	if in == nil {
		return nil, noRequest("GetDiskStats")
	}
	n := in.DiskNumber
	size, err := do(ctx, d, "get size of disk", n, d.node.Locks.Disks.RLock, func(host diskapi.HostAPI) (int64, error) {
		return host.GetDiskStats(n)
	})
	if err != nil {
		return nil, err
	}
	return &GetDiskStatsResponse{TotalBytes: size}, nil
}

// ListDiskIDs implements [Interface].
func (d *Disk) ListDiskIDs(ctx context.Context, in *ListDiskIDsRequest) (*ListDiskIDsResponse, error) {
	if in == nil {
		return nil, noRequest("ListDiskIDs")
	}
	all, err := node.Await(ctx, d.on(ctx).ListDiskIDs)
	if err != nil {
		return nil, hosterr.Wrap("list disk IDs", "", err)
	}
	out := &ListDiskIDsResponse{DiskIDs: make(map[uint32]*DiskIDs, len(all))}
	for n, ids := range all {
		out.DiskIDs[n] = &DiskIDs{Page83: ids.Page83, SerialNumber: ids.SerialNumber}
	}
	return out, nil
}

// ListDiskLocations implements [Interface].
func (d *Disk) ListDiskLocations(ctx context.Context, in *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error) {
	if in == nil {
		return nil, noRequest("ListDiskLocations")
	}
	all, err := node.Await(ctx, d.on(ctx).ListDiskLocations)
	if err != nil {
		return nil, hosterr.Wrap("list disk locations", "", err)
	}
	out := &ListDiskLocationsResponse{DiskLocations: make(map[uint32]*DiskLocation, len(all))}
	for n, l := range all {
		out.DiskLocations[n] = &DiskLocation{Adapter: l.Adapter, Bus: l.Bus, Target: l.Target, LUNID: l.LUNID}
	}
	return out, nil
}

// Rescan implements [Interface].
func (d *Disk) Rescan(ctx context.Context, in *RescanRequest) (*RescanResponse, error) {
	if in == nil {
		return nil, noRequest("Rescan")
	}
	_, err := node.Await(ctx, func() (struct{}, error) { return struct{}{}, d.on(ctx).Rescan() })
	if err != nil {
		return nil, hosterr.Wrap("rescan disks", "", err)
	}
	return &RescanResponse{}, nil
}
