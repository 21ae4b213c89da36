package emulated

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// blank returns a node with one additional blank disk, number 1.
func blank(t testing.TB, cfg nodespec.Config, c nodespec.Disk, m ...kernel.Machine) *Node {
	t.Helper()
	number := uint32(1)
	c.Number = &number
	cfg.Disks = append(cfg.Disks, c)
	return startOn(t, cfg, append(m, kernel.Machine{})[0])
}

func drive(t testing.TB, n *Node, access uint32) win32.Handle {
	t.Helper()
	return openPath(t, n, `\\.\PhysicalDrive1`, access)
}

func TestImagesStaySparse(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: 3 * tib})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, mib, tib))
	if err := n.Format(one(t, n, 1), win32.FormatOptions{}); err != nil {
		t.Fatal(err)
	}
	if n.Store.Size() > mib {
		t.Errorf("the journal has %d bytes, so it must contain zeros", n.Store.Size())
	}
	if used := allocatedBytes(t, image(t, n, 1)); used > 4*mib {
		t.Errorf("the image takes %d bytes, want few", used)
	}
}

func TestDiskRefusals(t *testing.T) {
	const (
		ro = win32.GENERIC_READ
		rw = readWrite
	)
	create := win32.CreateDisk{DiskID: guid(9)}
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	for _, c := range []struct {
		name   string
		access uint32
		code   uint32
		in     []byte
		room   int
		want   win32.Errno
	}{
		// winioctl.h, CTL_CODE: bits 14 and 15 are the required access.
		{"length without read access", 0, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8, win32.ERROR_ACCESS_DENIED},
		{"create with read access only", ro, win32.IOCTL_DISK_CREATE_DISK, create.Encode(), 0, win32.ERROR_ACCESS_DENIED},
		{"layout with write access only", win32.GENERIC_WRITE, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.Layout{}.Encode(), 0, win32.ERROR_ACCESS_DENIED},
		{"attributes with read access only", ro, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{}.Encode(), 0, win32.ERROR_ACCESS_DENIED},
		{"size update with read access only", ro, win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, nil, 24, win32.ERROR_ACCESS_DENIED},
		{"growth with read access only", ro, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{}.Encode(), 0, win32.ERROR_ACCESS_DENIED},

		// STATUS_BUFFER_TOO_SMALL for a short output (Microsoft: the pages of the codes).
		{"device number in 11 bytes", 0, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 11, win32.ERROR_INSUFFICIENT_BUFFER},
		{"length in 7 bytes", ro, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 7, win32.ERROR_INSUFFICIENT_BUFFER},
		{"geometry in 24 bytes", ro, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, nil, 24, win32.ERROR_INSUFFICIENT_BUFFER},
		{"layout in 47 bytes", ro, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, 47, win32.ERROR_INSUFFICIENT_BUFFER},
		{"attributes in 15 bytes", 0, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, 15, win32.ERROR_INSUFFICIENT_BUFFER},
		{"address in 7 bytes", 0, win32.IOCTL_SCSI_GET_ADDRESS, nil, 7, win32.ERROR_INSUFFICIENT_BUFFER},
		{"property in 7 bytes", 0, win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.PropertyQuery{}.Encode(), 7, win32.ERROR_INSUFFICIENT_BUFFER},
		// docs/develop/contract/disks.md#rescan: at least a DISK_GEOMETRY.
		{"size update in 23 bytes", rw, win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, nil, 23, win32.ERROR_INSUFFICIENT_BUFFER},

		// STATUS_INFO_LENGTH_MISMATCH for a short input (Windows-driver-samples, storage/class/disk).
		{"query of 11 bytes", 0, win32.IOCTL_STORAGE_QUERY_PROPERTY, make([]byte, 11), 64, win32.ERROR_BAD_LENGTH},
		{"create of 23 bytes", rw, win32.IOCTL_DISK_CREATE_DISK, make([]byte, 23), 0, win32.ERROR_BAD_LENGTH},
		{"layout of 47 bytes", rw, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, make([]byte, 47), 0, win32.ERROR_BAD_LENGTH},
		{"layout without room for an entry", rw, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, make([]byte, 191), 0, win32.ERROR_BAD_LENGTH},
		{"growth of 15 bytes", rw, win32.IOCTL_DISK_GROW_PARTITION, make([]byte, 15), 0, win32.ERROR_BAD_LENGTH},
		{"attributes of 39 bytes", rw, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, make([]byte, 39), 0, win32.ERROR_BAD_LENGTH},

		// docs/develop/contract/disks.md#online-offline-read-only: Version is 40.
		{"attributes of version 16", rw, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, append([]byte{16}, make([]byte, 39)...), 0, win32.ERROR_INVALID_PARAMETER},
		{"unknown attribute", rw, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Attributes: 4, Mask: 4}.Encode(), 0, win32.ERROR_INVALID_PARAMETER},
		// A disk must have an identity and a known style (Microsoft: CREATE_DISK).
		{"GPT without disk id", rw, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{}.Encode(), 0, win32.ERROR_INVALID_PARAMETER},
		{"a table that hosts do not make", rw, win32.IOCTL_DISK_CREATE_DISK, make([]byte, win32.SizeofCreateDisk), 0, win32.ERROR_INVALID_PARAMETER},
		// docs/develop/contract/disks.md#creating-a-partition: SET_LAYOUT on a RAW disk fails without CREATE_DISK.
		{"layout on a raw disk", rw, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, roomy(win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: guid(1)}), 0, win32.ERROR_INVALID_PARAMETER},
		{"raw layout on a raw disk", rw, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, roomy(win32.Layout{Style: win32.PARTITION_STYLE_RAW}), 0, win32.ERROR_INVALID_PARAMETER},
		{"growth on a raw disk", rw, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: mib}.Encode(), 0, win32.ERROR_INVALID_PARAMETER},

		// docs/develop/contract/disks.md#location, docs/develop/contract/disks.md#page-83-identifier: properties that a disk lacks.
		{"unknown property", 0, win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.PropertyQuery{PropertyID: 28}.Encode(), 64, win32.ERROR_NOT_SUPPORTED},
		{"a query that no host makes", 0, win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.PropertyQuery{QueryType: 1}.Encode(), 64, win32.ERROR_NOT_SUPPORTED},
		// STATUS_INVALID_DEVICE_REQUEST for a code that no driver knows.
		{"unknown code", rw, 0x7C000, nil, 64, win32.ERROR_INVALID_FUNCTION},
		{"volume code", rw, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 64, win32.ERROR_INVALID_FUNCTION},
		{"file system code", rw, win32.FSCTL_EXTEND_VOLUME, win32.EncodeSectors(1), 0, win32.ERROR_INVALID_FUNCTION},
		{"code 0", rw, 0, nil, 64, win32.ERROR_INVALID_FUNCTION},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := n.Store.Size()
			failIoctl(t, n, drive(t, n, c.access), c.code, c.in, c.room, c.want)
			if n.Store.Size() != before {
				t.Errorf("a failed call wrote %d bytes of journal", n.Store.Size()-before)
			}
		})
	}
}

func TestMissingDiskProperties(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, Serial: "only a serial"})
	h := drive(t, n, 0)
	query := func(id uint32) []byte { return win32.PropertyQuery{PropertyID: id}.Encode() }
	failIoctl(t, n, h, win32.IOCTL_STORAGE_QUERY_PROPERTY, query(win32.StorageDeviceIdProperty), 64, win32.ERROR_INVALID_FUNCTION)    // docs/develop/contract/disks.md#page-83-identifier
	failIoctl(t, n, h, win32.IOCTL_STORAGE_QUERY_PROPERTY, query(win32.StorageDeviceLocationProperty), 64, win32.ERROR_NOT_SUPPORTED) // docs/develop/contract/disks.md#location
	failIoctl(t, n, h, win32.IOCTL_SCSI_GET_ADDRESS, nil, 8, win32.ERROR_INVALID_FUNCTION)                                            // docs/develop/contract/disks.md#location
}

// roomy returns a layout with room for one entry at least.
func roomy(l win32.Layout) []byte {
	b := l.Encode()
	return append(b, make([]byte, max(0, 192-len(b)))...)
}

// Microsoft: SET_DRIVE_LAYOUT_EX; docs/develop/contract/disks.md#creating-a-partition:
// partitions that are unaligned, overlap, exceed the usable range or are not
// unique are ERROR_INVALID_PARAMETER.
func TestLayoutRefusals(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, SectorSize: 4096})
	h := drive(t, n, readWrite)
	good := partition(t, n, h, data(1, 16*mib, 100*mib))
	end := good.UsableOffset + good.UsableLength
	mbr := win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: mib, Length: mib, MBRType: 7}
	for _, c := range []struct {
		name string
		l    win32.Layout
	}{
		{"another style", win32.Layout{Style: win32.PARTITION_STYLE_MBR}},
		{"no disk id", win32.Layout{Style: win32.PARTITION_STYLE_GPT}},
		{"entry of another style", gpt(mbr)},
		{"offset not a sector", gpt(data(1, 16*mib+512, mib))},
		{"length not a sector", gpt(data(1, 16*mib, mib+512))},
		{"no length", gpt(data(1, 16*mib, 0))},
		{"before the usable range", gpt(data(1, good.UsableOffset-4096, mib))},
		{"after the usable range", gpt(data(1, mib, end-mib+4096))},
		{"after the disk", gpt(data(1, 1<<63, 1<<63))},
		{"overlap", gpt(data(1, 16*mib, 10*mib), data(2, 20*mib, mib))},
		{"id twice", gpt(data(1, 16*mib, mib), data(1, 20*mib, mib))},
		{"no id", gpt(win32.Partition{Style: win32.PARTITION_STYLE_GPT, Type: guid(5), Offset: 16 * mib, Length: mib})},
		{"usable range larger than the disk", win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: guid(1), UsableOffset: good.UsableOffset, UsableLength: good.UsableLength + 4096}},
		{"usable range over the table", win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: guid(1), UsableOffset: 4096, UsableLength: mib}},
	} {
		failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, roomy(c.l), 0, win32.ERROR_INVALID_PARAMETER)
		if t.Failed() {
			t.Fatalf("case %q", c.name)
		}
	}
	many := gpt()
	for i := range 129 {
		p := data(1, uint64(16+i)*mib, mib)
		p.ID.Data2 = uint16(i)
		many.Partitions = append(many.Partitions, p)
	}
	failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, many.Encode(), 0, win32.ERROR_INVALID_PARAMETER)
	// More entries than bytes.
	short := gpt(data(1, mib, mib), data(2, 2*mib, mib)).Encode()
	failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, short[:len(short)-1], 0, win32.ERROR_INVALID_PARAMETER)
	if got := layout(t, n, h); !bytes.Equal(got.Encode(), good.Encode()) {
		t.Errorf("layout is %+v after the errors, want %+v", got, good)
	}
}

func gpt(parts ...win32.Partition) win32.Layout {
	return win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: guid(200), Partitions: parts}
}

// docs/develop/contract/disks.md#creating-a-partition: 19 for a disk that is write
// protected, by attribute or medium.
func TestWriteProtection(t *testing.T) {
	yes := true
	for name, c := range map[string]nodespec.Disk{
		"offline":         {Offline: &yes},
		"read-only":       {ReadOnly: &yes},
		"write protected": {WriteProtected: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Size, c.Content = gib, nodespec.ContentGPT
			n := blank(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineReads: behavior.OfflineReadsAllowed})}, c) // about writes
			h := drive(t, n, readWrite)
			l := layout(t, n, h)
			failIoctl(t, n, h, win32.IOCTL_DISK_IS_WRITABLE, nil, 0, win32.ERROR_WRITE_PROTECT)
			failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), 0, win32.ERROR_WRITE_PROTECT)
			failIoctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: mib}.Encode(), 0, win32.ERROR_WRITE_PROTECT)
			failIoctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(1)}.Encode(), 0, win32.ERROR_WRITE_PROTECT)
			if _, err := n.WriteAt(h, make([]byte, 512), 512*mib); !errors.Is(err, win32.ERROR_WRITE_PROTECT) {
				t.Errorf("WriteAt = %v, want ERROR_WRITE_PROTECT", err)
			}
			if _, err := n.ReadAt(h, make([]byte, 512), 0); err != nil {
				t.Errorf("ReadAt = %v", err)
			}
		})
	}
}

func TestDiskAttributes(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
	attributes := func() uint64 {
		t.Helper()
		a, err := win32.DecodeDiskAttributes(ioctl(t, n, openPath(t, n, `\\.\PhysicalDrive1`, 0), win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, 16))
		ok(t, err)
		return a
	}
	set := func(persist bool, value, mask uint64) {
		t.Helper()
		ioctl(t, n, drive(t, n, readWrite), win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Persist: persist, Attributes: value, Mask: mask}.Encode(), 0)
	}
	vol := one(t, n, 1)
	handle := openPath(t, n, devicePath(vol), win32.GENERIC_READ)

	set(true, win32.DISK_ATTRIBUTE_OFFLINE, win32.DISK_ATTRIBUTE_OFFLINE)
	if got := attributes(); got != win32.DISK_ATTRIBUTE_OFFLINE {
		t.Errorf("attributes %#x, want offline", got)
	}
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("an offline disk has the volumes %v", vs)
	}
	// docs/develop/contract/calls.md#transient-errors: a handle of a removed volume.
	if _, err := n.ReadAt(handle, make([]byte, 512), 0); !errors.Is(err, win32.ERROR_NO_SUCH_DEVICE) {
		t.Errorf("ReadAt on a removed volume = %v, want ERROR_NO_SUCH_DEVICE", err)
	}
	set(false, win32.DISK_ATTRIBUTE_READ_ONLY, win32.DISK_ATTRIBUTE_READ_ONLY|win32.DISK_ATTRIBUTE_OFFLINE)
	if got := one(t, n, 1); got != vol {
		t.Errorf("the volume is %s again, want %s", got, vol)
	}
	if info, err := n.VolumeInformation(vol); err != nil || info.Flags&win32.FILE_READ_ONLY_VOLUME == 0 {
		t.Errorf("VolumeInformation of a read-only volume = %+v, %v", info, err)
	}
	ok(t, n.Reboot())
	if got := attributes(); got != win32.DISK_ATTRIBUTE_OFFLINE {
		t.Errorf("attributes after a restart %#x, want only the persistent one: offline", got)
	}
}

func TestSystemDiskStaysOnline(t *testing.T) {
	n := start(t, nodespec.Config{})
	h := openPath(t, n, `\\.\PhysicalDrive0`, readWrite)
	in := win32.SetDiskAttributes{Attributes: 1, Mask: 1}.Encode()
	failIoctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, 0, win32.ERROR_ACCESS_DENIED) // general knowledge
}

func TestSANPolicy(t *testing.T) {
	no := false
	for _, c := range []struct {
		policy  string
		disk    nodespec.Disk
		offline bool
	}{
		{"", nodespec.Disk{Bus: "iscsi"}, true},
		{"onlineAll", nodespec.Disk{Bus: "iscsi"}, false},
		{"offlineShared", nodespec.Disk{Bus: "iscsi"}, true},
		{"offlineShared", nodespec.Disk{Bus: "nvme"}, false},
		{"offlineAll", nodespec.Disk{Bus: "nvme"}, true},
		{"offlineAll", nodespec.Disk{Bus: "nvme", Offline: &no, ReadOnly: &no}, false},
	} {
		n := start(t, nodespec.Config{Windows: nodespec.Windows{SANPolicy: c.policy}})
		number := attach(t, n, c.disk)
		d := n.ByNumber(number)
		readOnly := d.Attributes&win32.DISK_ATTRIBUTE_READ_ONLY != 0
		if d.Offline() != c.offline || readOnly != c.offline {
			t.Errorf("policy %q, disk %+v: offline %t, read-only %t, want both %t", c.policy, c.disk, d.Offline(), readOnly, c.offline)
		}
		if d := n.ByNumber(1); d.Offline() {
			t.Errorf("policy %q: a disk that the node was made with is offline", c.policy)
		}
	}
}

func TestCreateDiskReplacesTable(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 100*mib), data(2, 200*mib, 100*mib))
	if vs := volumesOn(t, n, 1); len(vs) != 2 {
		t.Fatalf("volumes %v, want two", vs)
	}
	ioctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(7)}.Encode(), 0)
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("volumes %v, want none", vs)
	}
	if l := layout(t, n, h); l.Style != win32.PARTITION_STYLE_GPT || l.DiskID != guid(7) || len(l.Partitions) != 0 {
		t.Errorf("layout %+v, want an empty GPT", l)
	}
}

// An MBR has four entries, and volumes for the types that Windows knows.
func TestLayoutOfMBR(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentMBR})
	h := drive(t, n, readWrite)
	l := layout(t, n, h)
	if l.Style != win32.PARTITION_STYLE_MBR || l.Signature == 0 || len(l.Partitions) != 4 {
		t.Fatalf("layout %+v, want an MBR with four empty entries", l)
	}
	l.Partitions[1] = win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: mib, Length: 100 * mib, MBRType: 7, Active: true}
	l.Partitions[2] = win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: 300 * mib, Length: 100 * mib, MBRType: 0x83}
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), 0)
	got := layout(t, n, h)
	if p := got.Partitions[1]; p.Number != 1 || !p.Active || !p.Recognized || p.Hidden != 2048 {
		t.Errorf("partition %+v", p)
	}
	if p := got.Partitions[2]; p.Number != 2 || p.Recognized {
		t.Errorf("partition %+v", p)
	}
	if vs := volumesOn(t, n, 1); len(vs) != 1 || vs[mib] == "" {
		t.Errorf("volumes %v, want only that of the recognized partition", vs)
	}
	got.Partitions[0] = win32.Partition{Style: win32.PARTITION_STYLE_MBR, Offset: 500 * mib, Length: mib, MBRType: 7, Active: true}
	failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, got.Encode(), 0, win32.ERROR_INVALID_PARAMETER) // two active ones
}

// docs/develop/contract/volumes.md#growth, docs/develop/contract/disks.md#growth-of-a-disk:
// Windows notices growth in steps.
func TestGrowth(t *testing.T) {
	for _, end := range []string{behavior.GPTEndMoves, behavior.GPTEndStays} {
		t.Run("the end of the GPT "+end, func(t *testing.T) {
			n := blank(t, nodespec.Config{World: behavior.In("", behavior.Windows{GPTEnd: end})}, nodespec.Disk{Size: gib})
			h := drive(t, n, readWrite)
			partition(t, n, h, data(1, 16*mib, 500*mib), data(2, 600*mib, 400*mib))
			grow := func(number uint32, delta int64) []byte {
				return win32.GrowPartition{Number: number, Delta: delta}.Encode()
			}
			refused := func(number uint32, delta int64) {
				t.Helper()
				failIoctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, grow(number, delta), 0, win32.ERROR_INVALID_PARAMETER)
			}
			length := func() uint64 {
				t.Helper()
				v, err := win32.DecodeLength(ioctl(t, n, h, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8))
				ok(t, err)
				return v
			}
			refused(1, 100*mib) // overlaps partition 2
			refused(3, mib)     // does not exist
			refused(0, mib)     // not a partition number
			refused(1, 0)
			refused(1, -mib) // shrinking is not supported
			refused(1, 100)  // not whole sectors
			refused(1, 1<<62)
			ioctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, grow(1, 84*mib), 0)
			refused(2, 100*mib) // exceeds the disk

			ok(t, n.Grow(1, 2*gib))
			if got := length(); got != gib {
				t.Errorf("the node sees %d bytes before the size update", got)
			}
			refused(2, 100*mib)
			ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, nil, 24)
			if got := length(); got != 2*gib {
				t.Errorf("the node sees %d bytes, want %d", got, 2*gib)
			}
			refused(2, 100*mib) // the partition manager has not noticed
			ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
			l := layout(t, n, h)
			if l.UsableOffset+l.UsableLength > gib {
				t.Errorf("usable range ends at %d before the header moved", l.UsableOffset+l.UsableLength)
			}
			if end == behavior.GPTEndStays {
				refused(2, 100*mib)
				refused(1, 100*mib) // what is in the way is partition 2
				l.UsableLength += gib
				ioctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), 0)
			}
			ioctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, grow(2, 100*mib), 0)
			l = layout(t, n, h)
			if l.UsableOffset+l.UsableLength != 2*gib-33*512 || l.Partitions[1].Length != 500*mib || l.Partitions[0].Length != 584*mib {
				t.Errorf("layout %+v", l)
			}
			if vs := volumesOn(t, n, 1); len(vs) != 2 {
				t.Errorf("volumes %v, want two", vs)
			}
			sgdisk(t, image(t, n, 1))
		})
	}
}

// Microsoft: CreateFileW, "Physical Disks and Volumes" (whole sectors), and
// "Blocking Direct Write Operations to Volumes and Disks".
func TestRawIO(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, SectorSize: 4096})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 500*mib), data(2, 600*mib, 100*mib))
	for _, c := range []struct {
		size int
		off  int64
	}{{512, 0}, {4096, 512}, {100, 0}, {4096, -4096}, {4096, gib}, {8192, gib - 4096}, {4096, 1 << 62}} {
		if _, err := n.ReadAt(h, make([]byte, c.size), c.off); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("ReadAt(%d bytes at %d) = %v, want ERROR_INVALID_PARAMETER", c.size, c.off, err)
		}
		if _, err := n.WriteAt(h, make([]byte, c.size), c.off); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("WriteAt(%d bytes at %d) = %v, want ERROR_INVALID_PARAMETER", c.size, c.off, err)
		}
	}
	text := bytes.Repeat([]byte("csi "), 1024)
	if _, err := n.WriteAt(h, text, 20*mib); err != nil {
		t.Fatalf("WriteAt in a volume without file system = %v", err)
	}
	got := make([]byte, 4096)
	vol := volumesOn(t, n, 1)[16*mib]
	v := openPath(t, n, devicePath(vol), readWrite)
	if size, err := n.ReadAt(v, got, 4*mib); err != nil || size != 4096 || !bytes.Equal(got, text) {
		t.Errorf("ReadAt of the volume = %d, %v, and not the written bytes", size, err)
	}
	if _, err := n.WriteAt(v, text, 0); err != nil {
		t.Errorf("WriteAt to a volume without file system = %v", err)
	}
	if _, err := n.ReadAt(v, got, 500*mib); !errors.Is(err, win32.ERROR_HANDLE_EOF) {
		t.Errorf("ReadAt at the end of a volume = %v, want ERROR_HANDLE_EOF", err)
	}
	if size, err := n.ReadAt(v, make([]byte, 8192), 500*mib-4096); err != nil || size != 4096 {
		t.Errorf("ReadAt across the end of a volume = %d, %v, want 4096", size, err)
	}
	if _, err := n.ReadAt(v, make([]byte, 512), 0); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
		t.Errorf("ReadAt of half a sector = %v, want ERROR_INVALID_PARAMETER", err)
	}
	if _, err := n.WriteAt(v, make([]byte, 8192), 500*mib-4096); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
		t.Errorf("WriteAt across the end of a volume = %v, want ERROR_INVALID_PARAMETER", err)
	}
	ok(t, n.CloseHandle(v))
	ok(t, n.Format(vol, win32.FormatOptions{}))
	v = openPath(t, n, devicePath(vol), readWrite)
	for what, err := range map[string]error{
		"the volume":                   second(n.WriteAt(v, text, 4*mib)),
		"the disk, first sector of it": second(n.WriteAt(h, text, 16*mib)),
		"the disk, last sector of it":  second(n.WriteAt(h, text, 516*mib-4096)),
		"the disk, over its beginning": second(n.WriteAt(h, append(text, text...), 16*mib-4096)),
	} {
		if !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("WriteAt under a mounted file system through %s = %v, want ERROR_ACCESS_DENIED", what, err)
		}
	}
	if _, err := n.WriteAt(h, text, 516*mib); err != nil {
		t.Errorf("WriteAt after the volume = %v", err)
	}
	if _, err := n.ReadAt(openPath(t, n, `\\.\PhysicalDrive1`, 0), got, 0); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("ReadAt without access = %v, want ERROR_ACCESS_DENIED", err)
	}
	if _, err := n.WriteAt(drive(t, n, win32.GENERIC_READ), text, 0); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("WriteAt with read access = %v, want ERROR_ACCESS_DENIED", err)
	}
}

func second[T any](_ T, err error) error { return err }
