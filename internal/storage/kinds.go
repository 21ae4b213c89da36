package storage

import "encoding/binary"

// Kind is a kind of content that a disk or volume may have, and how it is recognized.
type Kind struct {
	Name   string
	Source string // where the signs are described
	Signs  []Sign
}

// Sign is bytes that a kind of content has at a place.
type Sign struct {
	Magic string
	At    uint64 // the offset from the start or, with FromEnd, the distance from the end
	// FromEnd counts At back from the end of the device, rounded down to Align.
	FromEnd bool
	Align   uint64 // 0 means 1
	// Quarter counts At from the end of so many quarters, at each of which mkfs.xfs ends an
	// allocation group.
	Quarter uint64
	// Check says whether the sector that has the sign is what it should be. Signs of two bytes
	// prove nothing alone.
	Check func(sector []byte) bool
}

// The compiler would inline the three functions that make signs into each row of the
// table, which makes csi-proxy.exe 100 KB larger.

//go:noinline
func at(magic string, offsets ...uint64) []Sign {
	var signs []Sign
	for _, o := range offsets {
		signs = append(signs, Sign{Magic: magic, At: o})
	}
	return signs
}

//go:noinline
func end(magic string, align uint64, distances ...uint64) []Sign {
	var signs []Sign
	for _, d := range distances {
		signs = append(signs, Sign{Magic: magic, At: d, FromEnd: true, Align: align})
	}
	return signs
}

//go:noinline
func signs(some ...[]Sign) []Sign {
	var all []Sign
	for _, s := range some {
		all = append(all, s...)
	}
	return all
}

//go:noinline
func checked(check func([]byte) bool, some []Sign) []Sign {
	for i := range some {
		some[i].Check = check
	}
	return some
}

// Sources of the table.
const (
	magicH   = "Linux, include/uapi/linux/magic.h"
	blkid    = "util-linux, libblkid superblocks"
	tables   = "util-linux, libblkid partitions"
	onDisk   = "the format's own documentation"
	observed = "observed: images made by the format's own tool"
	msDocs   = "Microsoft, documentation of the format"
	libyal   = "libyal, documentation of the format"
)

// BitLocker is the kind of a volume that BitLocker encrypts. One for other machines
// (BitLocker To Go) has a FAT file system in front, with a program that unlocks it.
const BitLocker = "BitLocker"

// BootSector is the kind of a first sector that ends in 55AAh, is a plausible boot sector or
// MBR, and has no more specific sign.
const BootSector = "boot sector or MBR partition table"

// Kinds returns the kinds of content that are recognized, in the order in which they are
// looked for: the first one found names the content. What is not in the table and not
// blank is unknown content, so a missing row costs the name and not the data.
//
// ext2 to ext4 and ZFS are not in the table, because code recognizes them.
func Kinds() []Kind {
	pages := func(magic string) []Sign { // at the end of a page of 4 to 64 KiB
		return at(magic, 0x1000-10, 0x2000-10, 0x4000-10, 0x8000-10, 0x10000-10)
	}
	return []Kind{
		// Layers below a file system.
		{"LUKS", onDisk, signs(at("LUKS\xba\xbe", 0), at("SKUL\xba\xbe", 0x4000, 0x8000, 0x10000, 0x20000, 0x40000, 0x80000, 0x100000, 0x200000, 0x400000))},
		{BitLocker, libyal, signs(at("-FVE-FS-", 3, 0x2100000, 0x2195000), at("\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01", 0xa0, 0x1a8), at("\x3b\x4d\xa8\x92\x80\xdd\x0e\x4d\x9e\x4e\xb1\xe3\x28\x4e\xae\xd8", 0xa0))},
		{"LVM2 physical volume", onDisk, signs(at("LVM2 001", 0x18, 0x218, 0x418, 0x618), at(" LVM2 x[5A%r0N*>", 0x1004))},
		{"LVM1 physical volume", blkid, at("HM\x01\x00", 0)},
		{"Linux RAID", onDisk, signs(at("\xfc\x4e\x2b\xa9", 0, 0x1000), end("\xfc\x4e\x2b\xa9", 4096, 8192), end("\xfc\x4e\x2b\xa9", 64<<10, 64<<10), end("\xa9\x2b\x4e\xfc", 64<<10, 64<<10))},
		{"Intel RAID", blkid, end("Intel Raid ISM Cfg Sig. ", 512, 1024)},
		{"DDF RAID", blkid, signs(end("\xde\x11\xde\x11", 512, 512, 257*512), end("\x11\xde\x11\xde", 512, 512, 257*512))},
		{"LSI MegaRAID", blkid, end("$XIDE$", 512, 512)},
		{"NVIDIA RAID", blkid, end("NVIDIA  ", 512, 1024)},
		{"Promise FastTrack RAID", blkid, end("Promise Technology, Inc.", 512, 63*512, 255*512, 256*512, 16*512, 399*512, 591*512, 675*512, 735*512, 911*512, 974*512, 991*512, 951*512)},
		{"HighPoint RAID", blkid, signs(end("\xf3\x16\x78\x5a", 512, 11*512), end("\xfd\x16\x78\x5a", 512, 11*512), at("\xf0\x16\x78\x5a", 9*512+32), at("\xfd\x16\x78\x5a", 9*512+32))},
		{"JMicron RAID", blkid, checked(jmicron, end("JM", 512, 512))},
		{"DRBD", blkid, signs(end("\x83\x74\x02\x67", 1, 4096-60), end("\x83\x74\x02\x6b", 1, 4096-60), end("\x83\x74\x02\x6d", 1, 4096-60), at("$DRBDmgr=q", 0))},
		{"bcache", blkid, at("\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 0x1018)},
		{"Stratis", blkid, at("!Stra0tis\x86\xff\x02^\x41rh", 0x204, 0x1204)},
		{"VDO", blkid, at("dmvdo001", 0)},
		{"dm-verity", blkid, at("verity\x00\x00", 0)},
		{"dm-integrity", blkid, at("integrt\x00", 0)},
		{"LVM2 snapshot", blkid, at("SnAp", 0)},
		{"Ceph BlueStore", blkid, at("bluestore block device", 0, 1<<30, 10<<30, 100<<30, 1000<<30)},
		{"Oracle ASM", blkid, at("ORCLDISK", 0x20)},
		{"VMFS physical volume", blkid, at("\x0d\xd0\x01\xc0", 0x100000)},
		{"VMFS", blkid, at("\x5e\xf1\xab\x2f", 0x200000)},
		{"Storage Spaces", observed, at("SPACEDB ", 0, 0x1000)},
		{"dynamic disk (LDM)", onDisk, signs(at("PRIVHEAD", 0, 0xC00), end("PRIVHEAD", 512, 512, 1<<20-1856*512, 1856*512, 192*512), end("TOCBLOCK", 512, 1<<20-512, 1<<20-1024, 2047*512, 2046*512), end("VMDB", 512, 1<<20-17*512, 2031*512))},
		{"UBI", blkid, at("UBI#", 0)},
		{"mpool", blkid, at("mpoolDev", 0)},

		// File systems of Linux and Unix. F2FS has no magic behind its two superblocks: its
		// first checkpoint says at which offset its checksum is.
		{"XFS", onDisk, signs(at("XFSB", 0, 1<<40), []Sign{{Magic: "XFSB", Quarter: 1, Align: 4096}, {Magic: "XFSB", Quarter: 2, Align: 4096}, {Magic: "XFSB", Quarter: 3, Align: 4096}})},
		{"XFS log", blkid, at("\xfe\xed\xba\xbe", 0)},
		{"btrfs", magicH, at("_BHRfS_M", 0x10040, 0x4000040, 0x4000000040)},
		{"bcachefs", blkid, at("\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", 0x1018)},
		{"F2FS", magicH, signs(at("\x10\x20\xf5\xf2", 0x400, 0x1400), at("\xfc\x0f\x00\x00", 0x200000+164))},
		{"JFS", blkid, at("JFS1", 0x8000, 0xf000)},
		{"Reiser4", blkid, at("ReIsEr4", 0x10000)},
		{"ReiserFS", magicH, at("ReIsEr", 0x10034, 0x2034, 0x10014)},
		{"NILFS2", magicH, signs(at("\x02\x00\x00\x00\x00\x00\x34\x34", 0x400), end("\x02\x00\x00\x00\x00\x00\x34\x34", 4096, 4096))},
		{"OCFS2", blkid, at("OCFSV2", 0x400, 0x800, 0x1000, 0x2000)},
		{"OCFS", blkid, at("OracleCFS", 8)},
		{"GFS2", blkid, at("\x01\x16\x19\x70", 0x10000)},
		{"Minix", magicH, checked(minix, signs(at("\x7f\x13", 0x410), at("\x8f\x13", 0x410), at("\x68\x24", 0x410), at("\x78\x24", 0x410), at("\x5a\x4d", 0x418)))},
		{"Linux swap", magicH, signs(pages("SWAPSPACE2"), pages("SWAP-SPACE"))},
		{"hibernation image", blkid, signs(pages("S1SUSPEND"), pages("S2SUSPEND"), pages("ULSUSPEND"), pages("LINHIB0001"), pages("\xed\xc3\x02\xe9\x98\x56\xe5\x0c"))},
		{"squashfs", magicH, signs(at("hsqs", 0), at("sqsh", 0), at("hsqt", 0))},
		{"EROFS", magicH, at("\xe2\xe1\xf5\xe0", 0x400)},
		{"cramfs", magicH, signs(at("\x45\x3d\xcd\x28", 0), at("\x28\xcd\x3d\x45", 0))},
		{"romfs", blkid, at("-rom1fs-", 0)},
		{"UBIFS", blkid, at("\x31\x18\x10\x06", 0)},
		{"zonefs", blkid, at("SFOZ", 0)},
		{"EXFS", blkid, at("EXFS", 0)},
		{"VxFS", blkid, at("\xf5\xfc\x01\xa5", 0x400)},
		{"UFS", blkid, signs(at("\x19\x01\x54\x19", 0x55c, 0x255c, 0x1055c, 0x4055c), at("\x54\x19\x01\x00", 0x255c, 0x1055c), at("\x00\x01\x19\x54", 0x255c, 0x1055c), at("\x19\x54\x01\x19", 0x255c, 0x1055c))},
		{"BeFS", blkid, signs(at("BFS1", 0x20, 0x220), at("1SFB", 0x20, 0x220))},
		{"SCO BFS", blkid, at("\xce\xfa\xad\x1b", 0)},
		{"System V", blkid, signs(at("\x20\x7e\x18\xfd", 0x3f8), at("\x44\x55\x2b\x00", 0x7f8))},
		{"HPFS", blkid, at("\x49\xe8\x95\xf9", 0x2000)},
		{"NetWare NSS", blkid, at("SPB5", 0x1000)},
		{"APFS", onDisk, at("NXSB", 0x20)},
		{"HFS+", onDisk, signs(at("H+\x00\x04", 0x400), at("HX\x00\x05", 0x400), end("H+\x00\x04", 512, 1024), end("HX\x00\x05", 512, 1024))},
		{"HFS", onDisk, checked(hfs, at("BD", 0x400))},
		{"UDF", onDisk, signs(at("BEA01", 0x8001), at("NSR02", 0x8001, 0x8801, 0x9001), at("NSR03", 0x8001, 0x8801, 0x9001), at("BOOT2", 0x8001))},
		{"ISO 9660", onDisk, signs(at("CD001", 0x8001), at("CDROM", 0x8009))},

		// File systems of Windows. The FAT of an exFAT begins at 1 MiB if it is aligned. Some
		// cameras end "FAT16" with zeros instead of spaces.
		{"NTFS", msDocs, signs(at("NTFS    ", 3), end("NTFS    ", 512, 512-3, 4096-3), at("FILE0\x00", 3<<30))},
		{"ReFS", libyal, signs(at("ReFS\x00\x00\x00\x00", 3), end("ReFS\x00\x00\x00\x00", 512, 512-3, 4096-3))},
		{"exFAT", msDocs, signs(at("EXFAT   ", 3, 12*512+3, 12*4096+3), at("\xf8\xff\xff\xff\xff\xff\xff\xff", 0x100000))},
		{"FAT", msDocs, signs(at("FAT32   ", 0x52, 6*512+0x52, 6*4096+0x52), at("FAT16", 0x36), at("FAT12", 0x36))},

		// Partition tables and images of disks.
		{"GPT partition table", msDocs, signs(at("EFI PART", 512, 4096), end("EFI PART", 512, 512, 4096))},
		{"Apple partition map", tables, signs(at("PM\x00\x00", 512), at("ER\x02\x00", 0))},
		{"SGI disk label", tables, at("\x0b\xe5\xa9\x41", 0)},
		{"Sun disk label", tables, checked(sun, at("\xda\xbe", 508))},
		{"BSD disk label", tables, at("\x57\x45\x56\x82", 0, 0x40, 0x200)},
		{"AIX disk", tables, at("\xc9\xc2\xd4\xc1", 0)},
		{"Amiga disk", onDisk, at("RDSK", 0, 512)},
		{"QCOW image", onDisk, at("QFI\xfb", 0)},
		{"VMDK image", onDisk, at("KDMV", 0)},
		{"VHDX image", msDocs, at("vhdxfile", 0)},
		{"VHD image", msDocs, signs(at("conectix", 0), end("conectix", 512, 512))},
		{"VDI image", observed, at("\x7f\x10\xda\xbe", 0x40)},
		{BootSector, onDisk, checked(bootSector, at("\x55\xaa", 510))},
	}
}

func bootSector(b []byte) bool { return plausibleMBR(b) || plausibleBoot(b) }

// hfs checks a master directory block, which begins with the sign: it has blocks, of whole
// sectors ("Inside Macintosh: Files").
func hfs(b []byte) bool {
	blocks, size := binary.BigEndian.Uint16(b[18:]), binary.BigEndian.Uint32(b[20:])
	return blocks > 0 && size > 0 && size%512 == 0
}

// minix checks a superblock (Linux, include/linux/minix_fs.h): its maps have room for what they
// map. The third version has wider fields.
func minix(b []byte) bool {
	le := binary.LittleEndian
	inodes, maps, zoneMaps, first := uint64(le.Uint16(b)), uint64(le.Uint16(b[4:])), le.Uint16(b[6:]), uint64(le.Uint16(b[8:]))
	if string(b[0x18:0x1a]) == "\x5a\x4d" {
		inodes, maps, zoneMaps, first = uint64(le.Uint32(b)), uint64(le.Uint16(b[6:])), le.Uint16(b[8:]), uint64(le.Uint16(b[10:]))
	}
	return inodes > 0 && maps > 0 && zoneMaps > 0 && inodes < maps*8*32<<10 && first > maps+uint64(zoneMaps)
}

// sun checks a label: its 256 words have the parity 0.
func sun(b []byte) bool {
	var parity uint16
	for i := 0; i < mbrSize; i += 2 {
		parity ^= binary.BigEndian.Uint16(b[i:])
	}
	return parity == 0
}

// jmicron checks the description of a RAID: the sum of its first 64 words is 0 or 1.
func jmicron(b []byte) bool {
	var sum uint16
	for i := 0; i < 128; i += 2 {
		sum += binary.LittleEndian.Uint16(b[i:])
	}
	return sum <= 1
}
