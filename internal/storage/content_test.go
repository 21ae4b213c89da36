package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const testSize = 300 << 20

// deviceOf is a disk whose bytes are zero but for text at some offsets.
type deviceOf struct {
	win32.API
	text  map[uint64]string
	reads []Area
}

func (d *deviceOf) ReadAt(_ win32.Handle, p []byte, at int64) (int, error) {
	clear(p)
	d.reads = append(d.reads, Area{uint64(at), uint64(len(p))})
	for from, text := range d.text {
		for i := range len(text) {
			if j := from + uint64(i) - uint64(at); j < uint64(len(p)) && text[i] != 0 {
				p[j] = text[i]
			}
		}
	}
	return len(p), nil
}

func (d *deviceOf) WriteAt(_ win32.Handle, p []byte, at int64) (int, error) {
	for from, text := range d.text {
		b := []byte(text)
		for i := range b {
			if j := from + uint64(i) - uint64(at); j < uint64(len(p)) {
				b[i] = p[j]
			}
		}
		d.text[from] = string(b)
	}
	return len(p), nil
}

func (*deviceOf) DeviceIoControl(win32.Handle, uint32, []byte, []byte) (int, error) { return 0, nil }

// disk returns a disk over the device.
func (d *deviceOf) disk() *Disk {
	n := node.New(d)
	n.Log = slog.New(slog.DiscardHandler)
	return &Disk{device{node: n}}
}

// holding returns a device that has text at an offset.
func holding(at uint64, text string) *deviceOf {
	return &deviceOf{text: map[uint64]string{at: text}}
}

// raw is a look at a disk without a table.
func raw(size uint64) Look {
	return Look{Number: 1, Size: size, Sector: 512, scope: []Area{{0, size}}, steps: true}
}

// named returns the first content that a look finds, or "".
func named(t *testing.T, d *deviceOf, k Look) (Found, bool) {
	t.Helper()
	all, _, err := d.disk().look(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Kind != "" {
			return f, true
		}
	}
	if len(all) > 0 {
		return all[0], true
	}
	return Found{}, false
}

// Each sign of each kind is found where the table says, in a whole disk and in a partition.
func TestEverySignIsFound(t *testing.T) {
	for _, length := range []uint64{64 << 20, testSize, 2<<40 + 512} {
		for _, k := range Kinds() {
			if k.Source == "" || len(k.Signs) == 0 {
				t.Errorf("%s has no source or no sign", k.Name)
			}
			for _, sign := range k.Signs {
				at, ok := sign.place(length)
				if !ok {
					continue
				}
				f, found := named(t, holding(at, sign.Magic), raw(length))
				if !found || sign.Check == nil && f.Kind == "" {
					t.Errorf("%s: %q at %d of %d bytes: %+v, %t", k.Name, sign.Magic, at, length, f, found)
				}
				if f.Kind != "" && f.Kind != k.Name && len(sign.Magic) > 4 && !strings.Contains(k.Name+" Stratis Reiser4", f.Kind[:4]) {
					t.Errorf("%s: %q at %d of %d bytes is named %s", k.Name, sign.Magic, at, length, f.Kind)
				}
			}
		}
	}
}

func TestContent(t *testing.T) {
	ext := func(group, size, compat, incompat byte) string {
		b := make([]byte, 0x68)
		b[0], b[0x38], b[0x39], b[0x18], b[0x5a], b[0x5c], b[0x60] = 16, 0x53, 0xef, size, group, compat, incompat
		return string(b)
	}
	sector := func(change func(b []byte)) string {
		b := make([]byte, 512)
		change(b)
		return string(b)
	}
	unknown := func(at uint64) Found { return Found{Area: Area{0, testSize}, At: at} }
	known := func(kind string) Found { return Found{Area: Area{0, testSize}, Kind: kind} }
	for _, c := range []struct {
		at   uint64
		text string
		want Found
	}{
		{0x400, ext(0, 2, 0, 2), known("ext2")},
		{0x400, ext(0, 2, 4, 2), known("ext3")},
		{0x400, ext(0, 2, 4, 0x42), known("ext4")},
		{0x400, ext(0, 2, 0, 8), known("ext journal")},
		{8193 << 10, ext(1, 0, 4, 0x42), known("ext4")},
		{16384 << 11, ext(1, 1, 4, 0x42), known("ext4")},
		{32768 << 12, ext(1, 2, 4, 0x42), known("ext4")},
		{3 * 16384 << 11, ext(3, 1, 4, 0x42), known("ext4")},
		{32768 << 12, ext(1, 0, 4, 0x42), unknown(32768 << 12)}, // not where such a copy is
		{536, "LVM2 001", known("LVM2 physical volume")},
		{testSize / 4, "XFSB", known("XFS")},
		{testSize / 2, "XFSB", known("XFS")},
		{testSize / 4 * 3, "XFSB", known("XFS")},
		{16 << 10, "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x24\x00\x00\x00\x20\x00\x00\x00\x07version", known("ZFS")},
		{testSize - 512<<10 + 128<<10 + 5<<10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", known("ZFS")},
		{testSize - 512 + 3, "NTFS    ", known("NTFS")},
		{testSize - 512, "EFI PART", known("GPT partition table")},
		{0xa0, "\x3b\x4d\xa8\x92\x80\xdd\x0e\x4d\x9e\x4e\xb1\xe3\x28\x4e\xae\xd8", known(BitLocker)}, // used space only
		{0x36, "FAT16\x00\x00\x00", known("FAT")},
		{0, "dmvdo001", known("VDO")},
		{0x2195000, "-FVE-FS-", known(BitLocker)},
		{33*mib + (testSize/9+2047)/2048*2048*2, "-FVE-FS-", known(BitLocker)},
		{33*mib + ((testSize-33*mib)/3+4095)/4096*4096, "-FVE-FS-", known(BitLocker)},

		// Two bytes prove nothing, but they are content.
		{0x438, "\x53\xef", unknown(0x438)},
		{510, "\x55\xaa", known(BootSector)}, // an MBR without partitions
		{400, strings.Repeat("\x07", 110) + "\x55\xaa", unknown(400)},
		{0, sector(func(b []byte) {
			copy(b, "\xeb\x3c\x90OEM     \x00\x02")
			copy(b[446:], "text")
			copy(b[510:], "\x55\xaa")
		}), known(BootSector)},
		{0x400, "BD", unknown(0x400)},
		{0x400, sector(func(b []byte) { copy(b, "BD"); b[19], b[22] = 1, 2 }), known("HFS")},
		{0x410, "\x7f\x13", unknown(0x410)},
		{0x400, sector(func(b []byte) { copy(b, "\x20\x00\x40\x00\x01\x00\x01\x00\x06\x00"); copy(b[16:], "\x7f\x13") }), known("Minix")},
		{testSize - 512, "JM\x01\x00", unknown(testSize - 512)},
		{testSize - 512, "JM\x01\x00\xb5\xb2", known("JMicron RAID")}, // the sum of its words is 0
		{508, "\xda\xbe", unknown(508)},
		{508, "\xda\xbe\xda\xbe", known("Sun disk label")},

		{100, "just some bytes", unknown(100)},
		{Edge - 1, "x", unknown(Edge - 1)},
		{testSize - Edge, "x", unknown(testSize - Edge)},
		{testSize - 1, "x", unknown(testSize - 1)},
		{testSize / spread / page * page * 31, "x", unknown(testSize / spread / page * page * 31)},
	} {
		if got, _ := named(t, holding(c.at, c.text), raw(testSize)); got.Kind != c.want.Kind || got.Kind == "" && got.At != c.want.At && got.At != c.at || got.Offset != c.want.Offset {
			t.Errorf("%q at %d: %+v, want %+v", c.text, c.at, got, c.want)
		}
	}
	if got, found := named(t, &deviceOf{}, raw(testSize)); found {
		t.Errorf("a blank disk: %+v", got)
	}
}

// Where a partition of a lost table began, what it was is known.
func TestLostPartitionsAreNamed(t *testing.T) {
	for _, start := range lostStarts() {
		for magic, at := range map[string]uint64{"LUKS\xba\xbe": 0, "_BHRfS_M": 0x10040, "NTFS    ": 3} {
			f, _ := named(t, holding(start+at, magic), raw(4<<30))
			if f.Kind == "" || f.Offset != start {
				t.Errorf("%q at %d: %+v", magic, start+at, f)
			}
		}
	}
}

// A look at a part of a disk reads what a look at the disk reads there, and no other byte
// counts. No look makes more reads than it says.
func TestLooksAgree(t *testing.T) {
	for _, size := range []uint64{3 * mib, 40 * mib, gib - mib, gib + 12345*512, 10 * gib, 3 * tib} {
		l := emptyGPT(size, 512)
		var err error
		if l, _, err = AddPartition(l, size, 512, zeros{}); err != nil {
			t.Fatal(err)
		}
		data := l.Partitions[len(l.Partitions)-1]
		other := data
		if size > gib { // two partitions and free space
			data.Length = size / 4 / mib * mib
			other.Offset, other.Length, other.Number = data.Offset+2*data.Length, size/8/mib*mib, data.Number+1
			l.Partitions = append(l.Partitions[:len(l.Partitions)-1], data, other)
		}
		whole := raw(size)
		whole.Table = l
		all := readsOf(t, whole)
		for name, k := range map[string]Look{
			"partition": whole.In(Area{data.Offset, data.Length}), "behind": whole.Behind(data), "growth": whole.Growth(data, data.Length+data.Length/3/mib*mib),
			"last": whole.Behind(other),
		} {
			for _, a := range readsOf(t, k) {
				if !within(a, all) {
					t.Errorf("disk of %d bytes, %s: a read of %+v that the look at the disk does not make", size, name, a)
				}
			}
		}
		if n, limit := len(all), maxReads*len(whole.holders()); n > limit {
			t.Errorf("disk of %d bytes: %d reads, want at most %d", size, n, limit)
		}
		t.Logf("disk of %d bytes: %d reads for %d holders", size, len(all), len(whole.holders()))
	}
	// The page at the border of a scope has bytes of the neighbor.
	k := raw(gib).In(Area{63 * 512, 100 * mib})
	if f, found := named(t, holding(63*512-1, "x"), k); found {
		t.Errorf("content in front of a partition: %+v", f)
	}
	if _, found := named(t, holding(63*512, "x"), k); !found {
		t.Error("the first byte of a partition is not seen")
	}
}

func readsOf(t *testing.T, k Look) []Area {
	t.Helper()
	d := &deviceOf{}
	if _, _, err := d.disk().look(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return d.reads
}

// within reports whether all of a is in some of the areas.
func within(a Area, areas []Area) bool {
	return slices.ContainsFunc(areas, func(b Area) bool { return a.Offset >= b.Offset && a.end() <= b.end() })
}

// The disk's own table is no content, wherever the disk ended before, and every other table is.
func TestOwnTableIsNoContent(t *testing.T) {
	const size, ended = 4 * gib, 2 * gib
	table := func(disk, id byte, first uint64, at uint64) *deviceOf {
		array := make([]byte, 128*entrySize)
		basic := win32.PARTITION_BASIC_DATA_GUID.AppendTo(nil)
		copy(array, basic)
		array[16] = id
		binary.LittleEndian.PutUint64(array[32:], first)
		binary.LittleEndian.PutUint64(array[40:], first+100)
		header := make([]byte, 512)
		copy(header, "EFI PART\x00\x00\x01\x00\x5c")
		binary.LittleEndian.PutUint64(header[24:], at/512)
		header[56] = disk
		binary.LittleEndian.PutUint64(header[72:], at/512-32)
		binary.LittleEndian.PutUint32(header[80:], 128)
		binary.LittleEndian.PutUint32(header[84:], entrySize)
		binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(array))
		return &deviceOf{text: map[uint64]string{at - 32*512: string(array), at: string(header)}}
	}
	l := emptyGPT(size, 512)
	l.DiskID = win32.GUID{Data1: 7}
	p := win32.Partition{Style: win32.PARTITION_STYLE_GPT, Number: 1, Type: win32.PARTITION_BASIC_DATA_GUID, ID: win32.GUID{Data1: 8}, Offset: 16 * mib, Length: ended - 17*mib}
	l.Partitions = []win32.Partition{p}
	look := raw(size)
	look.Table = l
	for _, c := range []struct {
		name     string
		disk, id byte
		first    uint64
		ours     bool
	}{
		{"the same disk", 7, 8, 16 * mib / 512, true},
		{"the same disk, another partition", 7, 9, 4096, true},
		{"a copy, whose disk has a new identity", 1, 8, 16 * mib / 512, true},
		{"a copy, whose partition has one, too", 1, 9, 16 * mib / 512, true},
		{"another disk", 1, 9, 4096, false},
	} {
		for _, at := range []uint64{ended - 512, size - 512} {
			f, found := named(t, table(c.disk, c.id, c.first, at), look.Behind(p))
			if found == c.ours {
				t.Errorf("%s, at %d: content %+v, %t", c.name, at, f, found)
			}
			moved := table(c.disk, c.id, c.first, at+512*3)
			moved.text[at] = moved.text[at+512*3] // not where it says
			delete(moved.text, at+512*3)
			if _, found := named(t, moved, look.Behind(p)); !found {
				t.Errorf("%s, a header that is not where it says, at %d: no content", c.name, at)
			}
		}
	}
	spoiled := table(7, 8, 16*mib/512, size-512)
	spoiled.text[size-33*512+1000] = "data in the array"
	if _, found := named(t, spoiled, look.Behind(p)); !found {
		t.Error("data in the array of a table is not seen")
	}
}

// What a look refuses, clearing the same scope removes; the table of the disk stays unless
// the scope is the disk.
func TestClearedScopeIsVacant(t *testing.T) {
	const size = 4 * gib
	l := emptyGPT(size, 512)
	var err error
	if l, _, err = AddPartition(l, size/2, 512, zeros{}); err != nil {
		t.Fatal(err)
	}
	p := l.Partitions[len(l.Partitions)-1]
	whole := raw(size)
	whole.Table = l
	for name, k := range map[string]Look{"disk": whole, "partition": whole.In(Area{p.Offset, p.Length}), "behind": whole.Behind(p)} {
		text := map[uint64]string{}
		for _, h := range k.holders() {
			for _, a := range k.reads(k.places(h, Kinds())) {
				text[a.Offset], text[a.end()-3] = "some", "end"
			}
		}
		d := &deviceOf{text: text}
		if _, err := d.disk().Vacant(t.Context(), k); !errors.Is(err, hosterr.ErrFailedPrecondition) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
		written, err := d.disk().Clear(t.Context(), k)
		if err != nil || written == 0 {
			t.Errorf("%s: cleared %d bytes: %v", name, written, err)
		}
		if _, err := d.disk().Vacant(t.Context(), k); err != nil {
			t.Errorf("%s, after it was cleared: %v", name, err)
		}
	}
}

// What is read of a disk is blank or has a name, and only zeros are blank.
func FuzzContent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, at uint, text, more []byte) {
		const size = 2*Edge + 512
		text, more = text[:min(len(text), Edge/2)], more[:min(len(more), Edge/2)]
		from := uint64(at) % (Edge / 2)
		d := &deviceOf{text: map[uint64]string{from: string(text), size - Edge + from: string(more)}}
		zero := len(bytes.Trim(text, "\x00")) == 0 && len(bytes.Trim(more, "\x00")) == 0
		if found, some := named(t, d, raw(size)); some == zero || some && found.Name() == "" {
			t.Errorf("content %+v, %t; all zeros: %t", found, some, zero)
		}
	})
}

// fullDevice is a device whose bytes are all 1.
type fullDevice struct{ win32.API }

func (fullDevice) ReadAt(_ win32.Handle, p []byte, _ int64) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
}

// A look uses the buffer of an earlier one, and sees nothing of what that one read.
func TestLookUsesBuffersAgain(t *testing.T) {
	n := node.New(nil)
	look := func(api win32.API, content bool) {
		t.Helper()
		n.API = api
		d := &Disk{device{node: n}}
		all, _, err := d.look(t.Context(), raw(1<<30))
		if err != nil || len(all) > 0 != content {
			t.Fatalf("%+v, %v, want content: %t", all, err, content)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const looks = 16
	for range looks {
		look(fullDevice{}, true)
		look(&deviceOf{}, false)
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / (2 * looks); per > Edge {
		t.Errorf("a look allocates %d bytes, want less than a quarter of what it reads", per)
	}
}
