package storage

import (
	"bytes"
	"encoding/binary"
)

// Look is how many bytes at the start of a disk or volume [Content] wants to see.
const Look = 128 << 10

// BootSector is what [Content] calls a first sector that ends in 55AAh and is
// nothing more specific.
const BootSector = "boot sector or MBR partition table"

// signature is a mark of known content: magic at one of some offsets.
type signature struct {
	name  string
	magic string
	at    []int
}

// signatures of what Windows may not know, and of what it should know but does
// not recognise because it is damaged. Offsets are those of the formats' own
// documents, as libblkid and Linux' include/uapi/linux/magic.h list them.
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

// Content names what is known to be on a disk or volume that begins with b, or
// "" if nothing known is. It is asked where Windows says that there is nothing
// it knows, before something is written there.
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

// ext recognises ext2, ext3 and ext4 by the magic number of their superblock at
// 1 KiB and tells them apart by its feature words.
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

// Blank tells whether all of b is zero.
func Blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
