package storage

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

const tib = 1 << 40

// empty returns a new GPT as Windows creates it on a disk of size bytes.
func empty(size uint64, sector uint32) win32.Layout {
	s := uint64(sector)
	entries := (128*128 + s - 1) / s * s
	l := win32.Layout{Style: win32.PARTITION_STYLE_GPT, MaxPartitions: 128, UsableOffset: 2*s + entries}
	if end := size - s - entries; size > s+entries && end > l.UsableOffset {
		l.UsableLength = end - l.UsableOffset
	}
	return l
}

type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

func TestAddPartitionOffsets(t *testing.T) {
	type span struct{ from, to uint64 }
	msr := win32.Partition{Style: win32.PARTITION_STYLE_GPT, Type: win32.PARTITION_MSFT_RESERVED_GUID, Offset: 1 * mib, Length: 128 * mib, Number: 1}
	cases := []struct {
		name   string
		size   uint64
		sector uint32
		has    []win32.Partition
		want   []span
	}{
		{"1 GiB: reserved partition to 16 MiB", gib, 512, nil, []span{{17408, 16 * mib}, {16 * mib, 1023 * mib}}},
		{"1 GiB with 4 KiB sectors", gib, 4096, nil, []span{{24576, 16 * mib}, {16 * mib, 1023 * mib}}},
		{"100 MiB: no reserved partition", 100 * mib, 512, nil, []span{{1 * mib, 99 * mib}}},
		{"3 TiB", 3 * tib, 512, nil, []span{{17408, 16 * mib}, {16 * mib, 3*tib - mib}}},
		{"size not a multiple of 1 MiB", 2*gib + 12345*512, 512, nil, []span{{17408, 16 * mib}, {16 * mib, 2*gib + 6*mib}}},
		{"existing reserved partition is kept", 10 * gib, 512, []win32.Partition{msr}, []span{{1 * mib, 129 * mib}, {129 * mib, 10*gib - mib}}},
		{"smallest", 3 * mib, 512, nil, []span{{1 * mib, 2 * mib}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := empty(c.size, c.sector)
			l.Partitions = c.has
			got, offset, err := AddPartition(l, c.size, c.sector, ones{})
			if err != nil {
				t.Fatal(err)
			}
			var spans []span
			for i, p := range got.Partitions {
				spans = append(spans, span{p.Offset, p.Offset + p.Length})
				if p.Number != uint32(i+1) {
					t.Errorf("partition %d has the number %d", i+1, p.Number)
				}
			}
			if !slices.Equal(spans, c.want) {
				t.Errorf("partitions from and to %v, want %v", spans, c.want)
			}
			data := got.Partitions[len(got.Partitions)-1]
			if data.Offset != offset || !IsBasicData(got, data) || data.Name != "Basic data partition" || data.Attributes != win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER {
				t.Errorf("the data partition begins at %d and is %+v, but AddPartition returned %d", data.Offset, data, offset)
			}
			look := Look{Size: c.size, Sector: c.sector, Table: l}
			if want := (Area{data.Offset, data.Length}); !slices.Contains(look.holders(), want) {
				t.Errorf("the data partition is %+v, but a look has the holders %v", want, look.holders())
			}
			if p, ok := SingleData(got); !ok || p != data {
				t.Errorf("SingleData = %+v, %t, want the data partition", p, ok)
			}
		})
	}
}

func TestAddPartitionWithoutRoom(t *testing.T) {
	for _, size := range []uint64{0, 512, 1 * mib, 2 * mib} {
		if _, _, err := AddPartition(empty(size, 512), size, 512, ones{}); !errors.Is(err, hosterr.ErrFailedPrecondition) {
			t.Errorf("AddPartition on a disk of %d bytes: %v, want a failed precondition", size, err)
		}
	}
	if _, _, err := AddPartition(win32.Layout{Style: win32.PARTITION_STYLE_RAW}, gib, 512, ones{}); !errors.Is(err, hosterr.ErrFailedPrecondition) {
		t.Errorf("AddPartition without a table: %v, want a failed precondition", err)
	}
	if _, _, err := AddPartition(empty(gib, 512), gib, 512, bytes.NewReader(nil)); err == nil {
		t.Error("AddPartition without randomness succeeded")
	}
}

func TestUninitialized(t *testing.T) {
	whole := win32.Partition{MBRType: 0x04, Length: gib, Recognized: true}
	data := win32.Partition{MBRType: mbrIFS, Offset: mib, Length: gib}
	mbr := func(signature uint32, ps ...win32.Partition) win32.Layout {
		return win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: signature, Partitions: ps}
	}
	for _, c := range []struct {
		name string
		l    win32.Layout
		want bool
	}{
		{"RAW", win32.Layout{Style: win32.PARTITION_STYLE_RAW}, true},
		{"MBR without signature and entries", mbr(0), true},
		{"MBR without signature, four unused entries", mbr(0, make([]win32.Partition, 4)...), true},
		{"whole disk, no signature", mbr(0, whole), true},
		{"whole disk, signature 1", mbr(1, whole), true},
		{"whole disk, a real signature", mbr(0x1234, whole), false},
		{"MBR with signature 1", mbr(1, make([]win32.Partition, 4)...), false},
		{"MBR without signature, with a partition", mbr(0, data), false},
		{"MBR", mbr(0x1234), false},
		{"GPT", win32.Layout{Style: win32.PARTITION_STYLE_GPT}, false},
	} {
		if got := Uninitialized(c.l); got != c.want {
			t.Errorf("%s: Uninitialized = %t, want %t", c.name, got, c.want)
		}
	}
}

func TestAddPartitionMBR(t *testing.T) {
	l := win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: 7}
	got, offset, err := AddPartition(l, 3*tib, 512, ones{})
	if err != nil {
		t.Fatal(err)
	}
	want := win32.Partition{Style: win32.PARTITION_STYLE_MBR, Number: 1, Offset: mib, Length: 2*tib - 2*mib, MBRType: mbrIFS, Recognized: true, Hidden: 2048, Rewrite: true}
	if len(got.Partitions) != 4 || got.Partitions[0] != want || offset != mib {
		t.Errorf("table %+v, data at %d, want 4 entries, the first %+v", got.Partitions, offset, want)
	}
	if got.Signature != 7 {
		t.Errorf("signature %d, want 7 as before", got.Signature)
	}
	if ps := Partitions(got); len(ps) != 1 {
		t.Errorf("%d partitions, want 1", len(ps))
	}
}

func TestNewIDVersion4(t *testing.T) {
	id, err := NewID(ones{})
	if want := "{ffffffff-ffff-4fff-bfff-ffffffffffff}"; err != nil || id.String() != want {
		t.Errorf("NewID of ones = %s, %v, want %s", id, err, want)
	}
}

func TestMaxLength(t *testing.T) {
	p := win32.Partition{Type: win32.PARTITION_BASIC_DATA_GUID, Offset: 16 * mib, Length: 100 * mib}
	next := win32.Partition{Type: win32.PARTITION_BASIC_DATA_GUID, Offset: 500*mib + 512, Length: mib}
	before := win32.Partition{Type: win32.PARTITION_MSFT_RESERVED_GUID, Offset: 17408, Length: 15 * mib}
	full := win32.Partition{Type: win32.PARTITION_BASIC_DATA_GUID, Offset: 16 * mib, Length: 1024*mib - 16*mib - 33*512}
	mbr := win32.Partition{MBRType: mbrIFS, Offset: mib, Length: 100 * mib}
	cases := []struct {
		name   string
		style  uint32
		p      win32.Partition
		others []win32.Partition
		size   uint64
		sector uint32
		want   uint64
	}{
		{"to the end of the disk", 1, p, []win32.Partition{before}, gib, 512, 1007 * mib},
		{"to the end of a disk of 4 KiB sectors", 1, p, nil, gib, 4096, 1007 * mib},
		{"to the next partition, aligned", 1, p, []win32.Partition{before, next}, gib, 512, 484 * mib},
		{"ends after the last aligned offset already", 1, full, nil, gib, 512, full.Length},
		{"disk that became smaller", 1, p, nil, 20 * mib, 512, 100 * mib},
		{"disk smaller than the backup table", 1, p, nil, 1000, 512, 100 * mib},
		{"MBR: 32-bit sector numbers", 0, mbr, nil, 3 * tib, 512, 2*tib - 2*mib},
		{"MBR of 4 KiB sectors", 0, mbr, nil, 3 * tib, 4096, 3*tib - mib},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := win32.Layout{Style: c.style, MaxPartitions: 128, Partitions: append(c.others, c.p)}
			if got := MaxLength(l, c.p, c.size, c.sector); got != c.want {
				t.Errorf("MaxLength = %d, want %d", got, c.want)
			}
		})
	}
}

func TestGrownLengthIsAtMostWhatWasAsked(t *testing.T) {
	cases := []struct {
		name                       string
		offset, length, want, most uint64
		grown                      uint64
	}{
		{"one byte less than a MiB is dropped", 16 * mib, 50 * mib, 101*mib - 1, 500 * mib, 100 * mib},
		{"one byte more than a MiB is dropped", 16 * mib, 50 * mib, 100*mib + 1, 500 * mib, 100 * mib},
		{"an aligned size is kept", 16 * mib, 50 * mib, 200 * mib, 500 * mib, 200 * mib},
		{"a partition that begins unaligned ends aligned", 63 * 512, 50 * mib, 100 * mib, 500 * mib, 100*mib - 63*512},
		{"the maximum, aligned or not", 16 * mib, 50 * mib, 500*mib - 1, 500*mib - 1, 500*mib - 1},
		{"less than a MiB of growth is none", 16 * mib, 100 * mib, 101*mib - 1, 500 * mib, 100 * mib},
		{"a MiB of growth", 16 * mib, 100 * mib, 101 * mib, 500 * mib, 101 * mib},
		{"no growth", 16 * mib, 100 * mib, 100 * mib, 500 * mib, 100 * mib},
	}
	for _, c := range cases {
		if got := GrownLength(win32.Partition{Offset: c.offset, Length: c.length}, c.want, c.most); got != c.grown {
			t.Errorf("%s: GrownLength = %d, want %d", c.name, got, c.grown)
		}
	}
}

func TestWithEndOnlyGrowsGPT(t *testing.T) {
	l := empty(gib, 512)
	if got, want := WithEnd(l, 2*gib, 512), empty(2*gib, 512); got.UsableLength != want.UsableLength {
		t.Errorf("UsableLength %d, want %d", got.UsableLength, want.UsableLength)
	}
	if got := WithEnd(l, gib/2, 512); got.UsableLength != l.UsableLength {
		t.Errorf("on a smaller disk UsableLength became %d", got.UsableLength)
	}
}

func TestFileSystemSectorsNeedTwoClusters(t *testing.T) {
	fs := win32.NTFSVolumeData{TotalClusters: 1000, BytesPerCluster: 4096, BytesPerSector: 512}
	for length, want := range map[uint64]int64{
		1000 * 4096: 0, 1001 * 4096: 0, 1002*4096 - 1: 0, 1002 * 4096: 1002 * 8, 1002*4096 + 4095: 1002 * 8,
	} {
		if got, ok := FileSystemSectors(fs, length); got != want || ok != (want != 0) {
			t.Errorf("FileSystemSectors(1000 clusters, %d bytes) = %d, %t, want %d", length, got, ok, want)
		}
	}
	if _, ok := FileSystemSectors(win32.NTFSVolumeData{}, gib); ok {
		t.Error("a file system without cluster size was grown")
	}
}

// seeds fails a fuzz target without seed files.
func seeds(f *testing.F) {
	f.Helper()
	if files, err := os.ReadDir("testdata/fuzz/" + f.Name()); err != nil || len(files) == 0 {
		f.Fatalf("no seeds for %s: %v", f.Name(), err)
	}
}

// For any table and disk size, the partition that AddPartition adds is
// aligned, within the disk, at least 1 MiB long, and overlaps nothing, and
// MaxLength of a partition does not reach into another one.
func FuzzAddPartition(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, size uint64, big bool, reserved int64, seed uint64) {
		sector := uint32(512)
		if big {
			sector = 4096
		}
		size = size % (64 * tib) / uint64(sector) * uint64(sector)
		l := empty(size, sector)
		if reserved >= 0 {
			offset := l.UsableOffset + uint64(reserved)%(256*mib)
			l.Partitions = []win32.Partition{{Type: win32.PARTITION_MSFT_RESERVED_GUID, Offset: offset, Length: 16 * mib}}
		}
		random := rand.NewChaCha8([32]byte{byte(seed)})
		got, offset, err := AddPartition(l, size, sector, random)
		if err != nil {
			return
		}
		data, ok := At(got, offset)
		if !ok || data.Offset%mib != 0 || data.Length%mib != 0 || data.Length < mib || data.Offset+data.Length > size {
			t.Fatalf("on %d bytes the data partition is %+v", size, data)
		}
		ps := slices.SortedFunc(slices.Values(got.Partitions), func(a, b win32.Partition) int { return cmp.Compare(a.Offset, b.Offset) })
		for i, p := range ps {
			if i > 0 && ps[i-1].Offset+ps[i-1].Length > p.Offset {
				t.Errorf("%+v overlaps %+v", ps[i-1], p)
			}
			most := MaxLength(got, p, size, sector)
			if most < p.Length || i < len(ps)-1 && p.Offset+most > ps[i+1].Offset {
				t.Errorf("MaxLength(%+v) = %d", p, most)
			}
		}
	})
}
