package storage

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	// Partitions begin and end at multiples of alignment.
	alignment = mib
	// reservedEnd is where the Microsoft reserved partition ends on a disk of at
	// least smallest bytes. Smaller disks have none.
	reservedEnd = 16 * mib
	smallest    = gib
)

// MBR partition types of file systems that Windows mounts ([MS-DOS] table; ntdddisk.h).
var mbrData = []uint8{0x01, 0x04, 0x06, mbrIFS, 0x0B, 0x0C, 0x0E}

// mbrIFS is the MBR type of NTFS and exFAT.
const mbrIFS = 0x07

// Used returns the entries of a table that stand for a partition. It leaves out
// the entry that Windows reports for a file system on a disk without a table (a
// "superfloppy": an MBR entry at byte 0).
func Used(l win32.Layout) []win32.Partition {
	var ps []win32.Partition
	for _, p := range l.Partitions {
		if l.Style == win32.PARTITION_STYLE_GPT && !p.Type.IsZero() || l.Style == win32.PARTITION_STYLE_MBR && p.MBRType != 0 && p.Offset != 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// Uninitialized reports whether l says that the disk has no partition table. Besides RAW
// that is an MBR without partitions that has signature 0, or signature 1 and the entry of
// a superfloppy. Windows also says so of a file system on the whole disk and of a disk
// that it cannot read, so [Disk.Look] has the last word on what may be written
// (docs/develop/contract/disks.md#partition-table).
func Uninitialized(l win32.Layout) bool {
	switch l.Style {
	case win32.PARTITION_STYLE_RAW:
		return true
	case win32.PARTITION_STYLE_MBR:
		return len(Used(l)) == 0 && (l.Signature == 0 || l.Signature == 1 && superfloppy(l))
	}
	return false
}

// superfloppy reports whether l has the entry that stands for a whole disk.
func superfloppy(l win32.Layout) bool {
	return slices.ContainsFunc(l.Partitions, func(p win32.Partition) bool { return p.MBRType != 0 && p.Offset == 0 })
}

// Partitions returns the partitions of the disk. It leaves out the Microsoft
// reserved partition, which holds nothing.
func Partitions(l win32.Layout) []win32.Partition {
	return slices.DeleteFunc(Used(l), func(p win32.Partition) bool {
		return l.Style == win32.PARTITION_STYLE_GPT && p.Type == win32.PARTITION_MSFT_RESERVED_GUID
	})
}

// IsBasicData reports whether the partition is an ordinary data partition: one
// for a Windows file system.
func IsBasicData(l win32.Layout, p win32.Partition) bool {
	switch l.Style {
	case win32.PARTITION_STYLE_GPT:
		return p.Type == win32.PARTITION_BASIC_DATA_GUID
	case win32.PARTITION_STYLE_MBR:
		return slices.Contains(mbrData, p.MBRType)
	}
	return false
}

// dataPartitions returns the ordinary data partitions of the disk.
func dataPartitions(l win32.Layout) []win32.Partition {
	return slices.DeleteFunc(Used(l), func(p win32.Partition) bool { return !IsBasicData(l, p) })
}

// At returns the partition that begins at offset.
func At(l win32.Layout, offset uint64) (win32.Partition, bool) {
	for _, p := range Used(l) {
		if p.Offset == offset {
			return p, true
		}
	}
	return win32.Partition{}, false
}

// SingleData returns the only partition of the table, if it is a data partition. Those
// that the existing CSI Proxy made may have drive letters.
func SingleData(l win32.Layout) (win32.Partition, bool) {
	ps := Partitions(l)
	if len(ps) != 1 || !IsBasicData(l, ps[0]) {
		return win32.Partition{}, false
	}
	return ps[0], true
}

func up(n uint64) uint64   { return n + (alignment-n%alignment)%alignment }
func down(n uint64) uint64 { return n - n%alignment }

// emptyGPT returns the table that Windows makes on a blank disk of size bytes.
func emptyGPT(size uint64, sector uint32) win32.Layout {
	s := uint64(sector)
	l := win32.Layout{Style: win32.PARTITION_STYLE_GPT, MaxPartitions: 128}
	l.UsableOffset = 2*s + (128*entrySize+s-1)/s*s
	if end := usableEnd(l, size, sector); end > l.UsableOffset {
		l.UsableLength = end - l.UsableOffset
	}
	return l
}

// AddPartition adds a data partition to a table without partitions. The partition
// takes the largest contiguous free space. On a GPT disk of 1 GiB or more without
// a Microsoft reserved partition, AddPartition adds one too. Both go where
// Windows puts them. size is the size of the disk in bytes. It returns the new
// table and the offset of the data partition.
func AddPartition(l win32.Layout, size uint64, sector uint32, random io.Reader) (win32.Layout, uint64, error) {
	var usable gap
	if Uninitialized(l) {
		return l, 0, hosterr.Text(hosterr.ErrFailedPrecondition, "the disk has no partition table")
	}
	switch l.Style {
	case win32.PARTITION_STYLE_GPT:
		usable = gap{l.UsableOffset, min(l.UsableOffset+l.UsableLength, usableEnd(l, size, sector))}
		l.Partitions = Used(l)
		reserved := win32.Partition{
			Style: win32.PARTITION_STYLE_GPT, Offset: l.UsableOffset, Rewrite: true,
			Type: win32.PARTITION_MSFT_RESERVED_GUID, Name: "Microsoft reserved partition",
		}
		if size >= smallest && len(l.Partitions) == 0 && l.UsableOffset < reservedEnd {
			reserved.Length = reservedEnd - l.UsableOffset
			var err error
			if reserved.ID, err = NewID(random); err != nil {
				return l, 0, err
			}
			l.Partitions = append(l.Partitions, reserved)
		}
	case win32.PARTITION_STYLE_MBR:
		usable = gap{alignment, usableEnd(l, size, sector)}
		l.Partitions = nil
	}

	free := largestGap(usable, l.Partitions)
	if free.length() < alignment {
		return l, 0, hosterr.Text(hosterr.ErrFailedPrecondition, "a disk of %d bytes is too small for a partition", size)
	}
	data := win32.Partition{Style: l.Style, Offset: free.from, Length: free.length(), Rewrite: true}
	if l.Style == win32.PARTITION_STYLE_MBR {
		data.MBRType, data.Recognized, data.Hidden = mbrIFS, true, uint32(free.from/uint64(sector))
		// An MBR has four entries, and Windows requires all of them.
		empty := win32.Partition{Style: l.Style, Rewrite: true}
		l.Partitions = []win32.Partition{data, empty, empty, empty}
		l.Partitions[0].Number = 1
		return l, data.Offset, nil
	}
	id, err := NewID(random)
	if err != nil {
		return l, 0, err
	}
	data.ID, data.Type, data.Name = id, win32.PARTITION_BASIC_DATA_GUID, "Basic data partition"
	data.Attributes = win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER
	l.Partitions = append(l.Partitions, data)
	for i := range l.Partitions {
		l.Partitions[i].Number = uint32(i + 1)
	}
	return l, data.Offset, nil
}

// NewID returns a random GUID (RFC 9562, version 4).
func NewID(random io.Reader) (win32.GUID, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return win32.GUID{}, fmt.Errorf("create a GUID: %w", err)
	}
	b[7] = b[7]&0x0f | 0x40 // the version, in the high byte of the little-endian Data3
	b[8] = b[8]&0x3f | 0x80
	return win32.GUIDFromBytes(b[:]), nil
}

// gap is free space from byte from up to, not including, byte to.
type gap struct{ from, to uint64 }

func (g gap) length() uint64 {
	if g.to <= g.from {
		return 0
	}
	return g.to - g.from
}

// largestGap returns the largest aligned piece of space that no partition uses.
func largestGap(space gap, taken []win32.Partition) gap {
	taken = slices.SortedFunc(slices.Values(taken), func(a, b win32.Partition) int { return cmp.Compare(a.Offset, b.Offset) })
	var best gap
	at := space.from
	consider := func(end uint64) {
		if g := (gap{up(at), down(min(end, space.to))}); g.length() > best.length() {
			best = g
		}
	}
	for _, p := range taken {
		consider(p.Offset)
		at = max(at, p.Offset+p.Length)
	}
	consider(space.to)
	return best
}

// usableEnd returns where the space for partitions ends on a disk of size bytes.
// After it, a GPT has the backup of its header and entries; an MBR counts sectors
// in 32 bits. The table's own value does not help: after a disk has grown it
// still names the old end.
func usableEnd(l win32.Layout, size uint64, sector uint32) uint64 {
	s := uint64(sector)
	if l.Style == win32.PARTITION_STYLE_MBR {
		return min(size, s<<32-s)
	}
	entries := uint64(max(l.MaxPartitions, 128)) * 128
	backup := s + (entries+s-1)/s*s
	if size < backup {
		return 0
	}
	return size - backup
}

// MaxLength returns how long partition p can become: up to the next partition or
// the end of the disk, rounded down to the alignment, and never less than its
// length.
func MaxLength(l win32.Layout, p win32.Partition, size uint64, sector uint32) uint64 {
	if IsLogical(l, p) {
		return p.Length
	}
	end := usableEnd(l, size, sector)
	for _, q := range Used(l) {
		if q.Offset > p.Offset {
			end = min(end, q.Offset)
		}
	}
	if end = down(end); end < p.Offset+p.Length {
		return p.Length
	}
	return end - p.Offset
}

// IsLast reports whether no partition begins behind offset.
func IsLast(l win32.Layout, offset uint64) bool {
	return !slices.ContainsFunc(Used(l), func(p win32.Partition) bool { return p.Offset > offset })
}

// IsLogical reports whether p is a drive in an extended partition of an MBR disk. The record of
// the next drive lies behind it, so that space is neither grown into nor cleared.
func IsLogical(l win32.Layout, p win32.Partition) bool {
	return l.Style == win32.PARTITION_STYLE_MBR && slices.ContainsFunc(l.Partitions, func(q win32.Partition) bool {
		extended := q.MBRType == 0x05 || q.MBRType == 0x0F || q.MBRType == 0x85
		return extended && p.Offset > q.Offset && p.Offset-q.Offset < q.Length
	})
}

// GrownLength returns how long p becomes when want bytes are asked for, of which most
// are possible: never more than want, and so that p ends on the alignment. Growth by
// less than the alignment leaves p as it is.
func GrownLength(p win32.Partition, want, most uint64) uint64 {
	switch {
	case want < p.Length+alignment:
		return p.Length
	case want >= most:
		return most
	}
	return down(p.Offset+want) - p.Offset
}

// WithEnd returns the same table with its end moved to that of a disk of size
// bytes.
func WithEnd(l win32.Layout, size uint64, sector uint32) win32.Layout {
	if end := usableEnd(l, size, sector); l.Style == win32.PARTITION_STYLE_GPT && end > l.UsableOffset+l.UsableLength {
		l.UsableLength = end - l.UsableOffset
	}
	return l
}

// FileSystemSectors returns the size, in its own sectors, that the file system of
// a volume of length bytes can grow to. ok is false if it cannot grow: NTFS keeps
// one cluster in reserve, so it needs at least two more.
func FileSystemSectors(fs win32.NTFSVolumeData, length uint64) (sectors int64, ok bool) {
	if fs.BytesPerCluster == 0 || fs.BytesPerSector == 0 || fs.BytesPerCluster < fs.BytesPerSector {
		return 0, false
	}
	clusters := length / uint64(fs.BytesPerCluster)
	if clusters <= fs.TotalClusters+1 {
		return 0, false
	}
	return int64(clusters * uint64(fs.BytesPerCluster) / uint64(fs.BytesPerSector)), true
}

// Identity returns the identity by which Windows distinguishes disks: the GUID of a GPT,
// or the signature of an MBR. It is "" for a disk without a partition table.
func Identity(l win32.Layout) string {
	switch l.Style {
	case win32.PARTITION_STYLE_GPT:
		return l.DiskID.String()
	case win32.PARTITION_STYLE_MBR:
		if l.Signature != 0 { // blank disks have signature 0
			return fmt.Sprintf("%#08x", l.Signature)
		}
	}
	return ""
}
