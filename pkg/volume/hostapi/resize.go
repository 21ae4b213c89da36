package api

import (
	"cmp"
	"errors"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ResizeVolume implements [HostAPI]. It grows the partition first, and then the file
// system. If it stops between the two, the next call completes the work.
func (v volumeAPI) ResizeVolume(volumeID string, sizeBytes int64) error {
	if sizeBytes < 0 {
		return hosterr.Text(hosterr.ErrInvalid, "invalid negative size %d for volume (%s)", sizeBytes, volumeID)
	}
	if err := v.usable(volumeID); err != nil {
		return err
	}
	at, err := v.place(volumeID)
	if err != nil {
		return err
	}
	r := resize{v: v, volumeID: volumeID, at: at, want: uint64(sizeBytes)}
	if r.fs, err = v.look(volumeID); err != nil {
		return err
	}
	done, err := r.satisfied()
	if err != nil || done {
		return err
	}
	return r.run()
}

// resize is the growth of one volume.
type resize struct {
	v        volumeAPI
	volumeID string
	at       win32.Extent
	want     uint64 // bytes; 0 means as large as possible
	fs       string // "" means none
}

// satisfied reports whether partition and file system already have the requested size.
func (r resize) satisfied() (bool, error) {
	if r.want == 0 {
		return false, nil
	}
	disk, err := r.v.openDiskOf(r.volumeID, r.at, storage.Query)
	if err != nil {
		return false, err
	}
	defer disk.Close()
	l, err := disk.Layout(r.v.host.Ctx)
	if err != nil {
		return false, err
	}
	p, ok := storage.At(l, r.at.Offset)
	if !ok || r.want > p.Length {
		return false, nil
	}
	lags, size, err := r.lags(p.Length)
	return !lags || r.want <= size, err
}

// lags reports whether the file system is smaller than possible in a partition of length
// bytes, and returns its size.
func (r resize) lags(length uint64) (bool, uint64, error) {
	if r.fs != ntfs {
		return false, 0, nil
	}
	vol, err := storage.OpenVolume(r.v.host.Ctx, r.v.host.Node, r.volumeID, storage.Read)
	if err != nil {
		return false, 0, err
	}
	defer vol.Close()
	data, err := vol.NTFS(r.v.host.Ctx)
	if err != nil {
		return false, 0, err
	}
	_, lags := storage.FileSystemSectors(data, length)
	return lags, data.TotalClusters * uint64(data.BytesPerCluster), nil
}

func (r resize) run() error {
	disk, err := r.v.openDiskOf(r.volumeID, r.at, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()

	// The disk may have grown without Windows knowing.
	if err := disk.UpdateSize(r.v.host.Ctx); err != nil && !win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
		return err
	}
	if err := disk.UpdateProperties(r.v.host.Ctx); err != nil {
		return err
	}
	l, err := disk.Layout(r.v.host.Ctx)
	if err != nil {
		return err
	}
	p, err := basicData(l, r.at)
	if err != nil {
		return err
	}
	size, err := disk.Length(r.v.host.Ctx)
	if err != nil {
		return err
	}
	g, err := disk.Geometry(r.v.host.Ctx)
	if err != nil {
		return err
	}
	most := storage.MaxLength(l, p, size, g.BytesPerSector)
	if r.want > most {
		return hosterr.Text(hosterr.ErrOutOfRange, "size %d exceeds the largest possible size of %d bytes", r.want, most)
	}
	length := most
	if r.want != 0 {
		length = storage.GrownLength(p, r.want, most)
	}
	lags, _, err := r.lags(p.Length)
	if err != nil {
		return err
	}
	if length == p.Length && !lags {
		return nil
	}

	if r.fs != ntfs && r.fs != "" {
		return hosterr.Text(hosterr.ErrFailedPrecondition, "its file system (%s) cannot grow; only NTFS can", r.v.behind(r.volumeID, r.fs))
	}
	if err := storage.Guard(r.v.host.Ctx, disk, l); err != nil {
		return err
	}
	if err := disk.Writable(r.v.host.Ctx, r.at.Disk); err != nil {
		return err
	}
	if length > p.Length {
		if err := r.growInto(disk, length, size, g.BytesPerSector); err != nil {
			return err
		}
	}
	if r.fs == ntfs {
		err = r.growFileSystem(disk, length)
	} else {
		err = r.awaitVolume(disk, length)
	}
	if err != nil {
		return err
	}
	return disk.UpdateProperties(r.v.host.Ctx)
}

// growInto is growPartition, if there is no content that the partition would grow over. The service
// has the lock of the disk, so that no request clears that space meanwhile.
func (r resize) growInto(disk *storage.Disk, length, size uint64, sector uint32) error {
	l, err := disk.Layout(r.v.host.Ctx)
	if err != nil {
		return err
	}
	p, err := basicData(l, r.at)
	if err != nil {
		return err
	}
	look, err := disk.NewLook(r.v.host.Ctx, r.at.Disk, l)
	if err != nil {
		return err
	}
	if look.Size != size {
		return hosterr.Text(hosterr.ErrUnavailable, "the size of disk %d changed during the operation; try again", r.at.Disk)
	}
	if _, err := disk.Vacant(r.v.host.Ctx, look.Growth(p, length)); err != nil {
		return disk.TakenOffline(r.v.host.Ctx, r.at.Disk, err)
	}
	return r.growPartition(disk, length, size, sector)
}

// growPartition makes the partition length bytes long, on a disk of size bytes. On a disk
// that has grown, the GPT may still have the old end, so that is moved first. If Windows
// refuses with one of the errors of a table that is out of date, growPartition looks again
// and tries once more, because growth is relative to a length that may have changed.
func (r resize) growPartition(disk *storage.Disk, length, size uint64, sector uint32) error {
	err := r.growOnce(disk, length, size, sector)
	if !outdated(err) {
		return err
	}
	r.v.host.Node.Log.Info("Growing a partition again", "volume", r.volumeID, "err", err)
	if err := disk.UpdateProperties(r.v.host.Ctx); err != nil {
		return err
	}
	return r.growOnce(disk, length, size, sector)
}

// outdated reports whether err may mean that Windows or its table does not know the new end
// of the disk yet (Microsoft: IOCTL_DISK_GROW_PARTITION in the DDI).
func outdated(err error) bool {
	return win32.IsCode(err, win32.ERROR_INVALID_PARAMETER, win32.ERROR_GEN_FAILURE, win32.ERROR_IO_DEVICE, win32.ERROR_DISK_FULL)
}

func (r resize) growOnce(disk *storage.Disk, length, size uint64, sector uint32) error {
	// Windows may move the end of the table by itself, so a refusal counts only if the
	// partition does not grow either.
	l, err := disk.Layout(r.v.host.Ctx)
	if err != nil {
		return err
	}
	var moved error
	if storage.IsLast(l, r.at.Offset) {
		if moved = disk.MoveEnd(r.v.host.Ctx, size, sector); moved != nil && !outdated(moved) {
			return moved
		}
		if l, err = disk.Layout(r.v.host.Ctx); err != nil {
			return err
		}
	}
	p, err := basicData(l, r.at)
	if err != nil || p.Length >= length {
		return err
	}
	if err := disk.Grow(r.v.host.Ctx, p.Number, int64(length-p.Length)); err != nil {
		return cmp.Or(moved, err)
	}
	return nil
}

// awaitVolume waits until the volume has length bytes. Before each look, it tells disk and
// volume that the partition has changed, which Windows may not do.
func (r resize) awaitVolume(disk *storage.Disk, length uint64) error {
	vol, err := storage.OpenVolume(r.v.host.Ctx, r.v.host.Node, r.volumeID, storage.Read)
	if err != nil {
		return err
	}
	defer vol.Close()
	const limit = 30 * time.Second
	return r.v.host.Poll(node.Pace{Pause: 10 * time.Millisecond, Longest: time.Second, Limit: limit}, func() (bool, error) {
		if err := errors.Join(disk.UpdateProperties(r.v.host.Ctx), vol.UpdateProperties(r.v.host.Ctx)); err != nil {
			return true, err
		}
		have, err := vol.Length(r.v.host.Ctx)
		if err != nil || have >= length {
			return true, err
		}
		return false, hosterr.Text(hosterr.ErrUnavailable, "the partition has %d bytes, but after %s the volume still has %d; try again", length, limit, have)
	})
}

// growFileSystem waits until the volume has length bytes, and extends the file system to
// that size.
func (r resize) growFileSystem(disk *storage.Disk, length uint64) error {
	if err := r.awaitVolume(disk, length); err != nil {
		return err
	}
	vol, err := storage.OpenVolume(r.v.host.Ctx, r.v.host.Node, r.volumeID, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer vol.Close()
	data, err := vol.NTFS(r.v.host.Ctx)
	if err != nil {
		return err
	}
	sectors, ok := storage.FileSystemSectors(data, length)
	if !ok {
		return nil
	}
	return vol.Extend(r.v.host.Ctx, sectors)
}
