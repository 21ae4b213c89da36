package volume

import (
	"context"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Volume is the Interface over a HostAPI.
//
// A context that ends stops a method between two calls of Windows, and its
// caller at once. A call of Windows itself, such as a format, cannot be stopped:
// it goes on, and holds its locks until it returns, so that whoever asks next
// waits for it and finds done what it did.
type Volume struct {
	host volumeapi.HostAPI
	node *node.Node
}

var _ Service = (*Volume)(nil)

// New makes the service. Its locks are those of the node that hostAPI works on,
// shared with the other services of that node; a hostAPI of another make gets
// locks of its own.
func New(hostAPI volumeapi.HostAPI) (*Volume, error) {
	if hostAPI == nil {
		return nil, hosterr.Text(hosterr.ErrInvalid, "volume service: the HostAPI is nil")
	}
	v := &Volume{host: hostAPI}
	if h, ok := hostAPI.(interface{ Node() *node.Node }); ok {
		v.node = h.Node()
	}
	if v.node == nil {
		v.node = node.New(nil)
	}
	return v, nil
}

// on is the host that heeds ctx, if it can.
func (v *Volume) on(ctx context.Context) volumeapi.HostAPI {
	if h, ok := v.host.(interface {
		WithContext(context.Context) volumeapi.HostAPI
	}); ok {
		return h.WithContext(ctx)
	}
	return v.host
}

// turn is one operation and the locks that it has taken.
type turn struct {
	host volumeapi.HostAPI
	ctx  context.Context
	set  *node.Locks
	held []func()
}

func (t *turn) take(unlock func(), err error) error {
	if err == nil {
		t.held = append(t.held, unlock)
	}
	return err
}

// Locks are taken in this order: path, volume, disk.

func (t *turn) path(path string) error {
	p, err := winpath.Parse(path)
	if err != nil {
		return err
	}
	return t.take(t.set.Paths.LockPath(t.ctx, p.Key()))
}

func (t *turn) volume(id string) error {
	return t.take(t.set.Volumes.Lock(t.ctx, strings.ToLower(id)))
}

func (t *turn) readVolume(id string) error {
	return t.take(t.set.Volumes.RLock(t.ctx, strings.ToLower(id)))
}

// diskOf locks the disk of a volume, alone or shared with others.
func (t *turn) diskOf(id string, lock func(*keymutex.Set, context.Context, string) (func(), error)) error {
	n, err := t.host.GetDiskNumberFromVolumeID(id)
	if err != nil {
		return err
	}
	return t.take(lock(&t.set.Disks, t.ctx, strconv.FormatUint(uint64(n), 10)))
}

// do does op to a volume.
func do[T any](ctx context.Context, v *Volume, op, id string, work func(*turn) (T, error)) (T, error) {
	out, err := node.Await(ctx, func() (T, error) {
		t := &turn{host: v.on(ctx), ctx: ctx, set: &v.node.Locks}
		defer func() {
			for i := len(t.held) - 1; i >= 0; i-- {
				t.held[i]()
			}
		}()
		return work(t)
	})
	return out, hosterr.Wrap(op, hosterr.Quote(id), err)
}

// none is the result of what has no result.
type none = struct{}

// empty is the error for a field that was left empty. Drivers of the published
// API match on these texts.
func empty(text string) error { return hosterr.Text(hosterr.ErrInvalid, "%s", text) }

func noRequest(method string) error {
	return hosterr.Text(hosterr.ErrInvalid, "%s: the request is nil", method)
}

// ListVolumesOnDisk implements [Interface].
func (v *Volume) ListVolumesOnDisk(ctx context.Context, in *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error) {
	if in == nil {
		return nil, noRequest("ListVolumesOnDisk")
	}
	disk, partition := in.DiskNumber, in.PartitionNumber
	ids, err := node.Await(ctx, func() ([]string, error) { return v.on(ctx).ListVolumesOnDisk(disk, partition) })
	if err != nil {
		return nil, hosterr.Wrap("list volumes on disk", strconv.FormatUint(uint64(disk), 10), err)
	}
	return &ListVolumesOnDiskResponse{VolumeIDs: ids}, nil
}

// MountVolume implements [Interface].
func (v *Volume) MountVolume(ctx context.Context, in *MountVolumeRequest) (*MountVolumeResponse, error) {
	if in == nil {
		return nil, noRequest("MountVolume")
	}
	id, target := in.VolumeID, in.TargetPath
	if id == "" {
		return nil, empty("MountVolumeRequest.VolumeID is empty")
	}
	if target == "" {
		return nil, empty("MountVolumeRequest.TargetPath is empty")
	}
	_, err := do(ctx, v, "mount volume", id, func(t *turn) (none, error) {
		if err := t.path(target); err != nil {
			return none{}, err
		}
		if err := t.volume(id); err != nil {
			return none{}, err
		}
		return none{}, t.host.MountVolume(id, target)
	})
	if err != nil {
		return nil, err
	}
	return &MountVolumeResponse{}, nil
}

// UnmountVolume implements [Interface]. It may be repeated, and works after the
// volume is gone.
func (v *Volume) UnmountVolume(ctx context.Context, in *UnmountVolumeRequest) (*UnmountVolumeResponse, error) {
	if in == nil {
		return nil, noRequest("UnmountVolume")
	}
	id, target := in.VolumeID, in.TargetPath
	if id == "" {
		return nil, empty("volume id empty")
	}
	if target == "" {
		return nil, empty("target path empty")
	}
	_, err := do(ctx, v, "unmount volume", id, func(t *turn) (none, error) {
		if err := t.path(target); err != nil {
			return none{}, err
		}
		if err := t.volume(id); err != nil {
			return none{}, err
		}
		return none{}, t.host.UnmountVolume(id, target)
	})
	if err != nil {
		return nil, err
	}
	return &UnmountVolumeResponse{}, nil
}

// IsVolumeFormatted implements [Interface]. What another system put on the
// volume is neither "yes" nor "no" but an error that names it.
func (v *Volume) IsVolumeFormatted(ctx context.Context, in *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error) {
	if in == nil {
		return nil, noRequest("IsVolumeFormatted")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	formatted, err := do(ctx, v, "find the file system of volume", id, func(t *turn) (bool, error) {
		if err := t.readVolume(id); err != nil {
			return false, err
		}
		return t.host.IsVolumeFormatted(id)
	})
	if err != nil {
		return nil, err
	}
	return &IsVolumeFormattedResponse{Formatted: formatted}, nil
}

// FormatVolume implements [Interface]. Meanwhile the disk of the volume is not
// taken offline.
func (v *Volume) FormatVolume(ctx context.Context, in *FormatVolumeRequest) (*FormatVolumeResponse, error) {
	if in == nil {
		return nil, noRequest("FormatVolume")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	_, err := do(ctx, v, "format volume", id, func(t *turn) (none, error) {
		if err := t.volume(id); err != nil {
			return none{}, err
		}
		if err := t.diskOf(id, (*keymutex.Set).RLock); err != nil {
			return none{}, err
		}
		return none{}, t.host.FormatVolume(id)
	})
	if err != nil {
		return nil, err
	}
	return &FormatVolumeResponse{}, nil
}

// WriteVolumeCache implements [Interface].
func (v *Volume) WriteVolumeCache(ctx context.Context, in *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error) {
	if in == nil {
		return nil, noRequest("WriteVolumeCache")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	_, err := do(ctx, v, "write the cache of volume", id, func(t *turn) (none, error) {
		if err := t.readVolume(id); err != nil {
			return none{}, err
		}
		return none{}, t.host.WriteVolumeCache(id)
	})
	if err != nil {
		return nil, err
	}
	return &WriteVolumeCacheResponse{}, nil
}

// ResizeVolume implements [Interface]. A partition ends on a multiple of 1 MiB, so
// the volume may become up to 1 MiB smaller than asked, and never larger. A size
// that is less than 1 MiB above the present one is success without a change.
func (v *Volume) ResizeVolume(ctx context.Context, in *ResizeVolumeRequest) (*ResizeVolumeResponse, error) {
	if in == nil {
		return nil, noRequest("ResizeVolume")
	}
	id, size := in.VolumeID, in.SizeBytes
	if id == "" {
		return nil, empty("volume id empty")
	}
	if size < 0 {
		return nil, hosterr.Text(hosterr.ErrInvalid, "invalid negative size %d for volume (%s)", size, id)
	}
	_, err := do(ctx, v, "resize volume", id, func(t *turn) (none, error) {
		if err := t.volume(id); err != nil {
			return none{}, err
		}
		if err := t.diskOf(id, (*keymutex.Set).Lock); err != nil {
			return none{}, err
		}
		return none{}, t.host.ResizeVolume(id, size)
	})
	if err != nil {
		return nil, err
	}
	return &ResizeVolumeResponse{}, nil
}

// GetVolumeStats implements [Interface]. A volume without a file system has 0
// bytes.
func (v *Volume) GetVolumeStats(ctx context.Context, in *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error) {
	if in == nil {
		return nil, noRequest("GetVolumeStats")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	stats, err := do(ctx, v, "get size of volume", id, func(t *turn) (GetVolumeStatsResponse, error) {
		if err := t.readVolume(id); err != nil {
			return GetVolumeStatsResponse{}, err
		}
		total, used, err := t.host.GetVolumeStats(id)
		return GetVolumeStatsResponse{TotalBytes: total, UsedBytes: used}, err
	})
	if err != nil {
		return nil, err
	}
	return &stats, nil
}

// GetDiskNumberFromVolumeID implements [Interface].
func (v *Volume) GetDiskNumberFromVolumeID(ctx context.Context, in *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error) {
	if in == nil {
		return nil, noRequest("GetDiskNumberFromVolumeID")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	n, err := do(ctx, v, "find the disk of volume", id, func(t *turn) (uint32, error) {
		return t.host.GetDiskNumberFromVolumeID(id)
	})
	if err != nil {
		return nil, err
	}
	return &GetDiskNumberFromVolumeIDResponse{DiskNumber: n}, nil
}

// GetVolumeIDFromTargetPath implements [Interface]. A link is followed to where
// it leads.
func (v *Volume) GetVolumeIDFromTargetPath(ctx context.Context, in *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error) {
	if in == nil {
		return nil, noRequest("GetVolumeIDFromTargetPath")
	}
	target := in.TargetPath
	if target == "" {
		return nil, empty("target path is empty")
	}
	id, err := node.Await(ctx, func() (string, error) { return v.on(ctx).GetVolumeIDFromTargetPath(target) })
	if err != nil {
		return nil, err
	}
	return &GetVolumeIDFromTargetPathResponse{VolumeID: id}, nil
}

// GetClosestVolumeIDFromTargetPath implements [Interface].
func (v *Volume) GetClosestVolumeIDFromTargetPath(ctx context.Context, in *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error) {
	if in == nil {
		return nil, noRequest("GetClosestVolumeIDFromTargetPath")
	}
	target := in.TargetPath
	if target == "" {
		return nil, empty("target path is empty")
	}
	id, err := node.Await(ctx, func() (string, error) { return v.on(ctx).GetClosestVolumeIDFromTargetPath(target) })
	if err != nil {
		return nil, err
	}
	return &GetClosestVolumeIDFromTargetPathResponse{VolumeID: id}, nil
}
