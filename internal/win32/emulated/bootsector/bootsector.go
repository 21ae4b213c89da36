// Package bootsector recognizes the file system of a volume by its first sector,
// as Windows' file system drivers do at mount. It also writes the parts of a new
// file system that others recognize: the boot sector, its backup, and for NTFS
// the first records of the master file table.
//
// This is enough for Windows' own check of the boot sector and for blkid. It is
// not a complete file system: files of the emulated node are not in the image.
//
// Layouts come from Microsoft's "NTFS boot sector" and FAT specification
// (fatgen103), and for MFT records from the documentation of the Linux-NTFS
// project.
package bootsector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unicode/utf16"
)

var le = binary.LittleEndian

// Size is how many bytes Recognize needs, for any sector size.
const Size = 512

// Kind is a file system, by the name that GetVolumeInformationW returns.
type Kind string

// The file systems that the node recognizes. Windows Server knows ReFS, too.
const (
	NTFS  Kind = "NTFS"
	FAT   Kind = "FAT"
	FAT32 Kind = "FAT32"
	ExFAT Kind = "exFAT"
)

// FileSystem is the content of a boot sector.
type FileSystem struct {
	Kind            Kind
	BytesPerSector  uint32
	BytesPerCluster uint32
	Sectors         uint64 // of the file system; NTFS does not count the sector of its backup
	Clusters        uint64
	Serial          uint64 // 64 bits for NTFS, 32 for the FATs
	MFT             uint64 // NTFS: byte offset of the master file table
	RecordSize      uint32 // NTFS: bytes of an MFT record
}

// Write is bytes to write at an offset of the volume.
type Write struct {
	Offset uint64
	Data   []byte
}

// Recognize reads the first bytes of a volume. ok is false for content that no
// Windows driver knows (ext4, XFS, zeros, random bytes).
func Recognize(b []byte) (fs FileSystem, ok bool) {
	if len(b) < Size {
		return FileSystem{}, false
	}
	if b[510] != 0x55 || b[511] != 0xAA {
		return FileSystem{}, false
	}
	switch string(b[3:11]) {
	case "NTFS    ":
		return ntfs(b)
	case "EXFAT   ":
		return exfat(b)
	}
	return fat(b)
}

func powerOfTwo(v, low, high uint32) bool {
	return v >= low && v <= high && bits.OnesCount32(v) == 1
}

func ntfs(b []byte) (fs FileSystem, ok bool) {
	fs = FileSystem{Kind: NTFS, BytesPerSector: uint32(le.Uint16(b[11:]))}
	if !powerOfTwo(fs.BytesPerSector, 256, 4096) {
		return fs, false
	}
	// Above 128 sectors the byte is a negative power of two.
	perCluster := uint32(b[13])
	if perCluster > 128 {
		shift := 256 - perCluster
		if shift > 20 {
			return fs, false
		}
		perCluster = 1 << shift
	}
	if !powerOfTwo(perCluster, 1, 1<<13) {
		return fs, false
	}
	fs.BytesPerCluster = perCluster * fs.BytesPerSector
	fs.Sectors = le.Uint64(b[40:])
	fs.Clusters = fs.Sectors / uint64(perCluster)
	lcn := le.Uint64(b[48:])
	if fs.Sectors == 0 || fs.Sectors > 1<<56 || lcn >= fs.Clusters {
		return fs, false
	}
	fs.MFT = lcn * uint64(fs.BytesPerCluster)
	if size := int8(b[64]); size > 0 {
		fs.RecordSize = uint32(size) * fs.BytesPerCluster
	} else if size >= -16 && size < 0 {
		fs.RecordSize = 1 << -size
	}
	if !powerOfTwo(fs.RecordSize, 512, 65536) {
		return fs, false
	}
	fs.Serial = le.Uint64(b[72:])
	return fs, true
}

func exfat(b []byte) (fs FileSystem, ok bool) {
	if b[108] < 9 || b[108] > 12 || b[109] > 25-b[108] {
		return fs, false
	}
	fs = FileSystem{
		Kind:            ExFAT,
		BytesPerSector:  1 << b[108],
		BytesPerCluster: 1 << (b[108] + b[109]),
		Sectors:         le.Uint64(b[72:]),
		Clusters:        uint64(le.Uint32(b[92:])),
		Serial:          uint64(le.Uint32(b[100:])),
	}
	return fs, fs.Sectors > 0 && fs.Sectors <= 1<<56
}

func fat(b []byte) (fs FileSystem, ok bool) {
	if b[0] != 0xEB && b[0] != 0xE9 {
		return fs, false
	}
	sector, perCluster := uint32(le.Uint16(b[11:])), uint32(b[13])
	reserved, fats := uint64(le.Uint16(b[14:])), uint64(b[16])
	if !powerOfTwo(sector, 512, 4096) || !powerOfTwo(perCluster, 1, 128) || reserved == 0 || fats == 0 || fats > 2 || (b[21] != 0xF0 && b[21] < 0xF8) {
		return fs, false
	}
	fs = FileSystem{Kind: FAT, BytesPerSector: sector, BytesPerCluster: sector * perCluster, Sectors: uint64(le.Uint16(b[19:]))}
	if fs.Sectors == 0 {
		fs.Sectors = uint64(le.Uint32(b[32:]))
	}
	fatSectors := uint64(le.Uint16(b[22:]))
	fs.Serial = uint64(le.Uint32(b[39:]))
	if fatSectors == 0 {
		fs.Kind = FAT32
		fatSectors = uint64(le.Uint32(b[36:]))
		fs.Serial = uint64(le.Uint32(b[67:]))
	}
	root := (uint64(le.Uint16(b[17:]))*32 + uint64(sector) - 1) / uint64(sector)
	used := reserved + fats*fatSectors + root
	if fatSectors == 0 || used >= fs.Sectors {
		return fs, false
	}
	fs.Clusters = (fs.Sectors - used) / uint64(perCluster)
	return fs, true
}

// Errors of MakeNTFS that callers distinguish.
var (
	ErrTooSmall = errors.New("volume too small")
	ErrCluster  = errors.New("unsupported cluster size")
)

// MinNTFS is the smallest volume that MakeNTFS formats, in bytes. Windows has a
// similar minimum; its exact value is not documented.
const MinNTFS = 4 << 20

// DefaultCluster returns the cluster size in bytes that Windows chooses for an
// NTFS volume of size bytes (Microsoft: "Default cluster size for NTFS").
func DefaultCluster(size uint64, sector uint32) uint32 {
	cluster := uint32(4096)
	for limit := uint64(16 << 40); size > limit && cluster < 64<<10; limit *= 2 {
		cluster *= 2
	}
	return max(cluster, sector)
}

// firstRecords is how many MFT records MakeNTFS writes: those of the files that
// every NTFS has, up to that of the volume ($Volume is number 3).
const (
	firstRecords = 4
	volumeRecord = 3
)

// MakeNTFS returns a new NTFS of size bytes. hidden is the number of sectors
// before the volume on its disk. The writes lie inside size, in ascending order;
// the rest of the volume keeps its content, as with a quick format.
func MakeNTFS(size uint64, sector, cluster uint32, hidden uint32, serial uint64, label string) (fs FileSystem, writes []Write, err error) {
	if cluster == 0 {
		cluster = DefaultCluster(size, sector)
	}
	// 2 MiB since Windows Server 2019 (Microsoft: format, /a).
	if !powerOfTwo(cluster, max(512, sector), 2<<20) {
		return fs, nil, fmt.Errorf("%w: %d bytes, want a power of 2 from the sector size (%d) to 2 MiB", ErrCluster, cluster, sector)
	}
	sectors := size / uint64(sector)
	// The last sector holds the backup of the boot sector and is not part of a
	// cluster.
	clusters := (sectors - min(sectors, 1)) / uint64(cluster/sector)
	if size < MinNTFS || clusters < 64 {
		return fs, nil, fmt.Errorf("%w: %d bytes with clusters of %d", ErrTooSmall, size, cluster)
	}
	if clusters > 1<<32-1 {
		return fs, nil, fmt.Errorf("%w: %d bytes need more than 2^32-1 clusters of %d", ErrCluster, size, cluster)
	}
	record := max(1024, sector)
	mirror := max(2, 8192/uint64(cluster))
	mft := max(mirror+max(1, uint64(record)*firstRecords/uint64(cluster)), min(0xC0000, clusters/3))

	b := make([]byte, sector)
	copy(b, "\xEB\x52\x90NTFS    ")
	le.PutUint16(b[11:], uint16(sector))
	b[13] = perCluster(cluster / sector)
	b[21] = 0xF8 // fixed disk
	le.PutUint16(b[24:], 63)
	le.PutUint16(b[26:], 255)
	le.PutUint32(b[28:], hidden)
	le.PutUint32(b[36:], 0x00800080)
	le.PutUint64(b[40:], sectors-1)
	le.PutUint64(b[48:], mft)
	le.PutUint64(b[56:], mirror)
	b[64] = recordSize(record, cluster)
	b[68] = recordSize(4096, cluster)
	le.PutUint64(b[72:], serial)
	b[510], b[511] = 0x55, 0xAA
	fs, ok := Recognize(b)
	if !ok {
		return fs, nil, fmt.Errorf("%w: %d bytes with clusters of %d", ErrTooSmall, size, cluster)
	}

	table := make([]byte, 0, firstRecords*int(record))
	for i := range uint32(firstRecords) {
		var attrs []byte
		if i == volumeRecord {
			attrs = append(attribute(0x60, 0, utf16Bytes(label)), attribute(0x70, 1, volumeInformation())...)
		}
		table = append(table, fileRecord(i, record, attrs)...)
	}
	// The boot file is 8 KiB; only its first sector has content.
	start := make([]byte, 8192)
	copy(start, b)
	return fs, []Write{
		{0, start},
		{mirror * uint64(cluster), table},
		{fs.MFT, table},
		{(sectors - 1) * uint64(sector), b},
	}, nil
}

func perCluster(sectors uint32) byte {
	if sectors <= 128 {
		return byte(sectors)
	}
	return byte(256 - bits.TrailingZeros32(sectors))
}

// recordSize returns a size in clusters or, below one cluster, a negative power
// of two.
func recordSize(size, cluster uint32) byte {
	if size >= cluster {
		return byte(size / cluster)
	}
	return byte(256 - bits.TrailingZeros32(size))
}

// fileRecord returns one MFT record in use, with its update sequence applied.
func fileRecord(number, size uint32, attrs []byte) []byte {
	b := make([]byte, size)
	strides := size / 512
	copy(b, "FILE")
	le.PutUint16(b[4:], 48) // update sequence array
	le.PutUint16(b[6:], uint16(strides+1))
	le.PutUint16(b[16:], 1)                             // sequence number
	le.PutUint16(b[18:], 1)                             // links
	first := (48 + 2*(strides+1) + 7) / 8 * 8           // attributes
	le.PutUint16(b[20:], uint16(first))                 //
	le.PutUint16(b[22:], 1)                             // in use
	copy(b[first:], attrs)                              //
	le.PutUint32(b[int(first)+len(attrs):], ^uint32(0)) // end of attributes
	le.PutUint32(b[24:], first+uint32(len(attrs))+8)
	le.PutUint32(b[28:], size)
	le.PutUint16(b[40:], 2) // next attribute number
	le.PutUint32(b[44:], number)
	le.PutUint16(b[48:], 1) // update sequence number
	for i := range strides {
		end := b[(i+1)*512-2:]
		copy(b[50+2*i:52+2*i], end[:2])
		le.PutUint16(end, 1)
	}
	return b
}

// attribute returns a resident, unnamed attribute.
func attribute(kind uint32, number uint16, value []byte) []byte {
	b := make([]byte, (24+len(value)+7)/8*8)
	le.PutUint32(b, kind)
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint16(b[14:], number)
	le.PutUint32(b[16:], uint32(len(value)))
	le.PutUint16(b[20:], 24)
	copy(b[24:], value)
	return b
}

// volumeInformation is the attribute value for a clean NTFS 3.1.
func volumeInformation() []byte { return []byte{0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0} }

// MaxLabel is the longest label of an NTFS volume, in UTF-16 units.
const MaxLabel = 32

func utf16Bytes(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = le.AppendUint16(b, u)
	}
	return b
}

// Label reads the label of the NTFS fs on volume. It returns "" if the $Volume
// record cannot be read.
func Label(volume io.ReaderAt, fs FileSystem) string {
	if fs.Kind != NTFS {
		return ""
	}
	b := make([]byte, fs.RecordSize)
	if _, err := volume.ReadAt(b, int64(fs.MFT+volumeRecord*uint64(fs.RecordSize))); err != nil || !bytes.HasPrefix(b, []byte("FILE")) {
		return ""
	}
	for at := int(le.Uint16(b[20:])); at+24 <= len(b); {
		kind, size := le.Uint32(b[at:]), int(le.Uint32(b[at+4:]))
		if kind == ^uint32(0) || size < 24 || size > len(b)-at {
			return ""
		}
		if kind == 0x60 && b[at+8] == 0 {
			n, off := int(le.Uint32(b[at+16:])), int(le.Uint16(b[at+20:]))
			if off+n > size || n > 2*MaxLabel {
				return ""
			}
			units := make([]uint16, n/2)
			for i := range units {
				units[i] = le.Uint16(b[at+off+2*i:])
			}
			return string(utf16.Decode(units))
		}
		at += size
	}
	return ""
}

// GrowNTFS returns the changes that extend the NTFS fs to sectors, including the
// sector of the backup. boot is its boot sector; GrowNTFS does not change it.
func GrowNTFS(boot []byte, fs FileSystem, sectors uint64) (FileSystem, []Write) {
	b := bytes.Clone(boot)
	le.PutUint64(b[40:], sectors-1)
	oldBackup := fs.Sectors * uint64(fs.BytesPerSector)
	fs.Sectors = sectors - 1
	fs.Clusters = fs.Sectors * uint64(fs.BytesPerSector) / uint64(fs.BytesPerCluster)
	return fs, []Write{
		{0, b},
		{oldBackup, make([]byte, fs.BytesPerSector)},
		{fs.Sectors * uint64(fs.BytesPerSector), b},
	}
}

// MakeFAT32 returns the start of an empty FAT32 of size bytes, as on an EFI
// system partition.
func MakeFAT32(size uint64, sector uint32, hidden uint32, serial uint32) []Write {
	sectors := uint32(min(size/uint64(sector), 1<<32-1))
	perCluster := uint32(1)
	for sectors/perCluster > 1<<21 && perCluster < 128 {
		perCluster *= 2
	}
	const reserved = 32
	fatSectors := (sectors/perCluster*4 + sector - 1) / sector
	b := make([]byte, sector)
	copy(b, "\xEB\x58\x90MSDOS5.0")
	le.PutUint16(b[11:], uint16(sector))
	b[13] = byte(perCluster)
	le.PutUint16(b[14:], reserved)
	b[16] = 2
	b[21] = 0xF8
	le.PutUint16(b[24:], 63)
	le.PutUint16(b[26:], 255)
	le.PutUint32(b[28:], hidden)
	le.PutUint32(b[32:], sectors)
	le.PutUint32(b[36:], fatSectors)
	le.PutUint32(b[44:], 2) // root directory
	le.PutUint16(b[48:], 1) // FSInfo
	le.PutUint16(b[50:], 6) // backup
	b[64], b[66] = 0x80, 0x29
	le.PutUint32(b[67:], serial)
	copy(b[71:], "NO NAME    FAT32   ")
	b[510], b[511] = 0x55, 0xAA

	info := make([]byte, sector)
	copy(info, "RRaA")
	copy(info[484:], "rrAa")
	le.PutUint32(info[488:], ^uint32(0))
	le.PutUint32(info[492:], ^uint32(0))
	info[510], info[511] = 0x55, 0xAA

	table := make([]byte, sector)
	le.PutUint32(table, 0x0FFFFFF8)
	le.PutUint32(table[4:], 0x0FFFFFFF)
	le.PutUint32(table[8:], 0x0FFFFFFF)
	s := uint64(sector)
	return []Write{
		{0, b},
		{s, info},
		{6 * s, b},
		{reserved * s, table},
		{(reserved + uint64(fatSectors)) * s, table},
		{(reserved + 2*uint64(fatSectors)) * s, make([]byte, s*uint64(perCluster))},
	}
}
