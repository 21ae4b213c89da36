package api

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// layout reads the disk's partition table, which needs no access rights to the disk.
func (d DiskAPI) layout(diskNumber uint32) (win32.Layout, error) {
	return with(d, diskNumber, storage.Query, func(disk *storage.Disk) (win32.Layout, error) { return disk.Layout(d.host.Ctx) })
}

// IsDiskInitialized implements [HostAPI].
func (d DiskAPI) IsDiskInitialized(diskNumber uint32) (bool, error) {
	l, err := d.layout(diskNumber)
	return err == nil && !storage.Uninitialized(l), err
}

// BasicPartitionsExist implements [HostAPI].
func (d DiskAPI) BasicPartitionsExist(diskNumber uint32) (bool, error) {
	l, err := d.layout(diskNumber)
	return len(storage.Partitions(l)) > 0, err
}

// InitializeDisk implements [HostAPI].
func (d DiskAPI) InitializeDisk(diskNumber uint32) error {
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return err
	}
	defer disk.Close()

	l, err := disk.Layout(d.host.Ctx)
	if err != nil || !storage.Uninitialized(l) {
		return err
	}
	if err := storage.Guard(d.host.Ctx, disk, l); err != nil {
		return err
	}
	look := func(disk *storage.Disk) error { return d.vacant(diskNumber, disk, l) }
	if err := d.inspect(diskNumber, disk, look); err != nil {
		return d.unlessInitialized(disk, err)
	}
	if err := disk.MakeUsable(d.host.Ctx, storage.Remembered); err != nil {
		return err
	}
	made, err := d.createGPT(disk)
	if err != nil || !made {
		return err
	}
	if err := disk.UpdateProperties(d.host.Ctx); err != nil {
		return err
	}
	return d.settled(disk)
}

// inspect calls look, which reads the disk. Windows may refuse to read an offline disk.
// Then inspect takes it online, but read-only, so that no file system writes to it, and
// calls look again. If that fails, the disk gets back the attributes that it had.
func (d DiskAPI) inspect(number uint32, disk *storage.Disk, look func(*storage.Disk) error) error {
	const both = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	attrs, err := disk.Attributes(d.host.Ctx)
	if err != nil {
		return err
	}
	if attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0 {
		failed := look(disk)
		if !win32.IsCode(failed, win32.ERROR_NOT_READY) {
			return failed
		}
		// Another program may have taken it offline meanwhile.
		if attrs, err = disk.Attributes(d.host.Ctx); err != nil || attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0 {
			return failed
		}
	}
	err = look(disk.WithoutRetry())
	if _, failed := win32.Code(err); !failed {
		return err
	}
	if !win32.IsCode(err, win32.ERROR_NOT_READY) {
		return look(disk)
	}
	d.host.Node.Log.Info("Taking an offline disk online to read it", "disk", number)
	// Also if this fails, the attributes may have changed.
	if err = disk.SetAttributes(d.host.Ctx, win32.DISK_ATTRIBUTE_READ_ONLY, both, storage.Passing); err == nil {
		err = look(disk)
	}
	if err == nil {
		return nil
	}
	if failed := disk.SetAttributes(context.WithoutCancel(d.host.Ctx), attrs, both, storage.Passing); failed != nil {
		d.host.Node.Log.Warn("Failed to take a disk offline again", "disk", number, "err", failed)
	}
	return err
}

// How often settled looks, and the pause between two looks.
const (
	settlePause = 50 * time.Millisecond
	settleTries = 20
)

// settled waits until two looks at a new table agree: Windows may add a reserved partition
// a moment after the table was made (docs/develop/contract/disks.md#creating-a-partition).
func (d DiskAPI) settled(disk *storage.Disk) error {
	var last []byte
	return node.Poll(d.host.Ctx, d.host.Node.Clock, node.Pace{Pause: settlePause, Tries: settleTries}, func() (bool, error) {
		l, err := disk.Layout(d.host.Ctx)
		if err != nil {
			return true, err
		}
		now := l.Encode()
		same := bytes.Equal(now, last)
		last = now
		return same, nil
	})
}

// unlessInitialized returns err, or nil if the disk has a table by now: then another
// program has written it, which may have caused err.
func (d DiskAPI) unlessInitialized(disk *storage.Disk, err error) error {
	if l, failed := disk.Layout(d.host.Ctx); failed == nil && !storage.Uninitialized(l) {
		return nil
	}
	return err
}

// createGPT makes an empty table unless another program has made one in the meantime,
// which would be lost with all its partitions. So each try checks again right before it
// writes.
func (d DiskAPI) createGPT(disk *storage.Disk) (made bool, err error) {
	id, err := storage.NewID(d.host.Node.Rand)
	if err != nil {
		return false, err
	}
	once := disk.WithoutRetry()
	err = storage.Retry(d.host.Ctx, d.host.Node, func() error {
		l, err := once.Layout(d.host.Ctx)
		if err != nil || !storage.Uninitialized(l) {
			return err
		}
		err = once.CreateGPT(d.host.Ctx, id)
		made = err == nil
		return err
	})
	return made, err
}

// planned returns the disk's table, the same with the new data partition added, and where that
// begins. It returns 0 if another program has made a partition by now.
func (d DiskAPI) planned(disk *storage.Disk, size uint64, sector uint32) (now, plan win32.Layout, offset uint64, err error) {
	now, err = disk.Layout(d.host.Ctx)
	if err != nil || len(storage.Partitions(now)) > 0 {
		return now, now, 0, err
	}
	plan, offset, err = storage.AddPartition(now, size, sector, d.host.Node.Rand)
	return now, plan, offset, err
}

// vacant returns an error if a disk with this table, which has no partitions, holds data.
func (d DiskAPI) vacant(diskNumber uint32, disk *storage.Disk, l win32.Layout) error {
	look, err := disk.NewLook(d.host.Ctx, diskNumber, l)
	if err == nil {
		_, err = disk.Vacant(d.host.Ctx, look)
	}
	return err
}

// erase erases the first and the last MiB of the place of a partition, so that nothing old
// appears in the new volume.
func (d DiskAPI) erase(disk *storage.Disk, p win32.Partition) error {
	if err := disk.Zero(d.host.Ctx, p.Offset, min(storage.Edge, p.Length)); err != nil {
		return err
	}
	if p.Length <= storage.Edge {
		return nil
	}
	return disk.Zero(d.host.Ctx, p.Offset+p.Length-storage.Edge, storage.Edge)
}

// CreateBasicPartition implements [HostAPI].
func (d DiskAPI) CreateBasicPartition(diskNumber uint32) error {
	l, offset, err := d.addPartition(diskNumber)
	if err != nil {
		return err
	}
	if offset == 0 {
		return d.AwaitPartition(diskNumber)
	}
	return storage.AwaitVolume(d.host.Ctx, d.host.Node, diskNumber, l, offset)
}

// addPartition returns the new table and where the new partition begins, or 0 if the
// disk already has a partition. It closes the disk, because an open handle can delay
// the arrival of the volume.
func (d DiskAPI) addPartition(diskNumber uint32) (win32.Layout, uint64, error) {
	disk, err := d.open(diskNumber, storage.ReadWrite)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	defer disk.Close()

	l, err := disk.Layout(d.host.Ctx)
	if err != nil || len(storage.Partitions(l)) > 0 {
		return win32.Layout{}, 0, err
	}
	if err := storage.Guard(d.host.Ctx, disk, l); err != nil {
		return win32.Layout{}, 0, err
	}
	attrs, err := disk.Attributes(d.host.Ctx)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	if attrs != 0 { // a disk that can be written is looked at when the place is known
		look := func(disk *storage.Disk) error { return d.vacant(diskNumber, disk, l) }
		if err := d.inspect(diskNumber, disk, look); err != nil {
			return win32.Layout{}, 0, err
		}
	}
	if err := disk.MakeUsable(d.host.Ctx, storage.Remembered); err != nil {
		return win32.Layout{}, 0, err
	}
	size, err := disk.Length(d.host.Ctx)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	g, err := disk.Geometry(d.host.Ctx)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	if wider := storage.WithEnd(l, size, g.BytesPerSector); wider.UsableLength != l.UsableLength { // the disk has grown
		if err := d.vacant(diskNumber, disk, l); err != nil {
			return win32.Layout{}, 0, disk.TakenOffline(d.host.Ctx, diskNumber, err)
		}
		if err := disk.MoveEnd(d.host.Ctx, size, g.BytesPerSector); err != nil {
			d.host.Node.Log.Warn("Cannot move the end of the partition table; the partition ends where the disk did before it grew", "disk", diskNumber, "err", err)
		}
	}
	var offset uint64
	err = errMoved
	for i := 0; i < placings && errors.Is(err, errMoved); i++ {
		l, offset, err = d.place(diskNumber, disk, size, g.BytesPerSector)
	}
	if errors.Is(err, errMoved) {
		err = hosterr.Text(hosterr.ErrUnavailable, "%w; try again", errMoved)
	}
	if err != nil || offset == 0 {
		return win32.Layout{}, 0, disk.TakenOffline(d.host.Ctx, diskNumber, err)
	}
	return l, offset, disk.UpdateProperties(d.host.Ctx)
}

// placings is how often addPartition looks for the place of the partition. A reserved
// partition that Windows adds late moves it once.
const placings = 3

var errMoved = errors.New("the partition table changed during the operation")

// place makes the partition. It returns the new table and where the partition begins, or 0
// if another program has made one. It returns errMoved if, once its place was erased, the
// table has changed so that it has to be elsewhere.
func (d DiskAPI) place(diskNumber uint32, disk *storage.Disk, size uint64, sector uint32) (l win32.Layout, offset uint64, err error) {
	now, plan, offset, err := d.planned(disk, size, sector)
	if err != nil || offset == 0 {
		return plan, 0, err
	}
	p, _ := storage.At(plan, offset)
	if err = d.vacant(diskNumber, disk, now); err == nil {
		err = d.erase(disk, p)
	}
	if err != nil {
		// Windows refuses to write into the volume of another program's new partition.
		if l, failed := disk.Layout(d.host.Ctx); failed == nil && len(storage.Partitions(l)) > 0 {
			return l, 0, nil
		}
		return plan, 0, err
	}
	once := disk.WithoutRetry()
	err = storage.Retry(d.host.Ctx, d.host.Node, func() (err error) { // as in createGPT
		if _, l, offset, err = d.planned(once, size, sector); err != nil || offset == 0 {
			return err
		}
		if now, _ := storage.At(l, offset); now.Offset != p.Offset || now.Length != p.Length {
			return errMoved
		}
		return once.SetLayout(d.host.Ctx, l)
	})
	return l, offset, err
}

// Partitioned checks a disk that PartitionDisk was asked to partition and that has partitions: a
// driver will use it. It refuses the temporary disk of an Azure machine, and waits like
// AwaitPartition.
func (d DiskAPI) Partitioned(diskNumber uint32) error {
	disk, err := d.open(diskNumber, storage.Query)
	if err != nil {
		return err
	}
	err = disk.RefuseTemporary(d.host.Ctx, diskNumber)
	disk.Close()
	if err != nil {
		return err
	}
	return d.AwaitPartition(diskNumber)
}

// AwaitPartition waits for the volume of a partition that CreateBasicPartition made, in
// case that call or its process was stopped before the volume arrived. It does nothing
// for offline disks and for disks with other partitions.
func (d DiskAPI) AwaitPartition(diskNumber uint32) error {
	l, err := d.layout(diskNumber)
	if err != nil {
		return err
	}
	p, ours := storage.SingleData(l)
	if !ours {
		return nil
	}
	online, err := d.GetDiskState(diskNumber)
	if err != nil || !online {
		return err
	}
	return storage.AwaitVolume(d.host.Ctx, d.host.Node, diskNumber, l, p.Offset)
}
