// Package ptable reads and writes partition tables on disk images: GPT (UEFI
// specification, chapter 5) with 512 and 4096-byte sectors, and the four primary
// entries of an MBR. Tables are [win32.Layout] values, as in the disk control
// codes.
//
// It accepts what Windows' fstub and partition manager accept, as far as that is
// documented: a GPT needs its protective MBR; a damaged primary header is
// replaced by the backup at the end of the disk; a disk with a file system in its
// first sector is one partition (a "superfloppy").
//
// It does not model logical drives in an extended partition (the container is an
// unrecognized entry) and hybrid MBRs (only the GPT is used).
package ptable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
)

var le = binary.LittleEndian

const (
	entrySize = 128
	// Windows creates GPTs of 128 entries. Other tools may create more, up to MaxEntries here.
	newEntries = 128
	MaxEntries = 1024

	headerSize  = 92
	mbrEntries  = 446
	mbrProtect  = 0xEE
	mbrSigField = 440
)

// Write is bytes to write at an offset of the disk.
type Write struct {
	Offset uint64
	Data   []byte
}

// Disk has the sizes that a table must fit, in bytes.
type Disk struct {
	Size   uint64
	Sector uint32
}

func (d Disk) sectors() uint64 { return d.Size / uint64(d.Sector) }

// entrySectors returns the number of sectors of n GPT entries.
func (d Disk) entrySectors(n uint32) uint64 {
	return (uint64(n)*entrySize + uint64(d.Sector) - 1) / uint64(d.Sector)
}

// usable returns the first and last sector that GPT partitions may use.
func (d Disk) usable(entries uint32) (first, last uint64, ok bool) {
	first = 2 + d.entrySectors(entries)
	if d.sectors() < 2*first {
		return 0, 0, false
	}
	return first, d.sectors() - 2 - d.entrySectors(entries), true
}

// NewGPT returns an empty GPT for d.
func NewGPT(d Disk, id win32.GUID) (win32.Layout, error) {
	l := win32.Layout{Style: win32.PARTITION_STYLE_GPT, DiskID: id, MaxPartitions: newEntries}
	err := Refit(&l, d)
	return l, err
}

// ErrTooSmall means that a disk is too small for a table.
var ErrTooSmall = errors.New("disk too small for a GPT")

// Refit sets the usable range of a GPT to that of d, for a disk that has grown.
func Refit(l *win32.Layout, d Disk) error {
	first, last, ok := d.usable(l.MaxPartitions)
	if !ok {
		return fmt.Errorf("%w: %d bytes", ErrTooSmall, d.Size)
	}
	l.UsableOffset = first * uint64(d.Sector)
	l.UsableLength = (last - first + 1) * uint64(d.Sector)
	return nil
}

// Read reads the table of a disk. Errors are those of r; a missing or invalid
// table is PARTITION_STYLE_RAW. Every partition of the result lies inside the
// disk.
func Read(r io.ReaderAt, d Disk) (win32.Layout, error) {
	raw := win32.Layout{Style: win32.PARTITION_STYLE_RAW}
	if d.sectors() < 2 {
		return raw, nil
	}
	first := make([]byte, d.Sector)
	if _, err := r.ReadAt(first, 0); err != nil {
		return raw, err
	}
	if first[510] != 0x55 || first[511] != 0xAA {
		return raw, nil
	}
	for i := range 4 {
		if first[mbrEntries+16*i+4] != mbrProtect {
			continue
		}
		l, ok, err := readGPT(r, d, 1)
		if err == nil && !ok {
			l, ok, err = readGPT(r, d, d.sectors()-1)
		}
		if err != nil {
			return raw, err
		}
		if ok {
			return l, nil
		}
		break
	}
	return readMBR(first, d), nil
}

// readGPT reads the header in sector at and its entries.
func readGPT(r io.ReaderAt, d Disk, at uint64) (l win32.Layout, ok bool, err error) {
	h := make([]byte, d.Sector)
	if _, err := r.ReadAt(h, int64(at*uint64(d.Sector))); err != nil {
		return l, false, err
	}
	size := le.Uint32(h[12:])
	if string(h[:8]) != "EFI PART" || size < headerSize || size > d.Sector || le.Uint64(h[24:]) != at {
		return l, false, nil
	}
	sum := le.Uint32(h[16:])
	le.PutUint32(h[16:], 0)
	if crc32.ChecksumIEEE(h[:size]) != sum {
		return l, false, nil
	}
	first, last := le.Uint64(h[40:]), le.Uint64(h[48:])
	table, entries := le.Uint64(h[72:]), le.Uint32(h[80:])
	if first < 2 || first > last || last >= d.sectors() || le.Uint32(h[84:]) != entrySize || entries == 0 || entries > MaxEntries {
		return l, false, nil
	}
	if table < 2 || table >= d.sectors() || d.entrySectors(entries) > d.sectors()-table {
		return l, false, nil
	}
	b := make([]byte, entries*entrySize)
	if _, err := r.ReadAt(b, int64(table*uint64(d.Sector))); err != nil {
		return l, false, err
	}
	if crc32.ChecksumIEEE(b) != le.Uint32(h[88:]) {
		return l, false, nil
	}
	l = win32.Layout{
		Style:         win32.PARTITION_STYLE_GPT,
		DiskID:        win32.GUIDFromBytes(h[56:]),
		UsableOffset:  first * uint64(d.Sector),
		UsableLength:  (last - first + 1) * uint64(d.Sector),
		MaxPartitions: entries,
	}
	for i := range int(entries) {
		e := b[i*entrySize:]
		kind := win32.GUIDFromBytes(e)
		from, to := le.Uint64(e[32:]), le.Uint64(e[40:])
		if kind.IsZero() || from < first || to > last || from > to {
			continue
		}
		l.Partitions = append(l.Partitions, win32.Partition{
			Style:      win32.PARTITION_STYLE_GPT,
			Offset:     from * uint64(d.Sector),
			Length:     (to - from + 1) * uint64(d.Sector),
			Number:     uint32(len(l.Partitions) + 1),
			Type:       kind,
			ID:         win32.GUIDFromBytes(e[16:]),
			Attributes: le.Uint64(e[48:]),
			Name:       name(e[56:entrySize]),
		})
	}
	return l, true, nil
}

func name(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := le.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return win32.FromUTF16(units)
}

// recognized reports whether an MBR type gets a volume (winioctl.h,
// IsRecognizedPartition, without the hidden and the LDM types).
func recognized(kind uint8) bool {
	switch kind {
	case 0x01, 0x04, 0x06, 0x07, 0x0B, 0x0C, 0x0E:
		return true
	}
	return false
}

func readMBR(b []byte, d Disk) win32.Layout {
	l := win32.Layout{Style: win32.PARTITION_STYLE_MBR}
	if fs, ok := bootsector.Recognize(b); ok {
		kind := uint8(0x07)
		if fs.Kind == bootsector.FAT || fs.Kind == bootsector.FAT32 {
			kind = 0x0C
		}
		l.Partitions = []win32.Partition{{
			Style: win32.PARTITION_STYLE_MBR, Length: d.Size, Number: 1, MBRType: kind, Recognized: true,
		}}
		return l
	}
	l.Signature = le.Uint32(b[mbrSigField:])
	number := uint32(0)
	for i := range 4 {
		e := b[mbrEntries+16*i:]
		from, n := uint64(le.Uint32(e[8:])), uint64(le.Uint32(e[12:]))
		p := win32.Partition{Style: win32.PARTITION_STYLE_MBR}
		if e[4] != 0 && e[0]&0x7F == 0 && from > 0 && n > 0 && n <= d.sectors() && from <= d.sectors()-n {
			number++
			p.Offset, p.Length, p.Number = from*uint64(d.Sector), n*uint64(d.Sector), number
			p.MBRType, p.Active, p.Recognized, p.Hidden = e[4], e[0] == 0x80, recognized(e[4]), uint32(from)
		}
		l.Partitions = append(l.Partitions, p)
	}
	return l
}

// Superfloppy reports whether l is a file system without a partition table.
func Superfloppy(l win32.Layout) bool {
	return l.Style == win32.PARTITION_STYLE_MBR && len(l.Partitions) == 1 && l.Partitions[0].Offset == 0
}

// InUse reports whether p is a partition and not an unused entry.
func InUse(p win32.Partition) bool {
	if p.Style == win32.PARTITION_STYLE_GPT {
		return !p.Type.IsZero()
	}
	return p.MBRType != 0
}

// Fits reports whether l can be the table of d. The limit is the usable range of
// l for a GPT, and 2^32 sectors for an MBR.
func Fits(l win32.Layout, d Disk) bool {
	low, high, limit := uint64(d.Sector), min(d.Size, uint64(d.Sector)<<32), 4
	switch l.Style {
	case win32.PARTITION_STYLE_GPT:
		first, last, ok := d.usable(l.MaxPartitions)
		if !ok || l.UsableOffset < first*uint64(d.Sector) || l.UsableLength > d.Size || l.UsableOffset > d.Size ||
			l.UsableOffset+l.UsableLength > (last+1)*uint64(d.Sector) {
			return false
		}
		low, high, limit = l.UsableOffset, l.UsableOffset+l.UsableLength, int(l.MaxPartitions)
	case win32.PARTITION_STYLE_MBR:
	default:
		return false
	}
	var seen []win32.Partition
	for _, p := range l.Partitions {
		if p.Style != l.Style {
			return false
		}
		if !InUse(p) {
			continue
		}
		sector := uint64(d.Sector)
		if len(seen) == limit || p.Offset%sector != 0 || p.Length%sector != 0 || p.Length == 0 ||
			p.Offset < low || p.Offset > high || p.Length > high-p.Offset ||
			l.Style == win32.PARTITION_STYLE_GPT && (p.ID.IsZero() || len(win32.UTF16(p.Name)) > 36) {
			return false
		}
		for _, o := range seen {
			if p.Offset < o.Offset+o.Length && o.Offset < p.Offset+p.Length || p.Active && o.Active ||
				l.Style == win32.PARTITION_STYLE_GPT && p.ID == o.ID {
				return false
			}
		}
		seen = append(seen, p)
	}
	return true
}

// Encode returns the writes that make l, which [Fits], the table of d.
// first is the disk's first sector; an MBR keeps its boot code.
func Encode(l win32.Layout, d Disk, first []byte) []Write {
	if l.Style == win32.PARTITION_STYLE_GPT {
		return encodeGPT(l, d)
	}
	b := make([]byte, d.Sector)
	copy(b[:mbrSigField], first)
	le.PutUint32(b[mbrSigField:], l.Signature)
	slots := l.Partitions
	if len(slots) > 4 { // at most four are in use: drop unused ones
		slots = nil
		for _, p := range l.Partitions {
			if InUse(p) {
				slots = append(slots, p)
			}
		}
	}
	for i, p := range slots {
		if !InUse(p) {
			continue
		}
		e := b[mbrEntries+16*i:]
		if p.Active {
			e[0] = 0x80
		}
		copy(e[1:], []byte{0xFE, 0xFF, 0xFF}) // no cylinders: only the sector numbers are valid
		e[4] = p.MBRType
		copy(e[5:], []byte{0xFE, 0xFF, 0xFF})
		le.PutUint32(e[8:], uint32(p.Offset/uint64(d.Sector)))
		le.PutUint32(e[12:], uint32(p.Length/uint64(d.Sector)))
	}
	b[510], b[511] = 0x55, 0xAA
	return []Write{{0, b}}
}

func encodeGPT(l win32.Layout, d Disk) []Write {
	s := uint64(d.Sector)
	last := d.sectors() - 1

	mbr := make([]byte, d.Sector)
	e := mbr[mbrEntries:]
	copy(e, []byte{0, 0, 2, 0, mbrProtect, 0xFF, 0xFF, 0xFF})
	le.PutUint32(e[8:], 1)
	le.PutUint32(e[12:], uint32(min(last, 1<<32-1)))
	mbr[510], mbr[511] = 0x55, 0xAA

	table := make([]byte, d.entrySectors(l.MaxPartitions)*s)
	at := table
	for _, p := range l.Partitions {
		if !InUse(p) {
			continue
		}
		copy(at, p.Type.AppendTo(nil))
		copy(at[16:], p.ID.AppendTo(nil))
		le.PutUint64(at[32:], p.Offset/s)
		le.PutUint64(at[40:], (p.Offset+p.Length)/s-1)
		le.PutUint64(at[48:], p.Attributes)
		for i, u := range win32.UTF16(p.Name) {
			le.PutUint16(at[56+2*i:], u)
		}
		at = at[entrySize:]
	}
	header := func(my, other, entries uint64) []byte {
		h := make([]byte, d.Sector)
		copy(h, "EFI PART\x00\x00\x01\x00")
		le.PutUint32(h[12:], headerSize)
		le.PutUint64(h[24:], my)
		le.PutUint64(h[32:], other)
		le.PutUint64(h[40:], l.UsableOffset/s)
		le.PutUint64(h[48:], (l.UsableOffset+l.UsableLength)/s-1)
		copy(h[56:], l.DiskID.AppendTo(nil))
		le.PutUint64(h[72:], entries)
		le.PutUint32(h[80:], l.MaxPartitions)
		le.PutUint32(h[84:], entrySize)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(table[:l.MaxPartitions*entrySize]))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:headerSize]))
		return h
	}
	backup := last - d.entrySectors(l.MaxPartitions)
	return []Write{
		{0, mbr},
		{s, header(1, last, 2)},
		{2 * s, table},
		{backup * s, table},
		{last * s, header(last, 1, backup)},
	}
}

// Wipe returns what to zero so that d has no table of either style, as offset and
// length in bytes.
func Wipe(d Disk) [][2]uint64 {
	n := min(2+d.entrySectors(MaxEntries), d.sectors())
	s := uint64(d.Sector)
	return [][2]uint64{{0, n * s}, {(d.sectors() - n) * s, n * s}}
}

// Normal returns l as Read returns it after it was written: without the unused
// entries of a GPT, with four entries of an MBR, and with numbers in the order of
// the entries.
func Normal(l win32.Layout, d Disk) win32.Layout {
	parts := l.Partitions
	l.Partitions = nil
	for _, p := range parts {
		used := InUse(p)
		if !used && (l.Style == win32.PARTITION_STYLE_GPT || len(parts) > 4) {
			continue
		}
		n := win32.Partition{Style: l.Style}
		if used {
			n = p
			n.Rewrite = false
			n.Number = 1
			for _, before := range l.Partitions {
				if InUse(before) {
					n.Number++
				}
			}
			if l.Style == win32.PARTITION_STYLE_MBR {
				n.Recognized = recognized(p.MBRType)
				n.Hidden = uint32(p.Offset / uint64(d.Sector))
			}
		}
		l.Partitions = append(l.Partitions, n)
	}
	for l.Style == win32.PARTITION_STYLE_MBR && len(l.Partitions) < 4 {
		l.Partitions = append(l.Partitions, win32.Partition{Style: l.Style})
	}
	return l
}
