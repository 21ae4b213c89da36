package storage

import (
	"bytes"
	"strings"
	"testing"
)

// with returns ContentSize bytes with text at an offset.
func with(at int, text string) []byte {
	b := make([]byte, ContentSize)
	copy(b[at:], text)
	return b
}

func TestContent(t *testing.T) {
	ext := func(compat, incompat byte) []byte {
		b := with(0x438, "\x53\xef")
		b[0x45c], b[0x460] = compat, incompat
		return b
	}
	ntfs := with(3, "NTFS    ")
	copy(ntfs[510:], "\x55\xaa")
	for name, b := range map[string][]byte{
		"ext2": ext(0, 2), "ext3": ext(4, 2), "ext4": ext(4, 0x42),
		"XFS": with(0, "XFSB"), "btrfs": with(0x10040, "_BHRfS_M"), "LUKS": with(0, "LUKS\xba\xbe"),
		"LVM2 physical volume": with(512, "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00LVM2 001"),
		"Linux swap":           with(4086, "SWAPSPACE2"), "ZFS": with(16<<10, "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x24\x00\x00\x00\x20\x00\x00\x00\x07version"),
		"HFS+": with(0x400, "H+\x00\x04"), "NTFS": ntfs, "BitLocker": with(3, "-FVE-FS-"), "FAT": with(0x52, "FAT32   "),
		"GPT partition table": with(512, "EFI PART"), "Linux RAID": with(4096, "\xfc\x4e\x2b\xa9"), BootSector: with(510, "\x55\xaa"),
		"": with(100, "just some bytes"),
	} {
		if got := Content(b); got != name {
			t.Errorf("Content of %s = %q", name, got)
		}
	}
	if got := Content(nil); got != "" {
		t.Errorf("Content of nothing = %q", got)
	}
}

func TestBlank(t *testing.T) {
	if !Blank(nil) || !Blank(make([]byte, 1000)) || Blank(with(ContentSize-1, "x")) {
		t.Error("Blank is true for bytes that are not zero, or false for zeros")
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

// Recognized content stays recognized when more bytes follow.
func FuzzContent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, at uint, text, more []byte) {
		b := make([]byte, ContentSize)
		copy(b[at%ContentSize:], text)
		if Content(b) != "" && Content(append(bytes.Clone(b), more...)) == "" {
			t.Errorf("Content = %q, but nothing with %d more bytes", Content(b), len(more))
		}
		if Blank(b) && Content(b) != "" {
			t.Errorf("Content of zeroes = %q", Content(b))
		}
	})
}
