package bootsector_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
)

const mib = 1 << 20

func TestRecognizeNTFS(t *testing.T) {
	for _, c := range []struct {
		size            uint64
		sector, cluster uint32
		wantCluster     uint32
	}{
		{4 * mib, 512, 0, 4096}, {4 * mib, 4096, 0, 4096}, {4 * mib, 512, 512, 512}, {1 << 30, 512, 64 << 10, 64 << 10},
		{1 << 30, 4096, 2 << 20, 2 << 20}, {1 << 30, 512, 2 << 20, 2 << 20}, {16 << 40, 512, 0, 4096}, {16<<40 + 512, 512, 0, 8192}, {64 << 40, 512, 0, 16 << 10}, {256 << 40, 4096, 0, 64 << 10},
	} {
		fs, writes, err := bootsector.MakeNTFS(c.size, c.sector, c.cluster, 2048, 0xDEADBEEF01020304, "label")
		if err != nil {
			t.Errorf("MakeNTFS(%d, %d, %d) = %v", c.size, c.sector, c.cluster, err)
			continue
		}
		got, ok := bootsector.Recognize(writes[0].Data)
		if !ok || got != fs || got.Kind != bootsector.NTFS || got.BytesPerCluster != c.wantCluster || got.Serial != 0xDEADBEEF01020304 || got.BytesPerSector != c.sector {
			t.Errorf("Recognize = %+v, %t, want %+v", got, ok, fs)
		}
		end := uint64(0)
		for i, w := range writes {
			if w.Offset < end {
				t.Errorf("MakeNTFS(%d, %d, %d): write %d at %d overlaps the previous one, which ends at %d", c.size, c.sector, c.cluster, i, w.Offset, end)
			}
			end = w.Offset + uint64(len(w.Data))
		}
		if end != c.size {
			t.Errorf("MakeNTFS(%d, %d, %d): the last write ends at %d", c.size, c.sector, c.cluster, end)
		}
		if last := writes[len(writes)-1]; !bytes.Equal(last.Data, writes[0].Data[:c.sector]) {
			t.Error("the last sector is not the boot sector's copy")
		}
		if fs.Clusters*uint64(fs.BytesPerCluster) > c.size-uint64(c.sector) {
			t.Errorf("%d clusters of %d overlap the last sector", fs.Clusters, fs.BytesPerCluster)
		}
	}
}

func TestNTFSRefusals(t *testing.T) {
	for _, c := range []struct {
		size            uint64
		sector, cluster uint32
		want            error
	}{
		{4*mib - 512, 512, 0, bootsector.ErrTooSmall},
		{0, 512, 0, bootsector.ErrTooSmall},
		{64 * mib, 512, 2 << 20, bootsector.ErrTooSmall},
		{1 << 30, 512, 256, bootsector.ErrCluster},
		{1 << 30, 4096, 2048, bootsector.ErrCluster},
		{1 << 30, 512, 3000, bootsector.ErrCluster},
		{1 << 30, 512, 4 << 20, bootsector.ErrCluster},
		{17 << 40, 512, 4096, bootsector.ErrCluster}, // too many clusters for NTFS
	} {
		if _, _, err := bootsector.MakeNTFS(c.size, c.sector, c.cluster, 0, 1, ""); !errors.Is(err, c.want) {
			t.Errorf("MakeNTFS(%d, %d, %d) = %v, want %v", c.size, c.sector, c.cluster, err, c.want)
		}
	}
}

func TestLabel(t *testing.T) {
	for _, label := range []string{"", "data", "größer 💾", strings.Repeat("x", 32)} {
		b := make([]byte, 8*mib)
		fs, writes, err := bootsector.MakeNTFS(8*mib, 512, 0, 0, 1, label)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writes {
			copy(b[w.Offset:], w.Data)
		}
		if got := bootsector.Label(bytes.NewReader(b), fs); got != label {
			t.Errorf("Label = %q, want %q", got, label)
		}
		if got := bootsector.Label(bytes.NewReader(b[:100]), fs); got != "" {
			t.Errorf("Label of a truncated volume = %q", got)
		}
	}
}

func TestGrowNTFS(t *testing.T) {
	fs, writes, err := bootsector.MakeNTFS(8*mib, 512, 0, 0, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	boot := writes[0].Data[:512]
	grown, changes := bootsector.GrowNTFS(boot, fs, 16*mib/512)
	if got, ok := bootsector.Recognize(changes[0].Data); !ok || got != grown || grown.Sectors != 16*mib/512-1 || grown.Clusters != 4095 {
		t.Errorf("grew to %+v, but Recognize = %+v, %t", grown, got, ok)
	}
	if last := changes[len(changes)-1]; last.Offset != 16*mib-512 || changes[1].Offset != 8*mib-512 {
		t.Errorf("the copies are at %d and, previously, %d", last.Offset, changes[1].Offset)
	}
	if fs2, _ := bootsector.Recognize(boot); fs2 != fs {
		t.Error("the given boot sector was changed")
	}
}

func TestRecognizeOthers(t *testing.T) {
	sector := func(change func(b []byte)) []byte {
		b := make([]byte, 512)
		b[510], b[511] = 0x55, 0xAA
		change(b)
		return b
	}
	exfat := func(b []byte) {
		copy(b[3:], "EXFAT   ")
		b[72], b[92], b[108], b[109] = 200, 20, 9, 3
	}
	for _, c := range []struct {
		name string
		b    []byte
		want bootsector.Kind
	}{
		{"nothing", nil, ""},
		{"zeros", make([]byte, 512), ""},
		{"an MBR", sector(func(b []byte) { b[446+4] = 7 }), ""},
		{"exFAT", sector(exfat), bootsector.ExFAT},
		{"exFAT of large sectors", sector(func(b []byte) { exfat(b); b[108] = 13 }), ""},
		{"FAT32", bootsector.MakeFAT32(100*mib, 512, 0, 7)[0].Data, bootsector.FAT32},
		{"FAT16", sector(func(b []byte) {
			copy(b, "\xEB\x3C\x90MSDOS5.0")
			b[12], b[13], b[14], b[16], b[18], b[20], b[21], b[22] = 2, 4, 1, 2, 2, 200, 0xF8, 50
		}), bootsector.FAT},
		{"FAT without a FAT", sector(func(b []byte) { b[0], b[12], b[13], b[14], b[21] = 0xEB, 2, 4, 1, 0xF8 }), ""},
		{"NTFS with only the name", sector(func(b []byte) { copy(b[3:], "NTFS    ") }), ""},
	} {
		if fs, ok := bootsector.Recognize(c.b); fs.Kind != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s: Recognize = %+v, %t, want %q", c.name, fs, ok, c.want)
		}
	}
}

// Recognized sectors have numbers that are valid for calculations, and reading a
// label does not panic.
func FuzzRecognize(f *testing.F) {
	_, writes, err := bootsector.MakeNTFS(8*mib, 512, 0, 0, 1, "seed")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(writes[0].Data[:512], writes[2].Data)
	f.Add(bootsector.MakeFAT32(100*mib, 512, 0, 7)[0].Data, []byte{})
	f.Add([]byte("short"), []byte("FILE"))
	f.Fuzz(func(t *testing.T, b, table []byte) {
		fs, ok := bootsector.Recognize(b)
		if !ok {
			return
		}
		if fs.BytesPerSector < 256 || fs.BytesPerSector > 4096 || fs.Sectors == 0 || fs.Sectors > 1<<56 || fs.Kind == "" {
			t.Errorf("Recognize = %+v", fs)
		}
		if fs.Kind == bootsector.NTFS {
			if fs.Clusters == 0 || fs.RecordSize < 512 || fs.RecordSize > 65536 || fs.MFT/uint64(fs.BytesPerCluster) >= fs.Clusters {
				t.Errorf("Recognize = %+v", fs)
			}
			fs.MFT = 0
		}
		if label := bootsector.Label(bytes.NewReader(append(table, make([]byte, 5*65536)...)), fs); len(label) > 4*bootsector.MaxLabel {
			t.Errorf("Label = %q", label)
		}
	})
}
