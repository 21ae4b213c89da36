package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// A Look is the question that is asked before something is written to a disk: is there
// content that is not ours? PartitionDisk asks it about a disk without partitions,
// FormatVolume about a partition, ResizeVolume about the space behind one, and disk clear
// about what it is to clear. All of them read the same places, so what one refuses the others
// name, and clear overwrites it.
//
// # What is read
//
// A disk has holders: areas that something may fill from its first byte to its last. They are
// the disk itself, each partition, the space behind each partition, also as it begins where the
// disk ended before it grew, and the partition that PartitionDisk makes, or would make if the disk
// were blank. Of each holder, a look reads
//
//   - the first and the last [Edge];
//   - 68 KiB wherever the first partition usually begins on a disk whose table is lost, because
//     each holder may be the image of a disk ([lostStarts]);
//   - blocks of 4 KiB elsewhere in which [Kinds] keep their marks, or copies of them;
//   - 4 KiB at 64 evenly spread places, because content without a mark fills more than that.
//
// Places are bytes of the disk for every caller. The scope of a look limits it to a part of the
// disk: it reads the places of all holders that are in the scope. It makes at most [maxReads]
// reads for a holder, of at most 4 MiB together.
//
// # What is content
//
// Each byte that was read and is not zero, except those of the disk's own partition table
// (maskTable). The sectors of that table are recognized by what is in them, not by their
// place: on a disk that grew, or that is a copy of a smaller one, earlier copies of the table
// lie where the disk ended before.
//
// If there is content, [Disk.Vacant] decides by the node's rule what may be overwritten.
type Look struct {
	Number uint32 // of the disk
	Size   uint64
	Sector uint32
	Table  win32.Layout

	scope []Area
	of    scope
	part  uint32 // the number of the partition that the scope is about, or 0
	steps bool   // whether a partition may grow into a part of the scope
}

// Area is a part of a disk, in bytes of the disk.
type Area struct{ Offset, Length uint64 }

func (a Area) end() uint64 { return a.Offset + a.Length }

// common returns the part of a that is in b, too.
func (a Area) common(b Area) (Area, bool) {
	from, to := max(a.Offset, b.Offset), min(a.end(), b.end())
	if from >= to {
		return Area{}, false
	}
	return Area{from, to - from}, true
}

// Edge is how much of the beginning and the end of a holder is read.
const Edge = mib

const (
	page       = 4096
	head       = 68 << 10 // has the marks of all file systems that keep one near their beginning
	spread     = 64
	maxReads   = 256
	maxHeaders = 16 // of partition tables that a look examines
)

// lostStarts returns where the first partition, or the one behind small ones for starting a
// computer, begins on disks that other systems have partitioned. Sector 63 and those from 34
// to 2047 are in the first MiB.
func lostStarts() []uint64 {
	return []uint64{
		1 * mib,          // Windows since Vista, Linux
		2 * mib, 4 * mib, // behind a BIOS boot partition; memory cards, Raspberry Pi
		16 * mib, 17 * mib, // Windows since 10, behind its reserved partition
		32 * mib, 33 * mib, // Windows Vista to 8.1, the same, below 16 GiB
		100 * mib, 101 * mib, // behind Windows' system partition
		117 * mib,            // behind EFI and reserved partitions
		111 * mib, 128 * mib, // images of Ubuntu and Debian for clouds
		129 * mib,                        // Windows Vista to 8.1, from 16 GiB
		409640 * 512,                     // macOS, behind an EFI partition of 200 MiB
		201 * mib, 513 * mib, 1025 * mib, // behind EFI partitions of 200 MiB, 512 MiB and 1 GiB
	}
}

// scope is what a look is about.
type scope int

const (
	ofDisk scope = iota
	ofPartition
	ofSpace // behind a partition
)

// NewLook returns a look at the whole disk, which has this number and partition table.
func (d *Disk) NewLook(ctx context.Context, number uint32, l win32.Layout) (Look, error) {
	size, err := d.Length(ctx)
	if err != nil {
		return Look{}, err
	}
	g, err := d.Geometry(ctx)
	if err != nil {
		return Look{}, err
	}
	return Look{Number: number, Size: size, Sector: g.BytesPerSector, Table: l, scope: []Area{{0, size}}, steps: true}, nil
}

// In returns the look at a volume: at a partition, or at what else has this place.
func (k Look) In(a Area) Look {
	k.scope, k.steps = []Area{a}, false
	if p, ok := At(k.Table, a.Offset); ok {
		k.of, k.part = ofPartition, p.Number
	} else if len(Used(k.Table)) > 0 {
		k.of = ofPartition
	}
	return k
}

// Behind returns the look at the space behind partition p, up to the next partition or the
// end of the disk.
func (k Look) Behind(p win32.Partition) Look {
	from := p.Offset + p.Length
	k.scope, k.of, k.part = []Area{{from, k.next(from) - min(from, k.next(from))}}, ofSpace, p.Number
	return k
}

// Has reports whether partition p has a part in the scope.
func (k Look) Has(p win32.Partition) bool {
	_, ok := Area{p.Offset, p.Length}.common(k.scope[0])
	return ok && k.of != ofSpace
}

// Same reports whether another look has the same scope, and its disk the same partitions.
func (k Look) Same(other Look) bool {
	same := func(a, b win32.Partition) bool {
		return a.Offset == b.Offset && a.Length == b.Length && a.Number == b.Number
	}
	return k.Size == other.Size && slices.Equal(k.scope, other.scope) && slices.EqualFunc(Used(k.Table), Used(other.Table), same)
}

// growthStep is the smallest step to whose multiples by powers of two a growth is rounded up, so
// that a look at all of the space reads the same places.
const growthStep = 1 << 30

// Growth returns the look at what partition p grows over when it becomes length bytes long,
// and, if it is the last one and the table moves to a new end of the disk, at that end.
func (k Look) Growth(p win32.Partition, length uint64) Look {
	from, to := p.Offset+p.Length, p.Offset+length
	end := k.next(from)
	if length >= MaxLength(k.Table, p, k.Size, k.Sector) {
		to = end
	}
	for n := uint64(growthStep); to < end; n *= 2 {
		if from+n >= to {
			to = min(from+n, end)
			break
		}
	}
	k = k.Behind(p)
	k.scope, k.steps = []Area{{from, to - min(from, to)}}, false
	if end == k.Size && WithEnd(k.Table, k.Size, k.Sector).UsableLength != k.Table.UsableLength {
		k.scope = append(k.scope, Area{k.Size - min(Edge, k.Size), min(Edge, k.Size)})
	}
	return k
}

// next returns where the next partition begins at or behind byte from, or the end of the disk.
func (k Look) next(from uint64) uint64 {
	end := k.Size
	for _, p := range Used(k.Table) {
		if p.Offset >= from {
			end = min(end, p.Offset)
		}
	}
	return end
}

// holders returns the areas that something may fill, in the order in which their content is
// named: the partitions first.
func (k Look) holders() []Area {
	var all []Area
	add := func(from, to uint64) {
		if a := (Area{from, min(to, k.Size) - min(from, to, k.Size)}); a.Length > 0 && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	used := Partitions(k.Table)
	for _, p := range used {
		add(p.Offset, p.Offset+p.Length)
	}
	add(0, k.Size)
	for _, p := range used {
		from := p.Offset + p.Length
		end := k.next(from)
		add(from, end)
		for n := uint64(growthStep); k.steps && n < end-from; n *= 2 {
			add(from, from+n)
		}
		if end == k.Size && end > from+3*Edge {
			add(from+Edge, end) // a partition ends a MiB before the disk
			if l := k.Table; WithEnd(l, k.Size, k.Sector).UsableLength != l.UsableLength {
				add(l.UsableOffset+l.UsableLength+k.Size-usableEnd(l, k.Size, k.Sector), end)
			}
		}
	}
	for _, l := range []win32.Layout{k.Table, WithEnd(k.Table, k.Size, k.Sector), emptyGPT(k.Size, k.Sector)} {
		if len(Partitions(l)) > 0 {
			continue
		}
		if plan, at, err := AddPartition(l, k.Size, k.Sector, zeros{}); err == nil {
			p, _ := At(plan, at)
			add(p.Offset, p.Offset+p.Length)
		}
	}
	if k.of != ofDisk {
		add(k.scope[0].Offset, k.scope[0].end())
	}
	return all
}

// zeros are the IDs of partitions that are not made.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// places returns what is read of a holder. All of it is in the holder.
func (k Look) places(h Area, kinds []Kind) []Area {
	var all []Area
	add := func(at, length uint64) {
		if a, ok := (Area{h.Offset + at, length}).common(h); ok {
			all = append(all, a)
		}
	}
	add(0, Edge)
	add(h.Length-min(Edge, h.Length), Edge)
	for _, at := range lostStarts() {
		add(at, head)
	}
	for _, at := range marks(kinds, h.Length) {
		add(at, page)
	}
	if !k.planned(h) { // that has most of the disk's
		for i := range uint64(spread) {
			add(h.Length/spread/page*page*i, page)
		}
	}
	return all
}

// planned reports whether a holder has nearly all of the disk, as the partition that
// PartitionDisk makes.
func (k Look) planned(h Area) bool { return h.Length < k.Size && h.Length > k.Size/8*7 }

// reads returns the parts of places that are in the scope, in whole pages, in order and
// without overlaps.
func (k Look) reads(places []Area) []Area {
	var all []Area
	for _, a := range places {
		for _, s := range k.scope {
			if b, ok := a.common(s); ok {
				from := b.Offset / page * page
				all = append(all, Area{from, min(k.Size, (b.end()+page-1)/page*page) - from})
			}
		}
	}
	slices.SortFunc(all, func(a, b Area) int { return cmp.Compare(a.Offset, b.Offset) })
	var merged []Area
	for _, a := range all {
		if n := len(merged); n > 0 && a.Offset <= merged[n-1].end() {
			merged[n-1].Length = max(merged[n-1].end(), a.end()) - merged[n-1].Offset
		} else {
			merged = append(merged, a)
		}
	}
	return merged
}

// each reads the places of each holder that are in the scope, and calls do with what was
// seen. With own, the bytes of the disk's own table are zero.
func (d *Disk) each(ctx context.Context, k Look, own bool, do func(h Area, s *seen) error) error {
	pool := node.Shared(d.node, "looks", func() *sync.Pool { return &sync.Pool{New: func() any { return new([]byte) }} })
	buffer := pool.Get().(*[]byte)
	defer pool.Put(buffer)
	kinds := Kinds()
	for _, h := range k.holders() {
		reads := k.reads(k.places(h, kinds))
		var total uint64
		for _, a := range reads {
			total += a.Length
		}
		if uint64(len(*buffer)) < total {
			*buffer = make([]byte, total)
		}
		s, rest := &seen{kinds: kinds}, *buffer
		for _, a := range reads {
			b := rest[:a.Length:a.Length]
			rest = rest[a.Length:]
			if err := d.readAt(ctx, b, a.Offset); err != nil {
				return err
			}
			if !blank(b) {
				s.pieces = append(s.pieces, piece{a.Offset, b})
			}
		}
		if own {
			if err := d.maskTable(ctx, k, s); err != nil {
				return err
			}
		}
		s.only(k.scope)
		if err := do(h, s); err != nil {
			return err
		}
	}
	return nil
}

// Found is content of a disk.
type Found struct {
	Area        // what it may fill
	Kind string // a name of [Kinds], or ""
	At   uint64 // for content without a kind, its first byte that was read
}

// UnknownContent is the name of content that is in no [Kinds].
const UnknownContent = "unknown content"

// Name returns the kind, or UnknownContent and where it is.
func (f Found) Name() string {
	if f.Kind == "" {
		return fmt.Sprintf("%s at byte %d", UnknownContent, f.At)
	}
	return f.Kind
}

// look returns the content of each holder of which some is in the scope. blankEnds reports
// that the first and the last [Edge] of the scope are blank.
func (d *Disk) look(ctx context.Context, k Look) (all []Found, blankEnds bool, err error) {
	blankEnds = true
	err = d.each(ctx, k, true, func(h Area, s *seen) error {
		f := Found{Area: h}
		if at, kind := s.kind(h, lostStarts()); kind != "" {
			f.Area, f.Kind = Area{at, h.end() - at}, kind
			all = append(all, f)
		} else if at, ok := s.first(h); ok {
			f.At = at
			all = append(all, f)
		}
		for _, a := range k.scope {
			for _, end := range []Area{{a.Offset, min(Edge, a.Length)}, {a.end() - min(Edge, a.Length), min(Edge, a.Length)}} {
				if _, ok := s.first(end); ok {
					blankEnds = false
				}
			}
		}
		return nil
	})
	return all, blankEnds, err
}

// Vacant returns an error that names the content in the scope of the look, or nil if there is
// none or the node's rule lets it be overwritten, which is logged. refused is the content, if it
// was refused.
func (d *Disk) Vacant(ctx context.Context, k Look) (refused []Found, err error) {
	for _, a := range k.scope {
		if a.end() > k.Size || a.end() < a.Offset {
			return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "it ends at byte %d, and disk %d at byte %d, so it was not changed", a.end(), k.Number, k.Size)
		}
	}
	all, blankEnds, err := d.look(ctx, k)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	known := func(f Found) bool { return f.Kind != "" }
	worst := slices.MinFunc(all, func(a, b Found) int { return cmp.Compare(a.At, b.At) })
	if i := slices.IndexFunc(all, known); i >= 0 {
		worst = all[i]
	}
	cleaned := blankEnds && k.cleanable()
	rule := d.node.DiskContent
	if rule == rules.DiskContentUnknown && (cleaned || !known(worst)) || rule == rules.DiskContentCleaned && cleaned {
		d.node.Log.Warn("Overwriting content of a disk", "disk", k.Number, "partition", k.part, "content", worst.Name(), "offset", worst.Offset, "rule", string(rule))
		return nil, nil
	}
	what := worst.Name()
	if known(worst) && worst.Offset > k.scope[0].Offset {
		what += fmt.Sprintf(" at byte %d", worst.Offset)
	}
	text := "it contains data (%s) and was not changed"
	if k.of == ofSpace {
		text = "the space behind it contains data (%s), so it was not resized"
	}
	hint := k.remedy()
	switch {
	case cleaned:
		hint += "; if the disk was cleaned with diskpart clean or Clear-Disk, start csi-proxy with -disk-content=cleaned"
	case !known(worst):
		hint += "; where storage hands out disks with leftovers, start csi-proxy with -disk-content=unknown"
	}
	return all, hosterr.WithHint("look for content", "", hosterr.Text(hosterr.ErrFailedPrecondition, text, what), hint)
}

// cleanable reports whether the look is about what a cleaned disk has: the disk itself, which
// has no partitions, or its only data partition.
func (k Look) cleanable() bool {
	p, ok := SingleData(k.Table)
	return k.of == ofDisk || k.of == ofPartition && ok && p.Number == k.part
}

// remedy says how to get rid of the content in the scope, and of nothing else.
func (k Look) remedy() string {
	which := ""
	switch {
	case k.of == ofPartition && k.part == 0:
		return "if the data is not needed, delete the volume with the program that made it, and try again"
	case k.of == ofPartition:
		which = fmt.Sprintf(" --partition %d", k.part)
	case k.of == ofSpace:
		which = fmt.Sprintf(" --behind %d", k.part)
	default:
		return fmt.Sprintf("if the data is not needed, clear the disk with csi-proxyctl disk clear %d --serial SERIAL, or with diskpart (select disk %d, clean all), and try again", k.Number, k.Number)
	}
	return fmt.Sprintf("if the data is not needed, clear it with csi-proxyctl disk clear %d%s --serial SERIAL, and try again", k.Number, which)
}
