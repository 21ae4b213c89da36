package storage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Edge is how many bytes of the start and of the end of an area must be zero before it
// counts as blank.
const Edge = mib

// Area is a part of a disk, or all of a disk or volume, that a partition table or file
// system may fill.
type Area struct{ Offset, Length uint64 }

// Content is what [Disk.Look] or [Volume.Look] found in an area.
type Content struct {
	// Kind is a name of [Kinds], or "".
	Kind string
	// At is the first byte that is not zero, from the start of the device. It is only set
	// for unknown content.
	At uint64
	// Blank reports that the edges of the area are zero and that no known content was
	// found behind them.
	Blank bool
}

// UnknownContent is the name of what is neither known nor blank.
const UnknownContent = "unknown content"

// Name returns the kind, or UnknownContent. It returns "" for a blank area.
func (c Content) Name() string {
	if c.Blank {
		return ""
	}
	return cmp.Or(c.Kind, UnknownContent)
}

// Look reads the edges of an area, and the places beyond them where some file systems keep
// second copies of their description. It needs [Read].
func (d device) Look(ctx context.Context, a Area) (Content, error) { return d.look(ctx, a, 0) }

// LookBehindMBR is [Disk.Look] for a disk whose first sector is a partition table without
// partitions: it leaves that sector out.
func (d device) LookBehindMBR(ctx context.Context, a Area) (Content, error) {
	return d.look(ctx, a, mbrSize)
}

const mbrSize = 512

func (d device) look(ctx context.Context, a Area, skip int) (Content, error) {
	s := Sample{Length: a.Length}
	// Each look needs two MiB, which would be garbage a moment later.
	pool := node.Shared(d.node, "edges", func() *sync.Pool { return &sync.Pool{New: func() any { return new([Edge]byte) }} })
	for _, w := range looked(a.Length) {
		var b []byte
		if w.Length == Edge {
			edge := pool.Get().(*[Edge]byte)
			defer pool.Put(edge)
			b = edge[:]
		} else {
			b = make([]byte, w.Length)
		}
		if err := d.readAt(ctx, b, a.Offset+w.Offset); err != nil {
			return Content{}, err
		}
		if w.Offset == 0 {
			clear(b[:min(skip, len(b))])
		}
		s.Add(w.Offset, b)
	}
	c := s.Content()
	c.At += a.Offset
	return c, nil
}

// looked returns what is read of an area: its edges, the first one first, and the blocks
// between them.
func looked(length uint64) []Area {
	parts := []Area{{0, min(Edge, length)}}
	if length > Edge {
		from := max(Edge, length-Edge)
		parts = append(parts, Area{from, length - from})
	}
	return append(parts, beyond(length)...)
}

// beyond returns the blocks of 4 KiB outside of the edges of an area in which [Kinds] have
// signs.
func beyond(length uint64) []Area {
	const block = 4096
	var starts []uint64
	add := func(at, size uint64, ok bool) {
		from := at / block * block
		if ok && from >= Edge && from+block <= length-min(length, Edge) && at+size <= from+block {
			starts = append(starts, from)
		}
	}
	for _, k := range Kinds() {
		for _, sign := range k.Signs {
			at, ok := sign.place(length)
			add(at, uint64(len(sign.Magic)), ok)
		}
	}
	for _, copy := range extCopies() {
		add(copy, extSize, true)
	}
	slices.Sort(starts)
	var blocks []Area
	for _, at := range slices.Compact(starts) {
		blocks = append(blocks, Area{at, block})
	}
	return blocks
}

// place returns where the sign is in an area. ok is false if the area is too small.
func (s Sign) place(length uint64) (at uint64, ok bool) {
	align := max(s.Align, 1)
	switch {
	case s.FromEnd:
		end := length / align * align
		if end < s.At {
			return 0, false
		}
		at = end - s.At
	case s.Quarter:
		// The first allocation group has a quarter of the blocks, rounded up.
		blocks := length / align
		at = (blocks+3)/4*align + s.At
	default:
		at = s.At
	}
	return at, at+uint64(len(s.Magic)) <= length
}

// Sample is bytes of an area, as far as they were read.
type Sample struct {
	Length uint64
	pieces []piece
}

type piece struct {
	at uint64
	b  []byte
}

// Add adds bytes that were read at an offset of the area.
func (s *Sample) Add(at uint64, b []byte) { s.pieces = append(s.pieces, piece{at, b}) }

// bytes returns n bytes at an offset, or nil if they were not read.
func (s *Sample) bytes(at, n uint64) []byte {
	for _, p := range s.pieces {
		if at >= p.at && at+n <= p.at+uint64(len(p.b)) {
			return p.b[at-p.at : at-p.at+n]
		}
	}
	return nil
}

func (s *Sample) has(at uint64, magic string) bool {
	b := s.bytes(at, uint64(len(magic)))
	return b != nil && string(b) == magic
}

// Content names what the sample shows.
func (s *Sample) Content() Content {
	for _, name := range []func() string{s.ext, s.zfs, s.kind} {
		if kind := name(); kind != "" {
			return Content{Kind: kind}
		}
	}
	for _, p := range s.pieces {
		edge := p.at < Edge || p.at+Edge >= s.Length
		if !edge {
			continue
		}
		if zeros := leadingZeros(p.b); zeros < len(p.b) {
			return Content{At: p.at + uint64(zeros)}
		}
	}
	return Content{Blank: true}
}

// leadingZeros returns how many bytes b begins with that are zero. It compares blocks,
// because almost all of a blank disk's bytes are.
func leadingZeros(b []byte) int {
	var zeros [4096]byte
	n := 0
	for len(b) >= n+len(zeros) && bytes.Equal(b[n:n+len(zeros)], zeros[:]) {
		n += len(zeros)
	}
	return len(b) - len(bytes.TrimLeft(b[n:], "\x00"))
}

func (s *Sample) kind() string {
	for _, k := range Kinds() {
		for _, sign := range k.Signs {
			if at, ok := sign.place(s.Length); ok && s.has(at, sign.Magic) {
				return k.Name
			}
		}
	}
	return ""
}

// extCopies returns where ext2 to ext4 keep the first copy of their superblock: in the
// second group, whose size depends on that of the blocks (1, 2 or 4 KiB).
func extCopies() []uint64 { return []uint64{8193 << 10, 16384 << 11, 32768 << 12} }

// extSize is how much of a superblock is looked at.
const extSize = 0x68

// ext recognizes ext2, ext3 and ext4 by their superblock at 1 KiB, or by its first copy,
// and distinguishes them by its feature words (Linux, fs/ext4/ext4.h).
func (s *Sample) ext() string {
	const magic = 0x38
	for i, at := range append([]uint64{0x400}, extCopies()...) {
		b := s.bytes(at, extSize)
		if b == nil || binary.LittleEndian.Uint16(b[magic:]) != 0xEF53 {
			continue
		}
		// A copy knows its group and the size of its blocks.
		if i > 0 && (binary.LittleEndian.Uint16(b[0x5a:]) != 1 || binary.LittleEndian.Uint32(b[0x18:]) != uint32(i-1)) {
			continue
		}
		const hasJournal, journalDevice, extents = 0x4, 0x8, 0x40
		compatible, incompatible := binary.LittleEndian.Uint32(b[0x5c:]), binary.LittleEndian.Uint32(b[0x60:])
		switch {
		case incompatible&journalDevice != 0:
			return "ext journal"
		case incompatible&extents != 0:
			return "ext4"
		case compatible&hasJournal != 0:
			return "ext3"
		}
		return "ext2"
	}
	return ""
}

// zfs recognizes one of the four labels of a ZFS device, two at each end: an XDR list of
// names and values at 16 KiB, whose first name is "version", or an uberblock behind 128 KiB
// ("ZFS On-Disk Specification").
func (s *Sample) zfs() string {
	const label = 256 << 10
	end := s.Length / label * label
	for _, base := range []uint64{0, label, end - min(end, 2*label), end - min(end, label)} {
		if b := s.bytes(base+16<<10, 128); b != nil && b[0] <= 1 && bytes.Contains(b, []byte("\x00\x07version")) {
			return "ZFS"
		}
		for at := base + 128<<10; at < base+label; at += 1024 {
			if s.has(at, "\x0c\xb1\xba\x00\x00\x00\x00\x00") || s.has(at, "\x00\x00\x00\x00\x00\xba\xb1\x0c") {
				return "ZFS"
			}
		}
	}
	return ""
}

// Occupied returns an error that says what was found, or nil for a blank area. Unknown
// content of an area that may be overwritten is logged instead.
func (d device) Occupied(c Content, op, what string, where ...any) error {
	name := c.Name()
	switch {
	case name == "":
		return nil
	case name == UnknownContent && d.node.OverwriteUnknown:
		d.node.Log.Warn("Overwriting "+what+" with unknown content", append(where, "offset", c.At)...)
		return nil
	case name == UnknownContent:
		return hosterr.WithHint(op, "",
			hosterr.Text(hosterr.ErrFailedPrecondition, "it contains data (%s at byte %d) and was not changed", name, c.At),
			ClearHint+"; where storage hands out disks with leftovers, start csi-proxy with -unknown-content=overwrite")
	}
	return hosterr.WithHint(op, "",
		hosterr.Text(hosterr.ErrFailedPrecondition, "it contains data (%s) and was not changed", name), ClearHint)
}
