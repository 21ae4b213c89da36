package api

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// layout reads the disk's partition table, which needs no access to the disk.
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
	return err == nil && l.Style != win32.PARTITION_STYLE_RAW, err
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
	if err != nil || l.Style != win32.PARTITION_STYLE_RAW {
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
	// What may be left of an older file system where the partition will begin
	// would come back to life in it. This is the moment to remove it: once the
	// disk has a table, nobody can tell whose bytes these are.
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
	// Windows may have put a reserved partition of its own size into the table.
	_, actual, err := d.planned(disk, size)
	if err != nil || actual == start || actual == 0 {
		return err
	}
	return d.erase(disk, actual, size)
}

// unlessInitialized is err, or nil if the disk has a table by now: then err may come
// of what another program has written.
func (d DiskAPI) unlessInitialized(disk *storage.Disk, err error) error {
	if l, failed := disk.Layout(d.host.Ctx); failed == nil && l.Style != win32.PARTITION_STYLE_RAW {
		return nil
	}
	return err
}

// createGPT makes an empty table, unless another program has made one meanwhile: it
// would be lost with all that is in it. So nothing comes between a look and the new
// table, be it the pause before another try.
func (d DiskAPI) createGPT(disk *storage.Disk) (made bool, err error) {
	id, err := storage.NewID(d.host.Node.Rand)
	if err != nil {
		return false, err
	}
	once := disk.WithoutRetry()
	err = storage.Retry(d.host.Ctx, d.host.Node, func() error {
		l, err := once.Layout(d.host.Ctx)
		if err != nil || l.Style != win32.PARTITION_STYLE_RAW {
			return err
		}
		err = once.CreateGPT(d.host.Ctx, id)
		made = err == nil
		return err
	})
	return made, err
}

// erase removes what a file system could be recognised by, if it began at start.
func (d DiskAPI) erase(disk *storage.Disk, start, size uint64) error {
	const trace = 1 << 20
	if size < start+trace {
		return nil // no partition can begin there
	}
	return disk.Zero(d.host.Ctx, start, trace)
}

// planned is the disk's table with the data partition that is still to be made,
// and where that begins: 0 if another program has made one by now.
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

// vacant refuses a disk on which there is something, though it has no partition
// table that Windows knows: a file system on the whole disk, another system's
// volume manager, a damaged table. Bytes that are nothing known are no reason to
// refuse; recycled disks have them.
func (d DiskAPI) vacant(diskNumber uint32, disk *storage.Disk) error {
	b, err := disk.Start(d.host.Ctx, storage.ContentSize)
	if err != nil {
		return err
	}
	if content := storage.Content(b); content != "" {
		return inTheWay(content)
	}
	if !storage.Blank(b) {
		d.host.Node.Log.Warn("a disk without a partition table is not blank; what it holds is not recognised and will be lost", "disk", diskNumber)
	}
	return nil
}

func inTheWay(content string) error {
	return hosterr.WithHint("check that the disk is free", "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "it holds data (%s) outside of any partition and is not changed", content),
		"if nobody needs the data, wipe the first MiB of the disk and try again")
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

// addPartition returns the new table and where the new partition begins, 0 if
// there is one already. The disk is closed when it returns: an open handle can hold up the
// volume's arrival.
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

// emptyMBR refuses what Windows takes for an MBR without partitions and is not
// one: a file system that begins in the disk's first sector ends that sector
// with the same two bytes.
func (d DiskAPI) emptyMBR(l win32.Layout, disk *storage.Disk) error {
	b, err := disk.Start(d.host.Ctx, storage.ContentSize)
	if err != nil {
		return err
	}
	content := storage.Content(b)
	if l.Signature == 0 && content == "" {
		content = "an MBR without signature"
	}
	if l.Signature != 0 && content == storage.BootSector {
		return nil
	}
	if content == "" {
		return nil
	}
	return inTheWay(content)
}

// AwaitPartition waits for the volume of a partition that CreateBasicPartition
// made and did not see arrive, because it or its process was stopped. Disks that
// are offline or were partitioned by somebody else are left alone.
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
