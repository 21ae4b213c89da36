package volume

import (
	"context"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Volume implements [Service] with a HostAPI.
//
// When the context of a call ends, the method returns immediately and its work stops
// before the next Windows call. A Windows call itself, such as a format, cannot be
// stopped: it continues and holds its locks until it returns, so that a retry waits for
// it and finds its work done.
type Volume struct {
	base service.Base[volumeapi.HostAPI]
}

var _ Service = (*Volume)(nil)

// New returns a service that uses hostAPI. With the HostAPI of this project it shares
// its locks with the other services of the same node; any other HostAPI gets locks of
// its own.
func New(hostAPI volumeapi.HostAPI) (*Volume, error) {
	base, err := service.New("volume", hostAPI)
	return service.Response(&Volume{base}, err)
}

// locks are taken in this order: path, volume, disk.
type locks = []service.Lock

func (v *Volume) path(path string) service.Lock {
	return func(ctx context.Context) (func(), error) {
		p, err := winpath.Parse(path)
		if err != nil {
			return nil, err
		}
		return v.base.Node.Locks.Paths.LockPath(ctx, p.Key())
	}
}

func (v *Volume) volume(id string) service.Lock {
	return service.Exclusive(&v.base.Node.Locks.Volumes, strings.ToLower(id))
}

func (v *Volume) readVolume(id string) service.Lock {
	return service.Shared(&v.base.Node.Locks.Volumes, strings.ToLower(id))
}

// diskOf locks the disk of a volume. lock is [service.Exclusive] or [service.Shared].
func (v *Volume) diskOf(id string, lock func(*keymutex.Set, string) service.Lock) service.Lock {
	return func(ctx context.Context) (func(), error) {
		n, err := v.base.On(ctx).GetDiskNumberFromVolumeID(id)
		if err != nil {
			return nil, err
		}
		return lock(&v.base.Node.Locks.Disks, strconv.FormatUint(uint64(n), 10))(ctx)
	}
}

// change runs work on a volume under locks.
func (v *Volume) change(ctx context.Context, op, id string, locks locks, work func(volumeapi.HostAPI) error) error {
	return hosterr.Wrap(op, hosterr.Quote(id), service.Do(ctx, v.base, locks, work))
}

// ask is change for work with a result.
func ask[T any](ctx context.Context, v *Volume, op, id string, locks locks, work func(volumeapi.HostAPI) (T, error)) (T, error) {
	out, err := service.Get(ctx, v.base, locks, work)
	return out, hosterr.Wrap(op, hosterr.Quote(id), err)
}

// empty is the error for an empty field. The texts are published, and drivers match on
// them.
func empty(text string) error { return hosterr.Text(hosterr.ErrInvalid, "%s", text) }

// ListVolumesOnDisk implements [Interface].
func (v *Volume) ListVolumesOnDisk(ctx context.Context, in *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ListVolumesOnDisk")
	}
	disk, partition := in.DiskNumber, in.PartitionNumber
	ids, err := service.Get(ctx, v.base, nil, func(host volumeapi.HostAPI) ([]string, error) { return host.ListVolumesOnDisk(disk, partition) })
	if err != nil {
		return nil, hosterr.Wrap("list volumes on disk", strconv.FormatUint(uint64(disk), 10), err)
	}
	return &ListVolumesOnDiskResponse{VolumeIDs: ids}, nil
}

// MountVolume implements [Interface]. While it runs, the disk of the volume cannot be taken
// offline or disconnected.
func (v *Volume) MountVolume(ctx context.Context, in *MountVolumeRequest) (*MountVolumeResponse, error) {
	if in == nil {
		return nil, service.NoRequest("MountVolume")
	}
	id, target := in.VolumeID, in.TargetPath
	if id == "" {
		return nil, empty("MountVolumeRequest.VolumeID is empty")
	}
	if target == "" {
		return nil, empty("MountVolumeRequest.TargetPath is empty")
	}
	err := v.change(ctx, "mount volume", id, locks{v.path(target), v.volume(id), v.diskOf(id, service.Shared)}, func(host volumeapi.HostAPI) error {
		return host.MountVolume(id, target)
	})
	return service.Response(&MountVolumeResponse{}, err)
}

// UnmountVolume implements [Interface]. It may be repeated, and also works if the volume
// no longer exists.
func (v *Volume) UnmountVolume(ctx context.Context, in *UnmountVolumeRequest) (*UnmountVolumeResponse, error) {
	if in == nil {
		return nil, service.NoRequest("UnmountVolume")
	}
	id, target := in.VolumeID, in.TargetPath
	if id == "" {
		return nil, empty("volume id empty")
	}
	if target == "" {
		return nil, empty("target path empty")
	}
	err := v.change(ctx, "unmount volume", id, locks{v.path(target), v.volume(id)}, func(host volumeapi.HostAPI) error {
		return host.UnmountVolume(id, target)
	})
	return service.Response(&UnmountVolumeResponse{}, err)
}

// IsVolumeFormatted implements [Interface]. Content of another operating system is an
// error that names the content.
func (v *Volume) IsVolumeFormatted(ctx context.Context, in *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error) {
	if in == nil {
		return nil, service.NoRequest("IsVolumeFormatted")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	formatted, err := ask(ctx, v, "check the file system of volume", id, locks{v.readVolume(id)}, func(host volumeapi.HostAPI) (bool, error) {
		return host.IsVolumeFormatted(id)
	})
	return service.Response(&IsVolumeFormattedResponse{Formatted: formatted}, err)
}

// CheckFilesystem returns an error if FormatVolume makes no such file system. Empty means NTFS.
//
// ReFS is none of them. The table of SetVolumeMountPointW, in Microsoft's reference of Windows,
// says that ReFS does not support it, and a volume of a driver is used through a mount point only.
func CheckFilesystem(name string) error {
	if name == "" || strings.EqualFold(name, "ntfs") {
		return nil
	}
	return hosterr.TextWithHint(hosterr.ErrInvalid, "ask for ntfs, or leave it empty", "file system %s: CSI Proxy makes ntfs only, in every version of the API", hosterr.Quote(name))
}

// Sizes of NTFS's allocation units (Microsoft: the /a of the command format).
const (
	minUnit = 512
	maxUnit = 2 << 20
)

// FormatVolume implements [Interface]. While it runs, the disk of the volume cannot be
// taken offline.
func (v *Volume) FormatVolume(ctx context.Context, in *FormatVolumeRequest) (*FormatVolumeResponse, error) {
	if in == nil {
		return nil, service.NoRequest("FormatVolume")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	if err := CheckFilesystem(in.Filesystem); err != nil {
		return nil, hosterr.Wrap("format volume", hosterr.Quote(id), err)
	}
	unit := in.AllocationUnitBytes
	if unit != 0 && (unit < minUnit || unit > maxUnit || unit&(unit-1) != 0) {
		return nil, hosterr.Wrap("format volume", hosterr.Quote(id), hosterr.TextWithHint(hosterr.ErrInvalid, "most volumes need none: leave it 0, and Windows chooses",
			"allocation units of %d bytes, want a power of 2 from %d to %d", unit, minUnit, maxUnit))
	}
	err := v.change(ctx, "format volume", id, locks{v.volume(id), v.diskOf(id, service.Shared)}, func(host volumeapi.HostAPI) error {
		if unit == 0 {
			return host.FormatVolume(id)
		}
		h, err := service.Optional[interface {
			FormatVolumeWithUnit(volumeID string, bytes uint32) error
		}](host, "FormatVolumeWithUnit")
		if err != nil {
			return err
		}
		return h.FormatVolumeWithUnit(id, unit)
	})
	return service.Response(&FormatVolumeResponse{}, err)
}

// WriteVolumeCache implements [Interface].
func (v *Volume) WriteVolumeCache(ctx context.Context, in *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error) {
	if in == nil {
		return nil, service.NoRequest("WriteVolumeCache")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	err := v.change(ctx, "flush cache of volume", id, locks{v.readVolume(id)}, func(host volumeapi.HostAPI) error {
		return host.WriteVolumeCache(id)
	})
	return service.Response(&WriteVolumeCacheResponse{}, err)
}

// ResizeVolume implements [Interface]. A partition ends on a multiple of 1 MiB, so the
// volume may become up to 1 MiB smaller than requested, and never larger. If the size is
// less than 1 MiB above the current size, it succeeds without a change.
func (v *Volume) ResizeVolume(ctx context.Context, in *ResizeVolumeRequest) (*ResizeVolumeResponse, error) {
	if in == nil {
		return nil, service.NoRequest("ResizeVolume")
	}
	id, size := in.VolumeID, in.SizeBytes
	if id == "" {
		return nil, empty("volume id empty")
	}
	if size < 0 {
		return nil, hosterr.Text(hosterr.ErrInvalid, "invalid negative size %d for volume (%s)", size, id)
	}
	err := v.change(ctx, "resize volume", id, locks{v.volume(id), v.diskOf(id, service.Exclusive)}, func(host volumeapi.HostAPI) error {
		return host.ResizeVolume(id, size)
	})
	return service.Response(&ResizeVolumeResponse{}, err)
}

// GetVolumeStats implements [Interface]. A volume without a file system has 0
// bytes.
func (v *Volume) GetVolumeStats(ctx context.Context, in *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetVolumeStats")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	stats, err := ask(ctx, v, "get size of volume", id, locks{v.readVolume(id)}, func(host volumeapi.HostAPI) (GetVolumeStatsResponse, error) {
		total, used, err := host.GetVolumeStats(id)
		return GetVolumeStatsResponse{TotalBytes: total, UsedBytes: used}, err
	})
	return service.Response(&stats, err)
}

// GetDiskNumberFromVolumeID implements [Interface].
func (v *Volume) GetDiskNumberFromVolumeID(ctx context.Context, in *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetDiskNumberFromVolumeID")
	}
	id := in.VolumeID
	if id == "" {
		return nil, empty("volume id empty")
	}
	n, err := ask(ctx, v, "find the disk of volume", id, nil, func(host volumeapi.HostAPI) (uint32, error) {
		return host.GetDiskNumberFromVolumeID(id)
	})
	return service.Response(&GetDiskNumberFromVolumeIDResponse{DiskNumber: n}, err)
}

// GetVolumeIDFromTargetPath implements [Interface]. It follows a link.
func (v *Volume) GetVolumeIDFromTargetPath(ctx context.Context, in *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetVolumeIDFromTargetPath")
	}
	target := in.TargetPath
	if target == "" {
		return nil, empty("target path is empty")
	}
	id, err := service.Get(ctx, v.base, nil, func(host volumeapi.HostAPI) (string, error) { return host.GetVolumeIDFromTargetPath(target) })
	return service.Response(&GetVolumeIDFromTargetPathResponse{VolumeID: id}, err)
}

// GetClosestVolumeIDFromTargetPath implements [Interface].
func (v *Volume) GetClosestVolumeIDFromTargetPath(ctx context.Context, in *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetClosestVolumeIDFromTargetPath")
	}
	target := in.TargetPath
	if target == "" {
		return nil, empty("target path is empty")
	}
	id, err := service.Get(ctx, v.base, nil, func(host volumeapi.HostAPI) (string, error) { return host.GetClosestVolumeIDFromTargetPath(target) })
	return service.Response(&GetClosestVolumeIDFromTargetPathResponse{VolumeID: id}, err)
}

// GetPathKind implements [Service].
func (v *Volume) GetPathKind(ctx context.Context, in *GetPathKindRequest) (*GetPathKindResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetPathKind")
	}
	if err := winpath.Check(in.Path); err != nil {
		return nil, err
	}
	out, err := service.Get(ctx, v.base, nil, func(host volumeapi.HostAPI) (out GetPathKindResponse, err error) {
		h, err := service.Optional[interface {
			PathKind(path string) (kind volumeapi.PathKind, volumeID string, err error)
		}](host, "PathKind")
		if err != nil {
			return out, err
		}
		kind, id, err := h.PathKind(in.Path)
		return GetPathKindResponse{Kind: PathKind(kind), VolumeID: id}, err
	})
	return service.Response(&out, err)
}

// GetPathStats implements [Service].
func (v *Volume) GetPathStats(ctx context.Context, in *GetPathStatsRequest) (*GetPathStatsResponse, error) {
	if in == nil {
		return nil, service.NoRequest("GetPathStats")
	}
	if err := winpath.Check(in.Path); err != nil {
		return nil, err
	}
	out, err := service.Get(ctx, v.base, nil, func(host volumeapi.HostAPI) (out GetPathStatsResponse, err error) {
		h, err := service.Optional[interface {
			PathStats(path string) (totalBytes, usedBytes int64, err error)
		}](host, "PathStats")
		if err != nil {
			return out, err
		}
		out.TotalBytes, out.UsedBytes, err = h.PathStats(in.Path)
		return out, err
	})
	return service.Response(&out, hosterr.Wrap("get size of what holds", hosterr.Quote(in.Path), err))
}
