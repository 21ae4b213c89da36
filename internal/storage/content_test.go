package storage

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

const testSize = 300 << 20

// sampled returns a sample of an area of length bytes that is blank but for text at an
// offset. The sample has what [Disk.Look] reads.
func sampled(length, at uint64, text string) *Sample {
	s := &Sample{Length: length}
	read := append([]Area{{0, Edge}, {length - Edge, Edge}}, beyond(length)...)
	for _, a := range read {
		b := make([]byte, a.Length)
		for i := range len(text) {
			if p := at + uint64(i); p >= a.Offset && p < a.Offset+a.Length {
				b[p-a.Offset] = text[i]
			}
		}
		s.Add(a.Offset, b)
	}
	return s
}

// Each sign of each kind is found where the table says, also behind the edges.
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
				if got := sampled(length, at, sign.Magic).Content(); got.Kind == "" {
					t.Errorf("%s: %q at %d of %d bytes: %+v", k.Name, sign.Magic, at, length, got)
				} else if got.Kind != k.Name && sampled(length, at, sign.Magic).kind() != got.Kind {
					t.Errorf("%s: %q at %d of %d bytes is named %s", k.Name, sign.Magic, at, length, got.Kind)
				}
			}
		}
	}
}

func TestContent(t *testing.T) {
	ext := func(group, size, compat, incompat byte) string {
		b := make([]byte, 0x68)
		b[0x38], b[0x39], b[0x18], b[0x5a], b[0x5c], b[0x60] = 0x53, 0xef, size, group, compat, incompat
		return string(b)
	}
	for _, c := range []struct {
		at   uint64
		text string
		want Content
	}{
		{0x400, ext(0, 2, 0, 2), Content{Kind: "ext2"}},
		{0x400, ext(0, 2, 4, 2), Content{Kind: "ext3"}},
		{0x400, ext(0, 2, 4, 0x42), Content{Kind: "ext4"}},
		{0x400, ext(0, 2, 0, 8), Content{Kind: "ext journal"}},
		{8193 << 10, ext(1, 0, 4, 0x42), Content{Kind: "ext4"}},
		{16384 << 11, ext(1, 1, 4, 0x42), Content{Kind: "ext4"}},
		{32768 << 12, ext(1, 2, 4, 0x42), Content{Kind: "ext4"}},
		{32768 << 12, ext(1, 0, 4, 0x42), Content{Blank: true}}, // of a file in a file system that is gone
		{536, "LVM2 001", Content{Kind: "LVM2 physical volume"}},
		{testSize/4 + 4096, "XFSB", Content{Blank: true}},
		{testSize / 4, "XFSB", Content{Kind: "XFS"}},
		{16 << 10, "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x24\x00\x00\x00\x20\x00\x00\x00\x07version", Content{Kind: "ZFS"}},
		{testSize - 512<<10 + 128<<10 + 5<<10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", Content{Kind: "ZFS"}},
		{testSize - 512 + 3, "NTFS    ", Content{Kind: "NTFS"}},
		{testSize - 512, "EFI PART", Content{Kind: "GPT partition table"}},
		{0xa0, "\x3b\x4d\xa8\x92\x80\xdd\x0e\x4d\x9e\x4e\xb1\xe3\x28\x4e\xae\xd8", Content{Kind: BitLocker}}, // used space only
		{0x36, "FAT16\x00\x00\x00", Content{Kind: "FAT"}},
		{testSize - 512, "JM\x01\x00", Content{Kind: "JMicron RAID"}}, // version 0.1
		{0, "dmvdo001", Content{Kind: "VDO"}},
		{0x2195000, "-FVE-FS-", Content{Kind: BitLocker}},
		{510, "\x55\xaa", Content{Kind: BootSector}},
		{100, "just some bytes", Content{At: 100}},
		{Edge - 1, "x", Content{At: Edge - 1}},
		{Edge, "x", Content{Blank: true}}, // not looked at
		{testSize - Edge, "x", Content{At: testSize - Edge}},
		{testSize - 1, "x", Content{At: testSize - 1}},
		{0, "", Content{Blank: true}},
	} {
		if got := sampled(testSize, c.at, c.text).Content(); got != c.want {
			t.Errorf("%q at %d: %+v, want %+v", c.text, c.at, got, c.want)
		}
	}
}

func TestAreasOfNewDisk(t *testing.T) {
	for size, want := range map[uint64][]Area{
		512 << 10: {{0, 512 << 10}},
		100 << 20: {{0, 100 << 20}, {1 << 20, 98 << 20}},
		10 << 30:  {{0, 10 << 30}, {1 << 20, 1 << 20}, {16 << 20, 10<<30 - 17<<20}},
	} {
		if got := NewDiskAreas(size); !slices.Equal(got, want) {
			t.Errorf("areas of %d bytes: %v, want %v", size, got, want)
		}
	}
}

func TestIsVolumeID(t *testing.T) {
	const guid = "6e1f3a48-0000-aB00-0000-100000000000"
	for id, want := range map[string]bool{
		`\\?\Volume{` + guid + `}\`:                  true,
		`\\?\VOLUME{` + strings.ToUpper(guid) + `}\`: true,
		`\\?\Volume{` + guid + `}`:                   false,
		`\\?\Volume{` + guid + `}\\`:                 false,
		`\\?\Volume{` + guid + `}\x\`:                false,
		`\\.\Volume{` + guid + `}\`:                  false,
		`\\?\Volume{` + guid + "}\\\n":               false,
		"x" + `\\?\Volume{` + guid + `}\`:            false,
		`\\?\Volume{` + guid[1:] + `}\`:              false,
		`\\?\Volume{}\`:                              false,
		`\\?\GLOBALROOT\Device\HarddiskVolume1\`:     false,
		`C:\`:                                        false, "": false, "\x00": false,
	} {
		if got := IsVolumeID(id); got != want {
			t.Errorf("IsVolumeID(%q) = %t, want %t", id, got, want)
		}
	}
}

// What is read of an area is blank or has a name, and only zeros are blank.
func FuzzContent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, at uint, text, more []byte) {
		s := &Sample{Length: 2*Edge + 512}
		first, last := make([]byte, Edge), make([]byte, Edge)
		copy(first[at%Edge:], text)
		copy(last[at%Edge:], more)
		s.Add(0, first)
		s.Add(s.Length-Edge, last)
		zero := len(bytes.Trim(first, "\x00")) == 0 && len(bytes.Trim(last, "\x00")) == 0
		if c := s.Content(); c.Blank != zero || c.Blank != (c.Name() == "") {
			t.Errorf("content %+v, name %q; all zeros: %t", c, c.Name(), zero)
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

// blankDevice has zeros only.
type blankDevice struct{ win32.API }

func (blankDevice) ReadAt(_ win32.Handle, p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// A look uses the buffers of an earlier one, and sees nothing of what that one read.
func TestLookUsesBuffersAgain(t *testing.T) {
	n := node.New(fullDevice{})
	full := device{node: n}
	look := func(d device, want string) {
		t.Helper()
		c, err := d.Look(t.Context(), Area{Length: 1 << 30})
		if err != nil || c.Name() != want {
			t.Fatalf("%q, %v, want %q", c.Name(), err, want)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const looks = 64
	for range looks {
		look(full, UnknownContent)
		n.API = blankDevice{}
		look(device{node: n}, "")
		n.API = fullDevice{}
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / (2 * looks); per > Edge {
		t.Errorf("a look allocates %d bytes, want less than half of the 2 MiB that it reads", per)
	}
}
