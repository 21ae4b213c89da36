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
	if err := d.vacant(diskNumber, disk); err != nil {
		return d.unlessInitialized(disk, err)
	}
	if err := disk.MakeUsable(d.host.Ctx); err != nil {
		return err
	}
	size, err := disk.Length(d.host.Ctx)
	if err != nil {
		return err
	}
	// Remains of an old file system where the partition will begin would make Windows
	// recognize that file system in the new partition. They are erased now, because
	// once the disk has a table it is unknown whose data they are.
	start := storage.DataStart(size)
	if err := d.erase(disk, start, size); err != nil {
		return d.unlessInitialized(disk, err)
	}
	made, err := d.createGPT(disk)
	if err != nil || !made {
		return err
	}
	if err := disk.UpdateProperties(d.host.Ctx); err != nil {
		return err
	}
	// Windows may have added a reserved partition of a different size.
	_, actual, err := d.planned(disk, size)
	if err != nil || actual == start || actual == 0 {
		return err
	}
	return d.erase(disk, actual, size)
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

// erase erases the signatures of a file system that begins at start.
func (d DiskAPI) erase(disk *storage.Disk, start, size uint64) error {
	const signatures = 1 << 20
	if size < start+signatures {
		return nil // no partition can begin there
	}
	return disk.Zero(d.host.Ctx, start, signatures)
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

// vacant returns an error if a disk without a partition table has known content: a file
// system on the whole disk, the metadata of another system's volume manager, a damaged
// table. Unknown content is not an error, because reused disks have it.
func (d DiskAPI) vacant(diskNumber uint32, disk *storage.Disk) error {
	b, err := disk.Start(d.host.Ctx, storage.ContentSize)
	if err != nil {
		return err
	}
	if content := storage.Content(b); content != "" {
		return occupied(content)
	}
	if !storage.Blank(b) {
		d.host.Node.Log.Warn("Initializing a disk that is not blank; its unrecognized content will be lost", "disk", diskNumber)
	}
	return nil
}

func occupied(content string) error {
	return hosterr.WithHint("check that the disk is free", "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "it contains data (%s) outside any partition and was not changed", content),
		"if the data is not needed, wipe the first MiB of the disk and try again")
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
		if err := d.emptyMBR(l, disk); err != nil {
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
	offset, once := uint64(0), disk.WithoutRetry()
	err = storage.Retry(d.host.Ctx, d.host.Node, func() (err error) { // as in createGPT
		if l, offset, err = d.planned(once, size); err != nil || offset == 0 {
			return err
		}
		return once.SetLayout(d.host.Ctx, l)
	})
	if err != nil || offset == 0 {
		return win32.Layout{}, 0, err
	}
	return l, offset, disk.UpdateProperties(d.host.Ctx)
}

// emptyMBR returns an error if the disk's first sector is not an MBR although Windows
// reports an MBR without partitions: the first sector of a file system ends with the
// same two bytes.
func (d DiskAPI) emptyMBR(l win32.Layout, disk *storage.Disk) error {
	b, err := disk.Start(d.host.Ctx, storage.ContentSize)
	if err != nil {
		return err
	}
	content := storage.Content(b)
	if content == "" || content == storage.BootSector && !storage.Uninitialized(l) {
		return nil
	}
	return occupied(content)
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
