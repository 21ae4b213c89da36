package storage

import (
	"bytes"
	"encoding/binary"
)

// ContentSize is how many bytes of the start of a disk or volume [Content] needs.
const ContentSize = 128 << 10

// BootSector is what [Content] returns for a first sector that ends in 55AAh and
// has no more specific signature.
const BootSector = "boot sector or MBR partition table"

// signature identifies a kind of content by magic at one of several offsets.
type signature struct {
	name  string
	magic string
	at    []int
}

// signatures covers content that Windows may not know, and content that it should
// know but does not recognize because it is damaged. The offsets are those of the
// formats' own documents, libblkid and Linux' include/uapi/linux/magic.h.
var signatures = []signature{
	{"LUKS", "LUKS\xba\xbe", []int{0}},
	{"LVM2 physical volume", "LVM2 001", []int{0x18, 0x218, 0x418, 0x618}},
	{"XFS", "XFSB", []int{0}},
	{"btrfs", "_BHRfS_M", []int{0x10040}},
	{"bcachefs", "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", []int{0x1018}},
	{"bcache", "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", []int{0x1018}},
	{"Linux RAID", "\xfc\x4e\x2b\xa9", []int{0, 0x1000}},
	{"Linux swap", "SWAPSPACE2", []int{0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6}},
	{"Linux swap", "SWAP-SPACE", []int{0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6}},
	{"F2FS", "\x10\x20\xf5\xf2", []int{0x400}},
	{"JFS", "JFS1", []int{0x8000}},
	{"ReiserFS", "ReIsEr", []int{0x10034, 0x2034}},
	{"Ceph BlueStore", "bluestore block device", []int{0}},
	{"Oracle ASM", "ORCLDISK", []int{0x20}},
	{"HFS+", "H+\x00\x04", []int{0x400}},
	{"HFS+", "HX\x00\x05", []int{0x400}},
	{"APFS", "NXSB", []int{0x20}},
	{"UFS", "\x19\x01\x54\x19", []int{0x255c, 0x1055c}},
	{"BitLocker", "-FVE-FS-", []int{3}},
	{"NTFS", "NTFS    ", []int{3}},
	{"ReFS", "ReFS\x00\x00\x00\x00", []int{3}},
	{"exFAT", "EXFAT   ", []int{3}},
	{"FAT", "FAT32   ", []int{0x52}},
	{"FAT", "FAT16   ", []int{0x36}},
	{"FAT", "FAT12   ", []int{0x36}},
	{"ISO 9660", "CD001", []int{0x8001}},
	{"GPT partition table", "EFI PART", []int{512, 4096}},
}

// Content names the known content of a disk or volume that begins with b. It
// returns "" if there is none. Hosts call it before they write to a device on
// which Windows itself recognizes nothing.
func Content(b []byte) string {
	has := func(at int, magic string) bool {
		return len(b) >= at+len(magic) && string(b[at:at+len(magic)]) == magic
	}
	for _, s := range signatures {
		for _, at := range s.at {
			if has(at, s.magic) {
				return s.name
			}
		}
	}
	if name := ext(b); name != "" {
		return name
	}
	// A ZFS label holds an XDR list of names and values at 16 KiB, whose first
	// name is "version".
	const label = 16 << 10
	if len(b) >= label+128 && b[label] == 1 && bytes.Contains(b[label:label+128], []byte("\x00\x07version")) {
		return "ZFS"
	}
	if has(510, "\x55\xaa") {
		return BootSector
	}
	return ""
}

// ext recognizes ext2, ext3 and ext4 by the magic number of their superblock at
// 1 KiB and distinguishes them by its feature words.
func ext(b []byte) string {
	const super = 0x400
	if len(b) < super+0x68 || binary.LittleEndian.Uint16(b[super+0x38:]) != 0xEF53 {
		return ""
	}
	const hasJournal, extents = 0x4, 0x40
	switch {
	case binary.LittleEndian.Uint32(b[super+0x60:])&extents != 0:
		return "ext4"
	case binary.LittleEndian.Uint32(b[super+0x5c:])&hasJournal != 0:
		return "ext3"
	}
	return "ext2"
}

// Blank reports whether b is all zeros.
func Blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
