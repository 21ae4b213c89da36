package disk

import (
	"context"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Disk implements [Service] with a HostAPI.
//
// When the context of a call ends, the method returns immediately and its work stops
// before the next Windows call. A Windows call itself cannot be stopped: it continues
// and holds the disk's lock until it returns, so that no other request works on the
// disk at the same time.
type Disk struct{ base service.Base[diskapi.HostAPI] }

var _ Service = (*Disk)(nil)

// New returns a service that uses hostAPI. With the HostAPI of this project it shares
// its locks with the other services of the same node; any other HostAPI gets locks of
// its own.
func New(hostAPI diskapi.HostAPI) (*Disk, error) {
	base, err := service.New("disk", hostAPI)
	return service.Response(&Disk{base}, err)
}

// change runs work that changes a disk, while no other call uses the disk. It fails for a disk
// that is not what it must be.
func (d *Disk) change(ctx context.Context, op string, number uint32, identity *DiskIdentity, work func(diskapi.HostAPI) error) error {
	target := strconv.FormatUint(uint64(number), 10)
	if err := identity.check(); err != nil {
		return hosterr.Wrap(op, target, err)
	}
	lock := service.Exclusive(&d.base.Node.Locks.Disks, target)
	return hosterr.Wrap(op, target, service.Do(ctx, d.base, []service.Lock{lock}, func(host diskapi.HostAPI) error {
		if identity != nil {
			h, err := service.Optional[interface {
				Expect(identifiers []string) diskapi.HostAPI
			}](host, "Expect")
			if err != nil {
				return err
			}
			host = h.Expect(identity.Identifiers)
		}
		return work(host)
	}))
}

// check returns an error for an identity that is that of every disk.
func (i *DiskIdentity) check() error {
	const hint = "name identifiers from ListDisks, or leave the identity out"
	if i == nil {
		return nil
	}
	if len(i.Identifiers) == 0 {
		return hosterr.TextWithHint(hosterr.ErrInvalid, hint, "the identity of the disk has no identifiers")
	}
	for n, id := range i.Identifiers {
		if strings.TrimSpace(id) == "" {
			return hosterr.TextWithHint(hosterr.ErrInvalid, hint, "identifier %d of %d is empty", n+1, len(i.Identifiers))
		}
	}
	return nil
}

// ask runs work that reads from a disk, while no other call changes the disk.
func ask[T any](ctx context.Context, d *Disk, op string, number uint32, work func(diskapi.HostAPI) (T, error)) (T, error) {
	target := strconv.FormatUint(uint64(number), 10)
	lock := service.Shared(&d.base.Node.Locks.Disks, target)
	v, err := service.Get(ctx, d.base, []service.Lock{lock}, work)
	return v, hosterr.Wrap(op, target, err)
}

// PartitionDisk implements [Interface]. Each step first checks whether it was already
// done, so a call that is repeated after a lost response or a crash continues where
// the last one stopped.
//
// A disk without a partition is made online and writable, and stays so. A disk that
// has a partition is not changed, whether it is online or offline.
func (d *Disk) PartitionDisk(ctx context.Context, in *PartitionDiskRequest) (*PartitionDiskResponse, error) {
	if in == nil {
		return nil, service.NoRequest("PartitionDisk")
	}
	n := in.DiskNumber
	err := d.change(ctx, "partition disk", n, in.Identity, func(host diskapi.HostAPI) error {
		return partition(host, n)
	})
	return service.Response(&PartitionDiskResponse{}, err)
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
	if h, ok := host.(interface{ Partitioned(uint32) error }); ok {
		return h.Partitioned(n)
	}
	return nil
}

// GetDiskState implements [Interface].
func (d *Disk) GetDiskState(ctx context.Context, in *GetDiskStateRequest) (*GetDiskStateResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetDiskState")
	}
	n := in.DiskNumber
	online, err := ask(ctx, d, "get state of disk", n, func(host diskapi.HostAPI) (bool, error) {
		return host.GetDiskState(n)
	})
	return service.Response(&GetDiskStateResponse{IsOnline: online}, err)
}

// SetDiskState implements [Interface].
func (d *Disk) SetDiskState(ctx context.Context, in *SetDiskStateRequest) (*SetDiskStateResponse, error) {
	if in == nil {
		return nil, service.NoRequest("SetDiskState")
	}
	n, online, op := in.DiskNumber, in.IsOnline, "take offline disk"
	if online {
		op = "take online disk"
	}
	err := d.change(ctx, op, n, in.Identity, func(host diskapi.HostAPI) error {
		return host.SetDiskState(n, online)
	})
	return service.Response(&SetDiskStateResponse{}, err)
}

// GetDiskReadOnly implements [Interface].
func (d *Disk) GetDiskReadOnly(ctx context.Context, in *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetDiskReadOnly")
	}
	n := in.DiskNumber
	readOnly, err := ask(ctx, d, "get read-only state of disk", n, func(host diskapi.HostAPI) (bool, error) {
		return host.GetDiskReadOnly(n)
	})
	return service.Response(&GetDiskReadOnlyResponse{IsReadOnly: readOnly}, err)
}

// SetDiskReadOnly implements [Interface].
func (d *Disk) SetDiskReadOnly(ctx context.Context, in *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error) {
	if in == nil {
		return nil, service.NoRequest("SetDiskReadOnly")
	}
	n, readOnly, op := in.DiskNumber, in.IsReadOnly, "make writable disk"
	if readOnly {
		op = "make read-only disk"
	}
	err := d.change(ctx, op, n, in.Identity, func(host diskapi.HostAPI) error {
		return host.SetDiskReadOnly(n, readOnly)
	})
	return service.Response(&SetDiskReadOnlyResponse{}, err)
}

// GetDiskStats implements [Interface].
func (d *Disk) GetDiskStats(ctx context.Context, in *GetDiskStatsRequest) (*GetDiskStatsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetDiskStats")
	}
	n := in.DiskNumber
	size, err := ask(ctx, d, "get size of disk", n, func(host diskapi.HostAPI) (int64, error) {
		return host.GetDiskStats(n)
	})
	return service.Response(&GetDiskStatsResponse{TotalBytes: size}, err)
}

// ListDiskIDs implements [Interface].
func (d *Disk) ListDiskIDs(ctx context.Context, in *ListDiskIDsRequest) (*ListDiskIDsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ListDiskIDs")
	}
	all, err := service.Get(ctx, d.base, nil, diskapi.HostAPI.ListDiskIDs)
	if err != nil {
		return nil, hosterr.Wrap("list disk IDs", "", err)
	}
	out := &ListDiskIDsResponse{DiskIDs: make(map[uint32]*DiskIDs, len(all))}
	for n, ids := range all {
		out.DiskIDs[n] = &DiskIDs{Page83: ids.Page83, SerialNumber: ids.SerialNumber}
	}
	return out, nil
}

// ListDisks implements [Service].
func (d *Disk) ListDisks(ctx context.Context, in *ListDisksRequest) (*ListDisksResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ListDisks")
	}
	all, err := service.Get(ctx, d.base, nil, func(host diskapi.HostAPI) (map[uint32]diskapi.DiskInfo, error) {
		h, err := service.Optional[interface {
			ListDisks() (map[uint32]diskapi.DiskInfo, error)
		}](host, "ListDisks")
		if err != nil {
			return nil, err
		}
		return h.ListDisks()
	})
	if err != nil {
		return nil, hosterr.Wrap("list disks", "", err)
	}
	out := &ListDisksResponse{Disks: make(map[uint32]*DiskInfo, len(all))}
	for n, info := range all {
		d := DiskInfo(info)
		out.Disks[n] = &d
	}
	return out, nil
}

// ListDiskLocations implements [Interface].
func (d *Disk) ListDiskLocations(ctx context.Context, in *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ListDiskLocations")
	}
	all, err := service.Get(ctx, d.base, nil, diskapi.HostAPI.ListDiskLocations)
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
		return nil, service.NoRequest("Rescan")
	}
	err := service.Do(ctx, d.base, nil, diskapi.HostAPI.Rescan)
	return service.Response(&RescanResponse{}, hosterr.Wrap("rescan disks", "", err))
}
