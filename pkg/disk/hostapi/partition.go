package api

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// layout reads the disk's partition table, which needs no access rights to the disk.
func (d DiskAPI) layout(diskNumber uint32) (win32.Layout, error) {
	if err := d.host.Ready(); err != nil {
		return win32.Layout{}, err
	}
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.Query)
	if err != nil {
		return win32.Layout{}, err
	}
	defer disk.Close()
	return disk.Layout(d.host.Ctx)
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
	if err := d.host.Ready(); err != nil {
		return err
	}
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.ReadWrite)
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
	size, err := disk.Length(d.host.Ctx)
	if err != nil {
		return err
	}
	if err := d.vacant(diskNumber, disk, size); err != nil {
		return d.unlessInitialized(disk, err)
	}
	if err := disk.MakeUsable(d.host.Ctx); err != nil {
		return err
	}
	made, err := d.createGPT(disk)
	if err != nil || !made {
		return err
	}
	return disk.UpdateProperties(d.host.Ctx)
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

// planned returns the disk's table with the new data partition added, and where that
// begins. It returns 0 if another program has made a partition by now.
func (d DiskAPI) planned(disk *storage.Disk, size uint64) (win32.Layout, uint64, error) {
	g, err := disk.Geometry(d.host.Ctx)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	l, err := disk.Layout(d.host.Ctx)
	if err != nil || len(storage.Partitions(l)) > 0 {
		return l, 0, err
	}
	return storage.AddPartition(l, size, g.BytesPerSector, d.host.Node.Rand)
}

// vacant returns an error if a disk without a partition table holds data: content at one of
// its ends, at the place where other systems begin their first partition, or where its
// own partition will begin and end. [DiskAPI.free] looks there again when that is known.
func (d DiskAPI) vacant(diskNumber uint32, disk *storage.Disk, size uint64) error {
	for _, a := range storage.NewDiskAreas(size) {
		c, err := disk.Look(d.host.Ctx, a)
		if err == nil {
			err = d.occupied(diskNumber, disk, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d DiskAPI) occupied(diskNumber uint32, disk *storage.Disk, c storage.Content) error {
	return disk.Occupied(c, "check that the disk is free", "a disk", "disk", diskNumber)
}

// free returns an error if there is data where partition p will be. Otherwise it erases the
// first and the last MiB of that place, so that nothing old appears in the new volume.
func (d DiskAPI) free(diskNumber uint32, disk *storage.Disk, p win32.Partition) error {
	c, err := disk.Look(d.host.Ctx, storage.Area{Offset: p.Offset, Length: p.Length})
	if err != nil {
		return err
	}
	if err := d.occupied(diskNumber, disk, c); err != nil {
		return err
	}
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
	if err := d.host.Ready(); err != nil {
		return err
	}
	l, offset, err := d.addPartition(diskNumber)
	if err != nil {
		return err
	}
	if offset == 0 {
		return d.AwaitPartition(diskNumber)
	}
	_, err = storage.AwaitVolume(d.host.Ctx, d.host.Node, diskNumber, l, offset)
	return err
}

// addPartition returns the new table and where the new partition begins, or 0 if the
// disk already has a partition. It closes the disk, because an open handle can delay
// the arrival of the volume.
func (d DiskAPI) addPartition(diskNumber uint32) (win32.Layout, uint64, error) {
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, diskNumber, storage.ReadWrite)
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
	if l.Style == win32.PARTITION_STYLE_MBR {
		if err := d.emptyMBR(diskNumber, l, disk); err != nil {
			return win32.Layout{}, 0, err
		}
	}
	if err := disk.MakeUsable(d.host.Ctx); err != nil {
		return win32.Layout{}, 0, err
	}
	size, err := disk.Length(d.host.Ctx)
	if err != nil {
		return win32.Layout{}, 0, err
	}
	plan, offset, err := d.planned(disk, size)
	if err != nil || offset == 0 {
		return win32.Layout{}, 0, err
	}
	p, _ := storage.At(plan, offset)
	if err := d.free(diskNumber, disk, p); err != nil {
		// Windows refuses to write into the volume of another program's new partition.
		if l, failed := disk.Layout(d.host.Ctx); failed == nil && len(storage.Partitions(l)) > 0 {
			return win32.Layout{}, 0, nil
		}
		return win32.Layout{}, 0, err
	}
	once := disk.WithoutRetry()
	err = storage.Retry(d.host.Ctx, d.host.Node, func() (err error) { // as in createGPT
		if l, offset, err = d.planned(once, size); err != nil || offset == 0 {
			return err
		}
		if now, _ := storage.At(l, offset); now.Offset != p.Offset || now.Length != p.Length {
			return hosterr.Text(hosterr.ErrUnavailable, "the partition table changed during the operation; try again")
		}
		return once.SetLayout(d.host.Ctx, l)
	})
	if err != nil || offset == 0 {
		return win32.Layout{}, 0, err
	}
	return l, offset, disk.UpdateProperties(d.host.Ctx)
}

// emptyMBR returns an error if the disk's first sector is not an MBR although Windows
// reports an MBR without partitions, because the first sector of a file system ends with
// the same two bytes, or if there is data behind it.
func (d DiskAPI) emptyMBR(diskNumber uint32, l win32.Layout, disk *storage.Disk) error {
	size, err := disk.Length(d.host.Ctx)
	if err != nil {
		return err
	}
	whole := storage.Area{Length: size}
	c, err := disk.Look(d.host.Ctx, whole)
	if err == nil && c.Kind == storage.BootSector && !storage.Uninitialized(l) {
		c, err = disk.LookBehindMBR(d.host.Ctx, whole)
	}
	if err != nil {
		return err
	}
	return d.occupied(diskNumber, disk, c)
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
	_, err = storage.AwaitVolume(d.host.Ctx, d.host.Node, diskNumber, l, p.Offset)
	return err
}
