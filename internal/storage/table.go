package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

const (
	mbrSize   = 512
	mbrTable  = 440 // where the disk's signature is, and then the entries
	entrySize = 128 // of a GPT
	maxArray  = 128 << 10
)

// maskTable overwrites what was seen of the partition table of this disk with zeros:
//
//   - the signature and the entries in the first sector, if it is an MBR of a disk that has a
//     table. The boot code in front of them is content only if it is of a known kind;
//   - the header and the entries of a GPT that is where its header says, has the checksum that
//     its header says, and is of this disk: it has its GUID, or an entry with the GUID of one
//     of its partitions, or one that begins where a partition of the same type does. The
//     identity of a copy is not that of the disk that it is a copy of;
//   - entries of the table's partitions elsewhere, whose header was not seen.
func (d *Disk) maskTable(ctx context.Context, k Look, s *seen) error {
	if b := s.bytes(0, mbrSize); b != nil && !Uninitialized(k.Table) && k.Table.Style != win32.PARTITION_STYLE_RAW && plausibleMBR(b) {
		clear(b[mbrTable:])
		if first := (view{&seen{kinds: s.kinds, pieces: []piece{{0, b}}}, Area{0, mbrSize}, false}); first.kind() == "" {
			clear(b)
		}
	}
	headers := 0
	for _, p := range s.pieces {
		for i := uint64(0); i+mbrSize <= uint64(len(p.b)); i += mbrSize {
			sector := p.b[i : i+mbrSize]
			if !bytes.HasPrefix(sector, []byte("EFI PART")) || headers == maxHeaders {
				continue
			}
			headers++
			if err := d.maskGPT(ctx, k, s, p.at+i, sector); err != nil {
				return err
			}
		}
	}
	for _, p := range s.pieces {
		for i := 0; i+entrySize <= len(p.b); i += entrySize {
			if entry := p.b[i : i+entrySize]; k.owns(entry) {
				clear(entry)
			}
		}
	}
	return nil
}

// maskGPT overwrites a header at a place of the disk and its entries if they are of the disk.
func (d *Disk) maskGPT(ctx context.Context, k Look, s *seen, at uint64, header []byte) error {
	sector := uint64(k.Sector)
	own := binary.LittleEndian.Uint64(header[24:])
	from, count, size := binary.LittleEndian.Uint64(header[72:]), binary.LittleEndian.Uint32(header[80:]), binary.LittleEndian.Uint32(header[84:])
	length := uint64(count) * uint64(size)
	if sector == 0 || own != at/sector || at%sector != 0 || size != entrySize || count == 0 || length > maxArray || from > k.Size/sector || from*sector+length > k.Size {
		return nil
	}
	array := make([]byte, (length+page-1)/page*page)
	array = array[:min(uint64(len(array)), k.Size-from*sector)]
	if err := d.readAt(ctx, array, from*sector); err != nil {
		return err
	}
	array = array[:length]
	ours := k.Table.Style == win32.PARTITION_STYLE_GPT && win32.GUIDFromBytes(header[56:72]) == k.Table.DiskID
	if crc32.ChecksumIEEE(array) != binary.LittleEndian.Uint32(header[88:]) {
		if ours {
			clear(header) // and what is in the array besides entries is content
		}
		return nil
	}
	for i := 0; i+entrySize <= len(array) && !ours; i += entrySize {
		ours = k.owns(array[i : i+entrySize])
	}
	if ours {
		clear(header)
		s.erase(Area{from * sector, length})
	}
	return nil
}

// owns reports whether b is the entry of a partition that the disk has: it has its GUID, or
// its type and its first byte.
func (k Look) owns(b []byte) bool {
	if k.Table.Style != win32.PARTITION_STYLE_GPT || blank(b[:16]) {
		return false
	}
	kind, id, first := win32.GUIDFromBytes(b[:16]), win32.GUIDFromBytes(b[16:32]), binary.LittleEndian.Uint64(b[32:])
	for _, p := range Used(k.Table) {
		if p.ID == id && !id.IsZero() {
			return true
		}
	}
	// Every disk of Windows has a reserved partition in the same place.
	for _, p := range Partitions(k.Table) {
		if p.Type == kind && first > 0 && first == p.Offset/uint64(k.Sector) {
			return true
		}
	}
	return false
}

// plausibleMBR reports whether a sector ends like an MBR and has entries that one may have.
func plausibleMBR(b []byte) bool {
	if string(b[510:512]) != "\x55\xaa" {
		return false
	}
	for i := 446; i < 510; i += 16 {
		e := b[i : i+16]
		status, kind, sectors := e[0], e[4], binary.LittleEndian.Uint32(e[12:])
		if status != 0 && status != 0x80 || (kind == 0) != (sectors == 0) {
			return false
		}
	}
	return true
}

// plausibleBoot reports whether a sector ends like the boot sector of a file system and begins
// with a jump and a size of sectors.
func plausibleBoot(b []byte) bool {
	size := binary.LittleEndian.Uint16(b[11:])
	return string(b[510:512]) == "\x55\xaa" && (b[0] == 0xeb && b[2] == 0x90 || b[0] == 0xe9) && size >= 512 && size <= 4096 && size&(size-1) == 0
}
