package disk

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
)

// Control handles the control codes of a disk. The handle's access has been
// checked.
//
// Source: document, the page of each control code.
func (d *Disk) Control(t *kernel.Tx, _ *kernel.DeviceHandle, code uint32, in, out []byte) (int, error) {
	switch code {
	case win32.IOCTL_STORAGE_GET_DEVICE_NUMBER:
		return kernel.Output(out, win32.DeviceNumber{DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: d.Number}.Encode())
	case win32.IOCTL_STORAGE_QUERY_PROPERTY:
		return d.queryProperty(in, out)
	case win32.IOCTL_SCSI_GET_ADDRESS:
		if d.Address == nil {
			// Source: inference, no driver of the stack knows the code.
			return 0, win32.ERROR_INVALID_FUNCTION // not a SCSI port (docs/develop/contract/disks.md#location)
		}
		return kernel.Output(out, d.Address.Encode())
	case win32.IOCTL_DISK_GET_LENGTH_INFO:
		return kernel.Output(out, win32.EncodeLength(d.SeenSize))
	case win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX:
		return kernel.Output(out, win32.Geometry{BytesPerSector: d.Sector, DiskSize: d.SeenSize}.Encode())
	case win32.IOCTL_DISK_IS_WRITABLE:
		if d.n.Windows.IsWritable == behavior.WritableMedium && !d.Protected {
			return 0, nil
		}
		return 0, d.Writable()
	// Source: document, IOCTL_DISK_IS_CLUSTERED.
	case win32.IOCTL_DISK_IS_CLUSTERED:
		clustered := []byte{0}
		if d.Clustered {
			clustered[0] = 1
		}
		return kernel.Output(out, clustered)
	// Source: document, IOCTL_DISK_GET_DRIVE_LAYOUT_EX. For a blank disk see the option
	// blankDisks.
	case win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX:
		return kernel.Output(out, d.layout().Encode())
	// Source: document, IOCTL_DISK_GET_DISK_ATTRIBUTES.
	case win32.IOCTL_DISK_GET_DISK_ATTRIBUTES:
		return kernel.Output(out, win32.EncodeDiskAttributes(d.Attributes))
	// Source: code, WSL disk.cpp: also while the disk is in use.
	case win32.IOCTL_DISK_SET_DISK_ATTRIBUTES:
		return 0, d.setAttributes(t, in)
	// Source: document, IOCTL_DISK_CREATE_DISK. For its partitions see the option newGPT.
	case win32.IOCTL_DISK_CREATE_DISK:
		return 0, d.createDisk(t, in)
	// Source: document, IOCTL_DISK_SET_DRIVE_LAYOUT_EX.
	case win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX:
		return 0, d.setLayout(t, in)
	// Source: document, IOCTL_DISK_GROW_PARTITION. For the end of a GPT see the option gptEnd.
	case win32.IOCTL_DISK_GROW_PARTITION:
		return 0, d.growPartition(t, in)
	// Source: code, disk.c (Windows-driver-samples).
	case win32.IOCTL_DISK_UPDATE_DRIVE_SIZE:
		return d.updateSize(t, out)
	// Source: document, IOCTL_DISK_UPDATE_PROPERTIES.
	case win32.IOCTL_DISK_UPDATE_PROPERTIES:
		return 0, d.updateProperties(t)
	}
	// STATUS_INVALID_DEVICE_REQUEST: no driver of the stack knows the code.
	return 0, win32.ERROR_INVALID_FUNCTION // Source: inference, by the text of the code in ntstatus.h
}

// layout returns the table as IOCTL_DISK_GET_DRIVE_LAYOUT_EX spells it. How Windows spells
// that there is none is open (docs/develop/contract/disks.md#partition-table).
func (d *Disk) layout() win32.Layout {
	if d.Table.Style != win32.PARTITION_STYLE_RAW {
		return d.Table
	}
	switch d.n.Windows.BlankDisks {
	case behavior.BlankMBR:
		return win32.Layout{Style: win32.PARTITION_STYLE_MBR}
	case behavior.BlankSuperfloppy:
		return win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: 1, Partitions: []win32.Partition{
			{Style: win32.PARTITION_STYLE_MBR, Length: d.TableSize, Number: 1, MBRType: 0x04, Recognized: true},
		}}
	}
	return d.Table
}

// queryProperty is IOCTL_STORAGE_QUERY_PROPERTY. A short buffer gets the
// beginning of the descriptor, whose Size field is the full length.
func (d *Disk) queryProperty(in, out []byte) (int, error) {
	q, err := win32.DecodePropertyQuery(in)
	if err != nil {
		return 0, kernel.InputError(in, win32.SizeofPropertyQuery)
	}
	var b []byte
	switch q.PropertyID {
	case win32.StorageDeviceProperty:
		b = win32.DeviceDescriptor{
			Removable: d.Removable, BusType: d.Bus, Vendor: d.Vendor, Product: d.Product, Revision: d.Revision, SerialNumber: d.Serial,
		}.Encode()
	case win32.StorageDeviceIdProperty:
		if len(d.Identifiers) == 0 {
			// Source: document, IOCTL_STORAGE_QUERY_PROPERTY, STATUS_INVALID_DEVICE_REQUEST; for
			// which property is inference.
			return 0, win32.ERROR_INVALID_FUNCTION // no page 83h (docs/develop/contract/disks.md#page-83-identifier)
		}
		b = win32.EncodeIdentifiers(d.Identifiers)
	case win32.StorageDeviceLocationProperty:
		if d.Location == "" {
			// Source: document, IOCTL_STORAGE_QUERY_PROPERTY, STATUS_NOT_SUPPORTED; for which
			// property is inference.
			return 0, win32.ERROR_NOT_SUPPORTED // docs/develop/contract/disks.md#location
		}
		b = win32.EncodeLocation(d.Location)
	default:
		return 0, win32.ERROR_NOT_SUPPORTED // Source: document, IOCTL_STORAGE_QUERY_PROPERTY, STATUS_NOT_SUPPORTED
	}
	if q.QueryType != 0 { // PropertyStandardQuery
		return 0, win32.ERROR_NOT_SUPPORTED // Source: node, hosts make no other query
	}
	const header = 8 // STORAGE_DESCRIPTOR_HEADER
	if len(out) < header {
		return 0, win32.ERROR_INSUFFICIENT_BUFFER // Source: inference, by the pages of other control codes
	}
	return copy(out, b), nil
}

// setAttributes is IOCTL_DISK_SET_DISK_ATTRIBUTES. Version must be the
// structure's size (docs/develop/contract/disks.md#online-offline-read-only). Unknown
// bits are refused.
func (d *Disk) setAttributes(t *kernel.Tx, in []byte) error {
	const known = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	set, err := win32.DecodeSetDiskAttributes(in)
	if err != nil {
		return kernel.InputError(in, win32.SizeofSetDiskAttributes)
	}
	if (set.Mask|set.Attributes)&^known != 0 {
		return win32.ERROR_INVALID_PARAMETER // Source: inference, of attributes that winioctl.h does not have
	}
	state := d.Record
	state.Attributes = state.Attributes&^set.Mask | set.Attributes&set.Mask
	state.Collision = state.Collision && state.Offline()
	if d.System && state.Attributes != 0 {
		// diskpart says "Disk attributes may not be changed on the current system
		// disk"; the number is general knowledge.
		return win32.ERROR_ACCESS_DENIED // Source: inference, diskpart refuses it on the system disk
	}
	remembered, _, err := d.n.remembered(&d.Record)
	if err != nil {
		return d.n.BreakDown("read the state of a slot", err)
	}
	if set.Persist {
		t.Put(d.slotKey(), slotState{remembered&^set.Mask | set.Attributes&set.Mask})
	}
	if d.Offline() && !state.Offline() && d.n.collides(d, d.Table) {
		return d.newIdentity(t, state)
	}
	if state.Attributes == d.Attributes {
		return nil
	}
	d.change(t, state)
	return d.n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: d.Table})
}

// createDisk is IOCTL_DISK_CREATE_DISK. It replaces the table of the disk with an
// empty GPT, the only one that hosts make.
func (d *Disk) createDisk(t *kernel.Tx, in []byte) error {
	c, err := win32.DecodeCreateDisk(in)
	if err != nil {
		return kernel.InputError(in, win32.SizeofCreateDisk)
	}
	if err := d.Writable(); err != nil {
		return err
	}
	if c.DiskID.IsZero() {
		return win32.ERROR_INVALID_PARAMETER // Source: inference, a GPT needs an identifier
	}
	l, err := ptable.NewGPT(d.Geometry(), c.DiskID)
	if err != nil {
		return win32.ERROR_INVALID_PARAMETER // Source: inference, the table does not fit the disk
	}
	switch d.n.Windows.NewGPT {
	case behavior.NewGPTLate:
		t.OnCommit(func() { d.reserves = d.n.Now().Add(reservedDelay) })
	case behavior.NewGPTMSR:
		msr, err := d.n.reserved(l, d.Geometry())
		if err != nil {
			return err
		}
		l.Partitions = append(l.Partitions, msr)
	}
	for _, r := range ptable.Wipe(d.Geometry()) {
		t.ZeroImage(d.ID, r[0], r[1])
	}
	return d.writeTable(t, l, nil)
}

// reservedDelay is when the reserved partition arrives after IOCTL_DISK_CREATE_DISK, with
// the option "late".
const reservedDelay = 20 * time.Millisecond

// AddReserved adds the reserved partitions of new GPTs whose time has come. Each replaces
// what was written before it, as the caller had to wait. The caller holds the node's lock.
func (n *Disks) AddReserved() {
	for _, d := range n.List {
		if d.reserves.IsZero() || n.Now().Before(d.reserves) {
			continue
		}
		d.reserves = time.Time{}
		l := d.Table
		if l.Style != win32.PARTITION_STYLE_GPT {
			continue
		}
		if len(l.Partitions) > 0 {
			n.Chosen("newGPT", "replace partitions by the reserved one, which arrives late", d.ID)
		}
		err := n.Transact(func(t *kernel.Tx) error {
			msr, err := n.reserved(l, d.Geometry())
			if err != nil {
				return err
			}
			l.Partitions = []win32.Partition{msr}
			return d.writeTable(t, l, nil)
		})
		if err != nil {
			n.Log.Error("Failed to add a reserved partition", "disk", d.ID, "err", err)
		}
	}
}

// reserved returns a Microsoft reserved partition at the start of l, up to 16 MiB
// (docs/develop/contract/disks.md#creating-a-partition).
func (n *Disks) reserved(l win32.Layout, geometry ptable.Disk) (win32.Partition, error) {
	id, err := n.NewGUID()
	return win32.Partition{
		Style: win32.PARTITION_STYLE_GPT, Offset: l.UsableOffset,
		Length: min(16<<20, geometry.Size/8/uint64(geometry.Sector)*uint64(geometry.Sector)) - l.UsableOffset,
		Type:   win32.PARTITION_MSFT_RESERVED_GUID, ID: id, Name: "Microsoft reserved partition",
	}, err
}

// setLayout is IOCTL_DISK_SET_DRIVE_LAYOUT_EX. The disk must have a table of the
// same style (without CREATE_DISK the call fails,
// docs/develop/contract/disks.md#creating-a-partition). Entries must be whole sectors in
// the usable range, must not overlap, and must have unique ids. Otherwise the
// error is ERROR_INVALID_PARAMETER. Volumes of partitions that are not in the new
// layout are removed. The input has room for one entry at least, used or not, which the
// declaration of DRIVE_LAYOUT_INFORMATION_EX has (Windows-driver-samples,
// storage/class/disk).
//
// Source of ERROR_INVALID_PARAMETER: document, IOCTL_DISK_SET_DRIVE_LAYOUT_EX,
// STATUS_INVALID_PARAMETER; for which layouts is inference.
func (d *Disk) setLayout(t *kernel.Tx, in []byte) error {
	const least = win32.SizeofLayout + win32.SizeofPartition
	l, err := win32.DecodeLayout(in)
	if err != nil || len(in) < least {
		return kernel.InputError(in, least)
	}
	if err := d.Writable(); err != nil {
		return err
	}
	if l.Style != d.Table.Style || l.Style == win32.PARTITION_STYLE_RAW || ptable.Superfloppy(d.Table) {
		// Source: program, Rufus, which creates the disk before it writes a layout; the number
		// is inference.
		return win32.ERROR_INVALID_PARAMETER
	}
	geometry := d.Geometry()
	if l.Style == win32.PARTITION_STYLE_GPT {
		want := l
		l.MaxPartitions = d.Table.MaxPartitions
		if l.DiskID.IsZero() || ptable.Refit(&l, geometry) != nil {
			return win32.ERROR_INVALID_PARAMETER
		}
		// The range in the input may end before the usable range of the disk, but
		// not after it.
		if want.UsableLength != 0 && (want.UsableOffset < l.UsableOffset || want.UsableLength > l.UsableLength ||
			want.UsableOffset-l.UsableOffset > l.UsableLength-want.UsableLength) {
			return win32.ERROR_INVALID_PARAMETER
		}
	}
	if !ptable.Fits(l, geometry) {
		return win32.ERROR_INVALID_PARAMETER
	}
	first := make([]byte, d.Sector)
	if _, err := d.Image.ReadAt(first, 0); err != nil {
		return d.n.BreakDown("read a disk image", err)
	}
	return d.writeTable(t, l, first)
}

// growPartition is IOCTL_DISK_GROW_PARTITION (docs/develop/contract/volumes.md#growth).
// The growth must be whole sectors, and the space after the partition must be
// free and, on a GPT disk, in the usable range. On a disk that has grown, the
// header and its backup move to the new end, unless the configuration requires a
// new layout first.
//
// Source of ERROR_INVALID_PARAMETER: document, IOCTL_DISK_GROW_PARTITION,
// STATUS_INVALID_PARAMETER and "the space after the specified partition must be free".
func (d *Disk) growPartition(t *kernel.Tx, in []byte) error {
	g, err := win32.DecodeGrowPartition(in)
	if err != nil {
		return kernel.InputError(in, win32.SizeofGrowPartition)
	}
	if err := d.Writable(); err != nil {
		return err
	}
	if ptable.Superfloppy(d.Table) || g.Delta <= 0 || g.Number == 0 {
		return win32.ERROR_INVALID_PARAMETER
	}
	l := d.Table
	l.Partitions = slices.Clone(l.Partitions)
	i := slices.IndexFunc(l.Partitions, func(p win32.Partition) bool { return p.Number == g.Number })
	if i < 0 || uint64(g.Delta) > d.TableSize {
		// Source: document, IOCTL_DISK_GROW_PARTITION, STATUS_INVALID_PARAMETER; that no
		// partition has the number is inference.
		return win32.ERROR_INVALID_PARAMETER
	}
	l.Partitions[i].Length += uint64(g.Delta)
	if l.Style == win32.PARTITION_STYLE_GPT && d.n.Windows.GPTEnd == behavior.GPTEndMoves && ptable.Refit(&l, d.Geometry()) != nil {
		return win32.ERROR_INVALID_PARAMETER
	}
	if !ptable.Fits(l, d.Geometry()) {
		if l.Style == win32.PARTITION_STYLE_GPT && ptable.Refit(&l, d.Geometry()) == nil && ptable.Fits(l, d.Geometry()) {
			d.n.Chosen("gptEnd", "Refuse to grow a partition beyond the usable range of the table", d.ID)
		}
		return win32.ERROR_INVALID_PARAMETER
	}
	first := make([]byte, d.Sector)
	if _, err := d.Image.ReadAt(first, 0); err != nil {
		return d.n.BreakDown("read a disk image", err)
	}
	return d.writeTable(t, l, first)
}

// writeTable makes the checked layout l the disk's table. first is the current
// first sector.
func (d *Disk) writeTable(t *kernel.Tx, l win32.Layout, first []byte) error {
	geometry := d.Geometry()
	if l.Style != win32.PARTITION_STYLE_RAW {
		for _, w := range ptable.Encode(l, geometry, first) {
			t.WriteImage(d.ID, w.Offset, w.Data)
		}
	}
	return d.n.above.Arrange(t, Arrangement{Disk: d, State: d.Record, Table: ptable.Normal(l, geometry)})
}

// updateSize is IOCTL_DISK_UPDATE_DRIVE_SIZE. It reads the capacity again and
// returns a DISK_GEOMETRY; a shorter buffer is refused
// (docs/develop/contract/disks.md#rescan).
func (d *Disk) updateSize(t *kernel.Tx, out []byte) (int, error) {
	const sizeofGeometry = 24
	if len(out) < sizeofGeometry {
		// Source: document, IOCTL_DISK_UPDATE_DRIVE_SIZE, STATUS_BUFFER_TOO_SMALL.
		return 0, win32.ERROR_INSUFFICIENT_BUFFER
	}
	if d.SeenSize != d.Size {
		state := d.Record
		state.SeenSize = d.Size
		d.change(t, state)
	}
	return copy(out, win32.Geometry{BytesPerSector: d.Sector, DiskSize: d.Size}.Encode()[:sizeofGeometry]), nil
}

// updateProperties is IOCTL_DISK_UPDATE_PROPERTIES. The partition manager drops
// its copy of the table and reads it again.
func (d *Disk) updateProperties(t *kernel.Tx) error {
	state := d.Record
	state.TableSize = d.SeenSize
	l, err := ptable.Read(d.Image, state.Geometry())
	if err != nil {
		return d.n.BreakDown("read a disk image", err)
	}
	if state.TableSize != d.TableSize {
		d.change(t, state)
	}
	return d.n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: l})
}

// Read reads from the disk itself. Offset and length must be whole sectors
// inside the disk; otherwise the error is ERROR_INVALID_PARAMETER (Microsoft:
// CreateFileW, "Physical Disks and Volumes"; Windows-driver-samples,
// ClassReadWrite).
func (d *Disk) Read(p []byte, off int64) (int, error) {
	if err := d.wholeSectors(len(p), off); err != nil {
		return 0, err
	}
	if d.Offline() && d.n.Windows.OfflineReads == behavior.OfflineReadsRefused {
		d.n.Chosen("offlineReads", "refuse to read an offline disk", d.ID)
		return 0, win32.ERROR_NOT_READY // Source: inference, see the option offlineReads
	}
	return d.ReadImage(p, off)
}

func (d *Disk) wholeSectors(n int, off int64) error {
	if off < 0 || off%int64(d.Sector) != 0 || n%int(d.Sector) != 0 || uint64(off) > d.SeenSize || uint64(n) > d.SeenSize-uint64(off) {
		return win32.ERROR_INVALID_PARAMETER // Source: code, ClassReadWrite (Windows-driver-samples)
	}
	return nil
}

func (d *Disk) ReadImage(p []byte, off int64) (int, error) {
	size, err := d.Image.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		d.n.Log.Error("Failed to read a disk image", "image", d.Image.Name(), "err", err)
		return size, win32.ERROR_IO_DEVICE // Source: node, a disk image cannot be read
	}
	return size, nil
}

// Write writes to the disk itself. Writes to sectors of a volume with a mounted
// file system are refused unless the volume is locked (since Vista; Microsoft: "Blocking Direct Write
// Operations to Volumes and Disks"). According to that page the boot sectors of a
// volume may be written; the node refuses these too.
func (d *Disk) Write(t *kernel.Tx, p []byte, off int64) (int, error) {
	if err := d.wholeSectors(len(p), off); err != nil {
		return 0, err
	}
	if err := d.Writable(); err != nil {
		return 0, err
	}
	from, to := uint64(off), uint64(off)+uint64(len(p))
	if d.n.above.Mounted(t, d, from, to) {
		// Source: document, WriteFile, "a write on a disk handle"; the number is
		// inference.
		return 0, win32.ERROR_ACCESS_DENIED
	}
	t.WriteImage(d.ID, from, p)
	return len(p), nil
}

// Present implements device.
func (d *Disk) Present() error {
	if d.gone {
		// Source: document, "Handling an IRP_MN_SURPRISE_REMOVAL Request", new requests fail;
		// the number is inference.
		return win32.ERROR_DEVICE_NOT_CONNECTED // docs/develop/contract/calls.md#transient-errors
	}
	return nil
}

// Opens implements device.
func (d *Disk) Opens(_ bool, path string) error {
	if d.held() {
		d.n.Chosen("newDisks", "refuse to open a disk that another program holds", path)
		return win32.ERROR_SHARING_VIOLATION // Source: code, WSL disk.cpp; see the option newDisks
	}
	return nil
}

// Covers implements device.
func (d *Disk) Covers(o kernel.Device) bool { return o == kernel.Device(d) }

// Flush implements device. Writes go to the image at once, so there is nothing to do.
func (d *Disk) Flush() error { return nil }
