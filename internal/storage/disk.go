package storage

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Disk is an open physical disk.
type Disk struct{ device }

// OpenDisk opens the disk that has this number now. It returns
// hosterr.ErrNotFound if the node has no such disk.
func OpenDisk(ctx context.Context, n *node.Node, number, access uint32) (*Disk, error) {
	return OpenDiskPath(ctx, n, `\\.\PhysicalDrive`+strconv.FormatUint(uint64(number), 10), access)
}

// OpenDiskPath opens a disk by the path of its device, such as \\.\PhysicalDrive1
// or the path of a device interface.
func OpenDiskPath(ctx context.Context, n *node.Node, path string, access uint32) (*Disk, error) {
	d, err := open(ctx, n, path, access)
	if err != nil {
		return nil, err
	}
	return &Disk{d}, nil
}

// Borrow wraps a handle that the caller opened and will close.
func Borrow(n *node.Node, h win32.Handle) *Disk { return &Disk{device{node: n, h: h}} }

// WithoutRetry returns the same open disk with its retries off, for a caller that
// looks at the disk again before each try.
func (d *Disk) WithoutRetry() *Disk { return &Disk{device{node: d.node, h: d.h, noRetry: true}} }

// EachDisk opens every disk of the node, one after the other, and calls visit
// with its number. A disk that cannot be opened or does not report its number is
// logged and skipped: it may be about to disappear, and must not fail calls about
// other disks.
func EachDisk(ctx context.Context, n *node.Node, access uint32, visit func(number uint32, d *Disk)) error {
	paths, err := DiskPaths(n)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := VisitDisk(ctx, n, path, access, visit); err != nil {
			n.Log.Warn("Skipped a disk that does not respond", "device", path, "err", err)
		}
	}
	return nil
}

// UpdateDisks makes Windows read the sizes and partition tables of all disks again. It
// leaves out disks that are files of this machine, such as the scratch disks of
// containers, which do not grow by themselves: the request announces a change of the
// layout to all who use the disk. A disk that another program holds, as programs hold one
// that has just arrived, is tried again for a second. A disk that fails is logged
// and skipped.
func UpdateDisks(ctx context.Context, n *node.Node) error {
	forgetLostFormats(ctx, n)
	pending, err := DiskPaths(n)
	if err != nil {
		return err
	}
	skip := func(path string, err error) {
		n.Log.Warn("Skipped a disk that does not respond", "device", path, "err", err)
	}
	err = node.Poll(ctx, n.Clock, tryFor(rescanFor), func() (bool, error) {
		var held []string
		for _, path := range pending {
			if err := ctx.Err(); err != nil {
				return true, err
			}
			err := updateDisk(ctx, n, path)
			switch {
			case win32.IsCode(err, win32.ERROR_SHARING_VIOLATION):
				held = append(held, path)
			case err != nil:
				skip(path, err)
			}
		}
		pending = held
		return len(held) == 0, nil
	})
	for _, path := range pending {
		skip(path, win32.ERROR_SHARING_VIOLATION)
	}
	return err
}

func updateDisk(ctx context.Context, n *node.Node, path string) error {
	number, update := uint32(0), false
	err := VisitDisk(ctx, n, path, Query, func(of uint32, d *Disk) {
		desc, err := d.Descriptor(ctx)
		number, update = of, err != nil || desc.BusType != win32.BusTypeFileBackedVirtual
	})
	if err != nil || !update {
		return err
	}
	h, err := openOnce(n, path, ReadWrite)
	if err != nil {
		return err
	}
	d := &Disk{device{node: n, h: h, noRetry: true}}
	defer d.Close()
	if err = d.UpdateSize(ctx); err == nil {
		err = d.UpdateProperties(ctx)
	}
	if err != nil {
		n.Log.Warn("Failed to update disk size", "disk", number, "err", err)
	}
	return nil
}

// DiskPaths returns the paths of the node's disks.
func DiskPaths(n *node.Node) ([]string, error) {
	present, err := n.API.Interfaces()
	if err != nil {
		return nil, hosterr.Wrap("list disks", "", err)
	}
	paths := make([]string, len(present))
	for i, p := range present {
		paths[i] = p.Path
	}
	return paths, nil
}

// VisitDisk opens a disk by its path and calls visit with its number, unless it is no disk or
// has no number. It does not retry.
func VisitDisk(ctx context.Context, n *node.Node, path string, access uint32, visit func(uint32, *Disk)) error {
	h, err := openOnce(n, path, access)
	if err != nil {
		return err
	}
	d := &Disk{device{node: n, h: h, noRetry: true}}
	defer d.Close()
	number, err := d.Number(ctx)
	if err != nil {
		return err
	}
	if number.DeviceType != win32.FILE_DEVICE_DISK || number.DeviceNumber == NoNumber {
		return nil
	}
	visit(number.DeviceNumber, d)
	return nil
}

// NoNumber is the DeviceNumber of a device without a number.
const NoNumber = 0xFFFFFFFF

// Layout reads the partition table. Just after a disk is attached, reading fails
// with ERROR_IO_DEVICE for a moment.
func (d *Disk) Layout(ctx context.Context) (win32.Layout, error) {
	out, err := d.table(ctx)
	if err != nil {
		return win32.Layout{}, err
	}
	return win32.DecodeLayout(out)
}

// table returns the DRIVE_LAYOUT_INFORMATION_EX of the disk.
func (d *Disk) table(ctx context.Context) (out []byte, err error) {
	err = node.Poll(ctx, d.node.Clock, tryFor(layoutFor), func() (_ bool, err error) {
		out, err = d.query(ctx, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, win32.SizeofLayout+128*win32.SizeofPartition)
		return !win32.IsCode(err, win32.ERROR_IO_DEVICE), err
	})
	return out, hosterr.Wrap("read the partition table", "", err)
}

// SetLayout writes the whole partition table.
func (d *Disk) SetLayout(ctx context.Context, l win32.Layout) error {
	in := l.Encode()
	if len(l.Partitions) == 0 { // the structure has room for one (winioctl.h)
		in = append(in, make([]byte, win32.SizeofPartition)...)
	}
	_, err := d.control(ctx, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, in, nil)
	return hosterr.Wrap("write the partition table", "", err)
}

// MoveEnd writes the GPT with the end of a disk of this size, if it has another one: Windows
// does not always do that when a disk grows. Each try reads the table again, because
// writing an old one would lose what another program has added.
func (d *Disk) MoveEnd(ctx context.Context, size uint64, sector uint32) error {
	once, moved := d.WithoutRetry(), false
	err := Retry(ctx, d.node, func() error {
		l, err := once.Layout(ctx)
		if err != nil {
			return err
		}
		wider := WithEnd(l, size, sector)
		if wider.UsableLength == l.UsableLength {
			return nil
		}
		for i := range wider.Partitions {
			wider.Partitions[i].Rewrite = false
		}
		moved = true
		return once.SetLayout(ctx, wider)
	})
	if err != nil || !moved {
		return err
	}
	return d.UpdateProperties(ctx)
}

// CreateGPT creates an empty GPT on a disk without a table.
func (d *Disk) CreateGPT(ctx context.Context, id win32.GUID) error {
	in := win32.CreateDisk{DiskID: id}.Encode()
	_, err := d.control(ctx, win32.IOCTL_DISK_CREATE_DISK, in, nil)
	return hosterr.Wrap("create the partition table", "", err)
}

// UpdateProperties makes Windows drop its cached partition table. It is safe on a
// disk in use.
func (d *Disk) UpdateProperties(ctx context.Context) error {
	_, err := d.control(ctx, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, nil)
	return hosterr.Wrap("update the disk's properties", "", err)
}

// UpdateSize makes the driver query the size of the disk and announce a change.
// The output buffer matters: Windows refuses one of less than 24 bytes.
func (d *Disk) UpdateSize(ctx context.Context) error {
	_, err := d.control(ctx, win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, nil, make([]byte, win32.SizeofGeometry))
	return hosterr.Wrap("update the disk's size", "", err)
}

// Geometry returns the size of the disk and of its sectors. It needs no access.
func (d *Disk) Geometry(ctx context.Context) (win32.Geometry, error) {
	out, err := d.query(ctx, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, nil, 256)
	if err != nil {
		return win32.Geometry{}, hosterr.Wrap("get the geometry", "", err)
	}
	g, err := win32.DecodeGeometry(out)
	if err == nil && (bits.OnesCount32(g.BytesPerSector) != 1 || g.BytesPerSector < 512 || g.BytesPerSector > mib) {
		err = fmt.Errorf("DISK_GEOMETRY_EX: %w: sectors of %d bytes", win32.ErrLayout, g.BytesPerSector)
	}
	return g, err
}

// Grow moves the end of a partition by delta bytes into the free space that
// follows.
func (d *Disk) Grow(ctx context.Context, partition uint32, delta int64) error {
	_, err := d.control(ctx, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: partition, Delta: delta}.Encode(), nil)
	return hosterr.Wrap("grow the partition", "", err)
}

// Attributes returns the DISK_ATTRIBUTE_ bits: offline, read-only.
func (d *Disk) Attributes(ctx context.Context) (uint64, error) {
	out, err := d.query(ctx, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, win32.SizeofGetDiskAttributes)
	if err != nil {
		return 0, hosterr.Wrap("get the disk's attributes", "", err)
	}
	return win32.DecodeDiskAttributes(out)
}

// Whether Windows remembers attributes. It does so for the slot in which the disk is: they come
// back after a restart, and the next disk in the slot gets them. So what only passes, such as the
// attributes during a look, is not remembered.
const (
	Remembered = true
	Passing    = false
)

// SetAttributes sets the DISK_ATTRIBUTE_ bits that are in mask.
// Windows reads the table of a disk that is online again; that it cannot
// is logged, because the bits are set. No program is known that asks an offline disk to do so.
func (d *Disk) SetAttributes(ctx context.Context, attrs, mask uint64, remembered bool) error {
	in := win32.SetDiskAttributes{Persist: remembered, Attributes: attrs, Mask: mask}.Encode()
	if _, err := d.control(ctx, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil); err != nil {
		return hosterr.Wrap("set the disk's attributes", "", err)
	}
	if attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
		return nil
	}
	if err := d.UpdateProperties(ctx); err != nil {
		d.node.Log.Warn("Windows did not read a disk again whose attributes were set", "attributes", attrs, "mask", mask, "err", err)
	}
	return ctx.Err()
}

// Clustered reports whether a failover cluster manages the disk.
func (d *Disk) Clustered(ctx context.Context) (bool, error) {
	out, err := d.query(ctx, win32.IOCTL_DISK_IS_CLUSTERED, nil, 1)
	if win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_INVALID_PARAMETER) {
		return false, nil // no driver of a cluster is there to answer
	}
	if err != nil {
		return false, hosterr.Wrap("check whether the disk is clustered", "", Gone(err))
	}
	return len(out) > 0 && out[0] != 0, nil
}

// Writable returns an error if the disk has the read-only attribute although its medium can
// be written: then it was moved here, and nothing that is written would be stored. If Windows
// does not say which of the two makes it read-only, that is logged. A disk that is read-only
// because of its medium is not an error.
func (d *Disk) Writable(ctx context.Context, number uint32) error {
	attrs, err := d.Attributes(ctx)
	if err != nil || attrs&win32.DISK_ATTRIBUTE_READ_ONLY == 0 {
		return err
	}
	_, err = d.control(ctx, win32.IOCTL_DISK_IS_WRITABLE, nil, nil)
	switch {
	case err == nil:
		hint := "unmount its volumes and call SetDiskState online, which makes it writable, or run Set-Disk -IsReadOnly $false"
		if d.node.KeepReadOnly || d.Protected(ctx, number) {
			hint = "call SetDiskReadOnly, or run Set-Disk -IsReadOnly $false, to make it writable"
		}
		return hosterr.WithHint("check that the disk can be written", "",
			hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d is read-only on this node although its storage can be written", number), hint)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	d.node.Log.Warn("Using a read-only disk; Windows does not say whether its storage can be written", "disk", number, "err", err)
	return nil
}

// WriteProtected reports whether the disk refuses writes, for any reason: an
// attribute, being offline, a switch on the device, another machine's
// reservation. Only ERROR_WRITE_PROTECT says so: Windows asks the medium with a command that
// not every device knows, and returns whatever error that has (disk.c of Microsoft's samples).
// A disk with another error counts as writable.
func (d *Disk) WriteProtected(ctx context.Context) (bool, error) {
	_, err := d.control(ctx, win32.IOCTL_DISK_IS_WRITABLE, nil, nil)
	switch {
	case err == nil:
		return false, nil
	case win32.IsCode(err, win32.ERROR_WRITE_PROTECT):
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case !win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED):
		d.node.Log.Warn("Windows does not say whether a disk is write-protected", "err", err)
	}
	return false, nil
}

// unusable are the attributes of a disk that cannot be used. By Windows' SAN policy, disks on a
// shared bus come up with both.
const unusable uint64 = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY

// MakeUsable brings the disk online and makes it writable, if it is not. It sets both
// attributes, because Windows may remember another value than the one that a look has set.
func (d *Disk) MakeUsable(ctx context.Context, remembered bool) error {
	attrs, err := d.Attributes(ctx)
	if err != nil || attrs&unusable == 0 {
		return err
	}
	return d.SetAttributes(ctx, 0, unusable, remembered)
}

// Zero overwrites length bytes at offset with zeros. Both are multiples of a
// sector.
func (d *Disk) Zero(ctx context.Context, offset, length uint64) error {
	zeros := make([]byte, length)
	for at := uint64(0); at < length; {
		err := Retry(ctx, d.node, func() error {
			n, err := d.node.API.WriteAt(d.h, zeros[at:], int64(offset+at))
			if err == nil && n <= 0 {
				err = win32.ERROR_HANDLE_EOF
			}
			if err == nil {
				at += uint64(n)
			}
			return err
		})
		if err != nil {
			return hosterr.Wrap("zero "+strconv.FormatUint(length, 10)+" bytes at "+strconv.FormatUint(offset, 10), "", err)
		}
	}
	return nil
}

// Property reads a storage property with a first buffer of size bytes. The result
// begins with its own size; if the buffer was too small, Property reads again
// with a larger one.
func (d *Disk) Property(ctx context.Context, id uint32, size int) ([]byte, error) {
	in := win32.PropertyQuery{PropertyID: id}.Encode()
	for {
		out := make([]byte, size)
		n, err := d.control(ctx, win32.IOCTL_STORAGE_QUERY_PROPERTY, in, out)
		small := win32.IsCode(err, win32.ERROR_INSUFFICIENT_BUFFER, win32.ERROR_MORE_DATA)
		if err != nil && !small {
			return nil, err
		}
		want := size * 2
		if claimed, err := win32.DescriptorSize(out[:min(n, len(out))]); err == nil {
			if !small && int(claimed) <= size {
				return out[:n], nil
			}
			want = max(int(claimed), size+1)
		} else if !small {
			return nil, err
		}
		if want > maxOutput {
			return nil, fmt.Errorf("storage property %d: %w: it claims a size of %d bytes", id, win32.ErrLayout, want)
		}
		size = want
	}
}

// Descriptor returns the bus, the serial number and the names of the disk.
func (d *Disk) Descriptor(ctx context.Context) (win32.DeviceDescriptor, error) {
	const size = 1024 // of most devices 100 to 200
	b, err := d.Property(ctx, win32.StorageDeviceProperty, size)
	if err != nil {
		return win32.DeviceDescriptor{}, err
	}
	return win32.DecodeDeviceDescriptor(b)
}

// SCSIAddress returns the disk's SCSI address.
func (d *Disk) SCSIAddress(ctx context.Context) (win32.SCSIAddress, error) {
	out, err := d.query(ctx, win32.IOCTL_SCSI_GET_ADDRESS, nil, 8)
	if err != nil {
		return win32.SCSIAddress{}, err
	}
	return win32.DecodeSCSIAddress(out)
}

// TakenOffline returns err, or an error that says why the disk cannot be read if another
// program has taken it offline.
func (d *Disk) TakenOffline(ctx context.Context, number uint32, err error) error {
	if !win32.IsCode(err, win32.ERROR_NOT_READY) {
		return err
	}
	if attrs, failed := d.Attributes(ctx); failed != nil || attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0 {
		return err
	}
	return hosterr.Text(hosterr.ErrUnavailable, "another program took disk %d offline during the operation; try again: %w", number, err)
}
