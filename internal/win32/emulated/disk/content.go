package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// content writes the content of a new disk. It adds the configured drive letters
// of the partitions to letters, by partition key.
func (n *Disks) content(t *kernel.Tx, d *Disk, c nodespec.Disk, letters map[string]string) (win32.Layout, error) {
	geometry := d.Geometry()
	parts := c.Partitions
	l := win32.Layout{Style: win32.PARTITION_STYLE_RAW}
	switch c.Content {
	case "", nodespec.ContentBlank:
		return l, nil
	case nodespec.ContentSuperfloppy:
		first, err := n.MakeNTFS(t, d, 0, d.Size, 0, "")
		if err != nil {
			return l, err
		}
		return ptable.Read(strings.NewReader(string(first)+strings.Repeat("\x00", int(d.Sector))), geometry)
	case nodespec.ContentMBR:
		guid, err := n.NewGUID()
		if err != nil {
			return l, err
		}
		l = win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: guid.Data1}
	case nodespec.ContentGPT, nodespec.ContentGPTNoMSR, nodespec.ContentSystem:
		guid, err := n.NewGUID()
		if err != nil {
			return l, err
		}
		if l, err = ptable.NewGPT(geometry, guid); err != nil {
			return l, err
		}
		if c.Content == nodespec.ContentGPT {
			msr, err := n.reserved(l, geometry)
			if err != nil {
				return l, err
			}
			l.Partitions = append(l.Partitions, msr)
		}
		if c.Content == nodespec.ContentSystem {
			parts = []nodespec.Partition{{Size: 100 * mib, Type: "esp", FileSystem: "FAT32"}, {Size: 16 * mib, Type: "msr"}, {Type: "basic", FileSystem: "NTFS", Letter: "C"}}
		}
	}
	at := uint64(mib)
	for i, pc := range parts {
		p, err := n.partition(l, pc, at, geometry)
		if err != nil {
			return l, fmt.Errorf("partition %d: %w", i, err)
		}
		l.Partitions = append(l.Partitions, p)
		at = p.Offset + p.Length
		switch strings.ToUpper(pc.FileSystem) {
		case "":
		case "FAT32":
			guid, err := n.NewGUID()
			if err != nil {
				return l, err
			}
			for _, w := range bootsector.MakeFAT32(p.Length, d.Sector, uint32(p.Offset/uint64(d.Sector)), guid.Data1) {
				t.WriteImage(d.ID, p.Offset+w.Offset, w.Data)
			}
		case "NTFS":
			if len(win32.UTF16(pc.Label)) > bootsector.MaxLabel {
				return l, fmt.Errorf("partition %d: label %q, want at most %d characters", i, pc.Label, bootsector.MaxLabel)
			}
			if _, err := n.MakeNTFS(t, d, p.Offset, p.Length, 0, pc.Label); err != nil {
				return l, fmt.Errorf("partition %d: %w", i, err)
			}
		default:
			return l, fmt.Errorf("partition %d: file system %q, want NTFS or FAT32", i, pc.FileSystem)
		}
		if pc.Letter != "" {
			key := PartitionKey(l, p)
			if key == "" {
				return l, fmt.Errorf("partition %d has a drive letter, but no volume", i)
			}
			letters[key] = pc.Letter
		}
	}
	if !ptable.Fits(l, geometry) {
		return l, fmt.Errorf("the partitions do not fit the disk of %d bytes, overlap, or have a wrong type", c.Size)
	}
	for _, w := range ptable.Encode(l, geometry, nil) {
		t.WriteImage(d.ID, w.Offset, w.Data)
	}
	return ptable.Normal(l, geometry), nil
}

// partition returns the partition that c describes, at the first free offset from
// at on.
func (n *Disks) partition(l win32.Layout, c nodespec.Partition, at uint64, geometry ptable.Disk) (win32.Partition, error) {
	for _, p := range l.Partitions {
		at = max(at, p.Offset+p.Length)
	}
	at = (at + mib - 1) / mib * mib
	end := geometry.Size
	if l.Style == win32.PARTITION_STYLE_GPT {
		end = l.UsableOffset + l.UsableLength
	}
	end = end / mib * mib
	if at >= end {
		return win32.Partition{}, errors.New("the disk is full")
	}
	length := uint64(c.Size)
	if length == 0 {
		length = end - at
	}
	length = (length + mib - 1) / mib * mib
	if length > end-at {
		return win32.Partition{}, fmt.Errorf("%d bytes do not fit: only %d are left", length, end-at)
	}
	p := win32.Partition{Style: l.Style, Offset: at, Length: length}
	if l.Style == win32.PARTITION_STYLE_MBR {
		if c.Type != "" && c.Type != "basic" {
			return p, fmt.Errorf("type %q on an MBR disk, want basic", c.Type)
		}
		p.MBRType, p.Recognized = 0x07, true
		return p, nil
	}
	id, err := n.NewGUID()
	if err != nil {
		return p, err
	}
	p.ID = id
	switch c.Type {
	case "", "basic":
		p.Type, p.Name = win32.PARTITION_BASIC_DATA_GUID, "Basic data partition"
	case "esp":
		p.Type, p.Name = win32.PARTITION_SYSTEM_GUID, "EFI system partition"
	case "msr":
		p.Type, p.Name = win32.PARTITION_MSFT_RESERVED_GUID, "Microsoft reserved partition"
	case "recovery":
		p.Type = win32.PARTITION_MSFT_RECOVERY_GUID
	case "ldmData":
		p.Type = win32.PARTITION_LDM_DATA_GUID
	case "ldmMetadata":
		p.Type = win32.PARTITION_LDM_METADATA_GUID
	case "spaces":
		p.Type = win32.PARTITION_SPACES_GUID
	default:
		return p, fmt.Errorf("type %q, want basic, esp, msr, recovery, ldmData, ldmMetadata or spaces", c.Type)
	}
	if c.Letter == "" {
		p.Attributes = win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER
	}
	return p, nil
}

// PartitionKey identifies a partition on its disk, so that its volume keeps its
// name when the disk is attached again. It returns "" for a partition without a
// volume.
//
// The reserved partition and those of LDM and storage spaces have no volume. The
// others have one (mountvol lists system and recovery partitions too), except for
// unknown types.
func PartitionKey(table win32.Layout, p win32.Partition) string {
	if !ptable.InUse(p) {
		return ""
	}
	if table.Style == win32.PARTITION_STYLE_GPT {
		switch p.Type {
		case win32.PARTITION_BASIC_DATA_GUID, win32.PARTITION_SYSTEM_GUID, win32.PARTITION_MSFT_RECOVERY_GUID:
			return p.ID.String()
		}
		return ""
	}
	if !p.Recognized {
		return ""
	}
	return fmt.Sprintf("mbr-%08x-%x", table.Signature, p.Offset)
}

// PlanNTFS returns what a format writes to the range of a disk.
func (n *Disks) PlanNTFS(d *Disk, off, length uint64, cluster uint32, serial uint64, label string) (fs bootsector.FileSystem, writes []bootsector.Write, err error) {
	fs, writes, err = bootsector.MakeNTFS(length, d.Sector, cluster, uint32(off/uint64(d.Sector)), serial, label)
	switch {
	case errors.Is(err, bootsector.ErrTooSmall):
		// Source: program, winutils-rs has "volume too small" of fmifs.dll; the number is
		// inference.
		return fs, nil, win32.ERROR_DISK_FULL
	case err != nil:
		// Source: program, winutils-rs has "cluster size is impossible" of fmifs.dll; the number
		// is inference.
		return fs, nil, win32.ERROR_INVALID_PARAMETER
	}
	return fs, writes, nil
}

// MakeNTFS writes a new file system to a range of a disk and returns its first
// sector. Its file tree is created when the file system is first detected.
func (n *Disks) MakeNTFS(t *kernel.Tx, d *Disk, off, length uint64, cluster uint32, label string) (first []byte, err error) {
	serial, err := n.NewSerial()
	if err != nil {
		return nil, err
	}
	_, writes, err := n.PlanNTFS(d, off, length, cluster, serial, label)
	if err != nil {
		return nil, err
	}
	for _, w := range writes {
		t.WriteImage(d.ID, off+w.Offset, w.Data)
	}
	return writes[0].Data[:d.Sector], nil
}

// NewSerial returns the serial number of a new file system.
func (n *Disks) NewSerial() (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(n.Rand, b[:]); err != nil {
		return 0, fmt.Errorf("serial number: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}
