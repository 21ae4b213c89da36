package win32

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrLayout means that bytes from Windows, a driver or a caller contradict their
// own lengths and offsets.
var ErrLayout = errors.New("malformed buffer")

func short(what string, have, want int) error {
	return fmt.Errorf("%s: %w: %d bytes, want at least %d", what, ErrLayout, have, want)
}

var le = binary.LittleEndian

// utf16At reads n bytes of UTF-16 at off. The caller has checked the bounds.
func utf16At(b []byte, off, n int) string {
	u := make([]uint16, n/2)
	for i := range u {
		u[i] = le.Uint16(b[off+2*i:])
	}
	return FromUTF16(u)
}

func appendUTF16(b []byte, s string) []byte {
	for _, u := range UTF16(s) {
		b = le.AppendUint16(b, u)
	}
	return b
}

// cString reads a NUL-terminated string of single bytes at off. Without a NUL it
// ends at the end of b.
func cString(b []byte, off int) string {
	end := off
	for end < len(b) && b[end] != 0 {
		end++
	}
	return string(b[off:end])
}

// DeviceNumber is STORAGE_DEVICE_NUMBER.
type DeviceNumber struct {
	DeviceType      uint32 // FILE_DEVICE_DISK for a disk
	DeviceNumber    uint32 // the N of PhysicalDriveN; 0xFFFFFFFF if the device has none
	PartitionNumber uint32 // 0 for the whole disk, 0xFFFFFFFF for a device without partitions
}

// SizeofDeviceNumber is sizeof(STORAGE_DEVICE_NUMBER).
const SizeofDeviceNumber = 12

// Encode returns the structure in Windows' layout.
func (d DeviceNumber) Encode() []byte {
	b := le.AppendUint32(nil, d.DeviceType)
	b = le.AppendUint32(b, d.DeviceNumber)
	return le.AppendUint32(b, d.PartitionNumber)
}

// DecodeDeviceNumber reads a STORAGE_DEVICE_NUMBER.
func DecodeDeviceNumber(b []byte) (DeviceNumber, error) {
	if len(b) < SizeofDeviceNumber {
		return DeviceNumber{}, short("STORAGE_DEVICE_NUMBER", len(b), SizeofDeviceNumber)
	}
	return DeviceNumber{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])}, nil
}

// PropertyQuery is STORAGE_PROPERTY_QUERY for a standard query.
type PropertyQuery struct {
	PropertyID uint32
	QueryType  uint32 // 0 PropertyStandardQuery
}

// SizeofPropertyQuery is sizeof(STORAGE_PROPERTY_QUERY).
const SizeofPropertyQuery = 12

// Encode returns the structure in Windows' layout.
func (q PropertyQuery) Encode() []byte {
	b := make([]byte, SizeofPropertyQuery)
	le.PutUint32(b, q.PropertyID)
	le.PutUint32(b[4:], q.QueryType)
	return b
}

// DecodePropertyQuery reads a STORAGE_PROPERTY_QUERY.
func DecodePropertyQuery(b []byte) (PropertyQuery, error) {
	if len(b) < SizeofPropertyQuery {
		return PropertyQuery{}, short("STORAGE_PROPERTY_QUERY", len(b), SizeofPropertyQuery)
	}
	return PropertyQuery{le.Uint32(b), le.Uint32(b[4:])}, nil
}

// DescriptorSize returns the Size field with which all STORAGE_…_DESCRIPTOR
// structures begin (STORAGE_DESCRIPTOR_HEADER): how many bytes the whole
// descriptor needs.
func DescriptorSize(b []byte) (uint32, error) {
	if len(b) < 8 {
		return 0, short("STORAGE_DESCRIPTOR_HEADER", len(b), 8)
	}
	return le.Uint32(b[4:]), nil
}

// DeviceDescriptor is STORAGE_DEVICE_DESCRIPTOR. Strings are as the device
// reports them, with blanks.
type DeviceDescriptor struct {
	Removable                 bool
	BusType                   uint32
	Vendor, Product, Revision string
	SerialNumber              string
}

const sizeofDeviceDescriptor = 40

// Encode returns the structure in Windows' layout, followed by the strings. An
// empty string has offset 0.
func (d DeviceDescriptor) Encode() []byte {
	b := make([]byte, sizeofDeviceDescriptor)
	le.PutUint32(b, sizeofDeviceDescriptor)
	if d.Removable {
		b[10] = 1
	}
	le.PutUint32(b[28:], d.BusType)
	put := func(field int, s string) {
		if s != "" {
			le.PutUint32(b[field:], uint32(len(b)))
			b = append(append(b, s...), 0)
		}
	}
	put(12, d.Vendor)
	put(16, d.Product)
	put(20, d.Revision)
	put(24, d.SerialNumber)
	le.PutUint32(b[4:], uint32(len(b)))
	return b
}

// DecodeDeviceDescriptor reads a STORAGE_DEVICE_DESCRIPTOR. A string with offset
// 0 or an offset outside b is empty.
func DecodeDeviceDescriptor(b []byte) (DeviceDescriptor, error) {
	if len(b) < sizeofDeviceDescriptor-4 {
		return DeviceDescriptor{}, short("STORAGE_DEVICE_DESCRIPTOR", len(b), sizeofDeviceDescriptor-4)
	}
	str := func(field int) string {
		off := le.Uint32(b[field:])
		if off < 36 || uint64(off) >= uint64(len(b)) {
			return ""
		}
		return cString(b, int(off))
	}
	return DeviceDescriptor{
		Removable: b[10] != 0,
		BusType:   le.Uint32(b[28:]),
		Vendor:    str(12), Product: str(16), Revision: str(20), SerialNumber: str(24),
	}, nil
}

// Identifier is STORAGE_IDENTIFIER, one entry of the SCSI device identification
// page 83h.
type Identifier struct {
	CodeSet     uint32 // StorageIdCodeSet…
	Type        uint32 // StorageIdType…
	Association uint32 // StorageIdAssoc…
	ID          []byte
}

const (
	sizeofDeviceIDDescriptor = 12
	sizeofIdentifier         = 16
)

// EncodeIdentifiers returns a STORAGE_DEVICE_ID_DESCRIPTOR of ids, each aligned
// to 4 bytes. The NextOffset of the last one is 0.
func EncodeIdentifiers(ids []Identifier) []byte {
	b := make([]byte, sizeofDeviceIDDescriptor)
	le.PutUint32(b, sizeofDeviceIDDescriptor)
	le.PutUint32(b[8:], uint32(len(ids)))
	for i, id := range ids {
		at := len(b)
		b = le.AppendUint32(b, id.CodeSet)
		b = le.AppendUint32(b, id.Type)
		b = le.AppendUint16(b, uint16(len(id.ID)))
		b = le.AppendUint16(b, 0)
		b = le.AppendUint32(b, id.Association)
		b = append(b, id.ID...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		if i < len(ids)-1 {
			le.PutUint16(b[at+10:], uint16(len(b)-at))
		}
	}
	le.PutUint32(b[4:], uint32(len(b)))
	return b
}

// DecodeIdentifiers reads a STORAGE_DEVICE_ID_DESCRIPTOR. Its sizes and offsets
// come from the device and cannot be trusted. At an entry that does not fit into
// b, DecodeIdentifiers returns the entries before it and ErrLayout. NextOffset 0
// ends the list.
func DecodeIdentifiers(b []byte) ([]Identifier, error) {
	if len(b) < sizeofDeviceIDDescriptor {
		return nil, short("STORAGE_DEVICE_ID_DESCRIPTOR", len(b), sizeofDeviceIDDescriptor)
	}
	var ids []Identifier
	at := sizeofDeviceIDDescriptor
	for n := le.Uint32(b[8:]); n > 0; n-- {
		if len(b)-at < sizeofIdentifier {
			return ids, short("STORAGE_IDENTIFIER", len(b)-at, sizeofIdentifier)
		}
		size := int(le.Uint16(b[at+8:]))
		if len(b)-at-sizeofIdentifier < size {
			return ids, short("STORAGE_IDENTIFIER.Identifier", len(b)-at-sizeofIdentifier, size)
		}
		ids = append(ids, Identifier{
			CodeSet:     le.Uint32(b[at:]),
			Type:        le.Uint32(b[at+4:]),
			Association: le.Uint32(b[at+12:]),
			ID:          append([]byte(nil), b[at+16:at+16+size]...),
		})
		next := int(le.Uint16(b[at+10:]))
		if next == 0 {
			break
		}
		at += next
		if at > len(b) {
			return ids, short("STORAGE_IDENTIFIER.NextOffset", len(b), at)
		}
	}
	return ids, nil
}

const sizeofLocationDescriptor = 36

// EncodeLocation returns a STORAGE_DEVICE_LOCATION_DESCRIPTOR with text as its
// location string.
func EncodeLocation(text string) []byte {
	b := make([]byte, sizeofLocationDescriptor)
	le.PutUint32(b, sizeofLocationDescriptor)
	le.PutUint32(b[32:], sizeofLocationDescriptor)
	b = append(append(b, text...), 0)
	le.PutUint32(b[4:], uint32(len(b)))
	return b
}

// DecodeLocation reads the location string of a
// STORAGE_DEVICE_LOCATION_DESCRIPTOR. It returns "" if there is none.
func DecodeLocation(b []byte) (string, error) {
	if len(b) < sizeofLocationDescriptor {
		return "", short("STORAGE_DEVICE_LOCATION_DESCRIPTOR", len(b), sizeofLocationDescriptor)
	}
	off := le.Uint32(b[32:])
	if off == 0 {
		return "", nil
	}
	if off < sizeofLocationDescriptor || uint64(off) >= uint64(len(b)) {
		return "", fmt.Errorf("STORAGE_DEVICE_LOCATION_DESCRIPTOR: %w: string at %d of %d bytes", ErrLayout, off, len(b))
	}
	return cString(b, int(off)), nil
}

// SCSIAddress is SCSI_ADDRESS.
type SCSIAddress struct{ Port, Path, Target, Lun uint8 }

// Encode returns the structure in Windows' layout.
func (a SCSIAddress) Encode() []byte {
	return append(le.AppendUint32(nil, 8), a.Port, a.Path, a.Target, a.Lun)
}

// DecodeSCSIAddress reads a SCSI_ADDRESS.
func DecodeSCSIAddress(b []byte) (SCSIAddress, error) {
	if len(b) < 8 {
		return SCSIAddress{}, short("SCSI_ADDRESS", len(b), 8)
	}
	return SCSIAddress{b[4], b[5], b[6], b[7]}, nil
}

// EncodeLength returns GET_LENGTH_INFORMATION: the size of a disk or volume in
// bytes.
func EncodeLength(bytes uint64) []byte { return le.AppendUint64(nil, bytes) }

// DecodeLength reads GET_LENGTH_INFORMATION.
func DecodeLength(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, short("GET_LENGTH_INFORMATION", len(b), 8)
	}
	return le.Uint64(b), nil
}

// Geometry has the fields of DISK_GEOMETRY_EX that this project uses.
type Geometry struct {
	BytesPerSector uint32
	DiskSize       uint64 // bytes
}

// SizeofGeometry is sizeof(DISK_GEOMETRY_EX).
const SizeofGeometry = 40

// Encode returns DISK_GEOMETRY_EX with the usual 255 heads and 63 sectors.
func (g Geometry) Encode() []byte {
	b := make([]byte, SizeofGeometry)
	if g.BytesPerSector != 0 {
		le.PutUint64(b, g.DiskSize/(255*63*uint64(g.BytesPerSector)))
	}
	le.PutUint32(b[8:], 12) // FixedMedia
	le.PutUint32(b[12:], 255)
	le.PutUint32(b[16:], 63)
	le.PutUint32(b[20:], g.BytesPerSector)
	le.PutUint64(b[24:], g.DiskSize)
	return b
}

// DecodeGeometry reads DISK_GEOMETRY_EX.
func DecodeGeometry(b []byte) (Geometry, error) {
	if len(b) < 32 {
		return Geometry{}, short("DISK_GEOMETRY_EX", len(b), 32)
	}
	return Geometry{le.Uint32(b[20:]), le.Uint64(b[24:])}, nil
}

// CreateDisk is CREATE_DISK for a GPT with 128 entries.
type CreateDisk struct{ DiskID GUID }

// SizeofCreateDisk is sizeof(CREATE_DISK).
const SizeofCreateDisk = 24

// Encode returns the structure in Windows' layout.
func (c CreateDisk) Encode() []byte {
	b := le.AppendUint32(nil, PARTITION_STYLE_GPT)
	return le.AppendUint32(c.DiskID.AppendTo(b), gptEntries)
}

const gptEntries = 128

// DecodeCreateDisk reads a CREATE_DISK.
func DecodeCreateDisk(b []byte) (CreateDisk, error) {
	if len(b) < SizeofCreateDisk {
		return CreateDisk{}, short("CREATE_DISK", len(b), SizeofCreateDisk)
	}
	if style, entries := le.Uint32(b), le.Uint32(b[20:]); style != PARTITION_STYLE_GPT || entries != gptEntries {
		return CreateDisk{}, fmt.Errorf("CREATE_DISK: %w: style %d with %d entries, want a GPT with %d", ErrLayout, style, entries, gptEntries)
	}
	return CreateDisk{GUIDFromBytes(b[4:])}, nil
}

// Layout is DRIVE_LAYOUT_INFORMATION_EX: the partition table of a disk.
type Layout struct {
	Style uint32 // PARTITION_STYLE_…
	// GPT
	DiskID        GUID
	UsableOffset  uint64 // StartingUsableOffset, bytes
	UsableLength  uint64 // bytes
	MaxPartitions uint32
	// MBR
	Signature  uint32
	Partitions []Partition
}

// Partition is PARTITION_INFORMATION_EX, one entry of a Layout. Offset and
// Length are bytes.
type Partition struct {
	Style   uint32
	Offset  uint64
	Length  uint64
	Number  uint32 // from 1; 0 for an unused entry
	Rewrite bool   // when setting: this entry changed
	// GPT
	Type       GUID
	ID         GUID
	Attributes uint64
	Name       string // at most 36 UTF-16 units
	// MBR
	MBRType    uint8
	Active     bool
	Recognized bool
	Hidden     uint32 // HiddenSectors
}

// SizeofLayout and SizeofPartition: the size of a DRIVE_LAYOUT_INFORMATION_EX is
// SizeofLayout and SizeofPartition for each entry.
const (
	SizeofLayout    = 48
	SizeofPartition = 144
)

// Encode returns DRIVE_LAYOUT_INFORMATION_EX with exactly the entries of
// l.Partitions.
func (l Layout) Encode() []byte {
	b := make([]byte, SizeofLayout, SizeofLayout+SizeofPartition*len(l.Partitions))
	le.PutUint32(b, l.Style)
	le.PutUint32(b[4:], uint32(len(l.Partitions)))
	switch l.Style {
	case PARTITION_STYLE_GPT:
		copy(b[8:], l.DiskID.AppendTo(nil))
		le.PutUint64(b[24:], l.UsableOffset)
		le.PutUint64(b[32:], l.UsableLength)
		le.PutUint32(b[40:], l.MaxPartitions)
	case PARTITION_STYLE_MBR:
		le.PutUint32(b[8:], l.Signature)
	}
	for _, p := range l.Partitions {
		b = append(b, p.encode()...)
	}
	return b
}

func (p Partition) encode() []byte {
	b := make([]byte, SizeofPartition)
	le.PutUint32(b, p.Style)
	le.PutUint64(b[8:], p.Offset)
	le.PutUint64(b[16:], p.Length)
	le.PutUint32(b[24:], p.Number)
	b[28] = flag(p.Rewrite)
	switch p.Style {
	case PARTITION_STYLE_GPT:
		copy(b[32:], p.Type.AppendTo(nil))
		copy(b[48:], p.ID.AppendTo(nil))
		le.PutUint64(b[64:], p.Attributes)
		copy(b[72:], appendUTF16(nil, p.Name))
	case PARTITION_STYLE_MBR:
		b[32] = p.MBRType
		b[33] = flag(p.Active)
		b[34] = flag(p.Recognized)
		le.PutUint32(b[36:], p.Hidden)
	}
	return b
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// DecodeLayout reads a DRIVE_LAYOUT_INFORMATION_EX. It fails with ErrLayout if b
// is too short for the entries.
func DecodeLayout(b []byte) (Layout, error) {
	if len(b) < SizeofLayout {
		return Layout{}, short("DRIVE_LAYOUT_INFORMATION_EX", len(b), SizeofLayout)
	}
	l := Layout{Style: le.Uint32(b)}
	switch l.Style {
	case PARTITION_STYLE_GPT:
		l.DiskID = GUIDFromBytes(b[8:])
		l.UsableOffset = le.Uint64(b[24:])
		l.UsableLength = le.Uint64(b[32:])
		l.MaxPartitions = le.Uint32(b[40:])
	case PARTITION_STYLE_MBR:
		l.Signature = le.Uint32(b[8:])
	case PARTITION_STYLE_RAW:
	default:
		return Layout{}, fmt.Errorf("DRIVE_LAYOUT_INFORMATION_EX: %w: partition style %d", ErrLayout, l.Style)
	}
	n := le.Uint32(b[4:])
	if uint64(n)*SizeofPartition > uint64(len(b)-SizeofLayout) {
		return Layout{}, fmt.Errorf("DRIVE_LAYOUT_INFORMATION_EX: %w: %d partitions in %d bytes", ErrLayout, n, len(b))
	}
	for i := range int(n) {
		p, err := decodePartition(b[SizeofLayout+i*SizeofPartition:])
		if err != nil {
			return Layout{}, err
		}
		l.Partitions = append(l.Partitions, p)
	}
	return l, nil
}

func decodePartition(b []byte) (Partition, error) {
	p := Partition{
		Style:   le.Uint32(b),
		Offset:  le.Uint64(b[8:]),
		Length:  le.Uint64(b[16:]),
		Number:  le.Uint32(b[24:]),
		Rewrite: b[28] != 0,
	}
	switch p.Style {
	case PARTITION_STYLE_GPT:
		p.Type = GUIDFromBytes(b[32:])
		p.ID = GUIDFromBytes(b[48:])
		p.Attributes = le.Uint64(b[64:])
		n := 0
		for n < 72 && (b[72+n] != 0 || b[73+n] != 0) {
			n += 2
		}
		p.Name = utf16At(b, 72, n)
	case PARTITION_STYLE_MBR:
		p.MBRType = b[32]
		p.Active = b[33] != 0
		p.Recognized = b[34] != 0
		p.Hidden = le.Uint32(b[36:])
	case PARTITION_STYLE_RAW:
	default:
		return Partition{}, fmt.Errorf("PARTITION_INFORMATION_EX: %w: partition style %d", ErrLayout, p.Style)
	}
	return p, nil
}

// GrowPartition is DISK_GROW_PARTITION.
type GrowPartition struct {
	Number uint32
	Delta  int64 // bytes to add
}

// SizeofGrowPartition is sizeof(DISK_GROW_PARTITION).
const SizeofGrowPartition = 16

// Encode returns the structure in Windows' layout.
func (g GrowPartition) Encode() []byte {
	b := make([]byte, SizeofGrowPartition)
	le.PutUint32(b, g.Number)
	le.PutUint64(b[8:], uint64(g.Delta))
	return b
}

// DecodeGrowPartition reads a DISK_GROW_PARTITION.
func DecodeGrowPartition(b []byte) (GrowPartition, error) {
	if len(b) < SizeofGrowPartition {
		return GrowPartition{}, short("DISK_GROW_PARTITION", len(b), SizeofGrowPartition)
	}
	return GrowPartition{le.Uint32(b), int64(le.Uint64(b[8:]))}, nil
}

// SizeofGetDiskAttributes and SizeofSetDiskAttributes are the sizes of
// GET_DISK_ATTRIBUTES and SET_DISK_ATTRIBUTES.
const (
	SizeofGetDiskAttributes = 16
	SizeofSetDiskAttributes = 40
)

// EncodeDiskAttributes returns GET_DISK_ATTRIBUTES with the DISK_ATTRIBUTE_ bits
// attrs.
func EncodeDiskAttributes(attrs uint64) []byte {
	b := make([]byte, SizeofGetDiskAttributes)
	le.PutUint32(b, SizeofGetDiskAttributes)
	le.PutUint64(b[8:], attrs)
	return b
}

// DecodeDiskAttributes reads the DISK_ATTRIBUTE_ bits of a GET_DISK_ATTRIBUTES.
func DecodeDiskAttributes(b []byte) (uint64, error) {
	if len(b) < SizeofGetDiskAttributes {
		return 0, short("GET_DISK_ATTRIBUTES", len(b), SizeofGetDiskAttributes)
	}
	return le.Uint64(b[8:]), nil
}

// SetDiskAttributes is SET_DISK_ATTRIBUTES. Its Version field is the size of the
// SET structure. (Microsoft's page says that of the GET structure, but working
// code uses 40.)
type SetDiskAttributes struct {
	Persist    bool // survives a restart
	Attributes uint64
	Mask       uint64 // the bits of Attributes to set
}

// Encode returns the structure in Windows' layout.
func (s SetDiskAttributes) Encode() []byte {
	b := make([]byte, SizeofSetDiskAttributes)
	le.PutUint32(b, SizeofSetDiskAttributes)
	b[4] = flag(s.Persist)
	le.PutUint64(b[8:], s.Attributes)
	le.PutUint64(b[16:], s.Mask)
	return b
}

// DecodeSetDiskAttributes reads a SET_DISK_ATTRIBUTES.
func DecodeSetDiskAttributes(b []byte) (SetDiskAttributes, error) {
	if len(b) < SizeofSetDiskAttributes {
		return SetDiskAttributes{}, short("SET_DISK_ATTRIBUTES", len(b), SizeofSetDiskAttributes)
	}
	if v := le.Uint32(b); v != SizeofSetDiskAttributes {
		return SetDiskAttributes{}, fmt.Errorf("SET_DISK_ATTRIBUTES: %w: version %d, want %d", ErrLayout, v, SizeofSetDiskAttributes)
	}
	return SetDiskAttributes{b[4] != 0, le.Uint64(b[8:]), le.Uint64(b[16:])}, nil
}

// Extent is DISK_EXTENT: the disk and the position, in bytes, of a part of a
// volume.
type Extent struct {
	Disk           uint32
	Offset, Length uint64
}

const (
	sizeofExtents = 8
	sizeofExtent  = 24
)

// EncodeExtents returns VOLUME_DISK_EXTENTS.
func EncodeExtents(es []Extent) []byte {
	b := make([]byte, sizeofExtents)
	le.PutUint32(b, uint32(len(es)))
	for _, e := range es {
		b = le.AppendUint64(b, uint64(e.Disk))
		b = le.AppendUint64(b, e.Offset)
		b = le.AppendUint64(b, e.Length)
	}
	return b
}

// DecodeExtents reads VOLUME_DISK_EXTENTS.
func DecodeExtents(b []byte) ([]Extent, error) {
	if len(b) < sizeofExtents {
		return nil, short("VOLUME_DISK_EXTENTS", len(b), sizeofExtents)
	}
	n := le.Uint32(b)
	if uint64(n)*sizeofExtent > uint64(len(b)-sizeofExtents) {
		return nil, fmt.Errorf("VOLUME_DISK_EXTENTS: %w: %d extents in %d bytes", ErrLayout, n, len(b))
	}
	es := make([]Extent, n)
	for i := range es {
		at := b[sizeofExtents+i*sizeofExtent:]
		es[i] = Extent{le.Uint32(at), le.Uint64(at[8:]), le.Uint64(at[16:])}
	}
	return es, nil
}

// NTFSVolumeData has the fields of NTFS_VOLUME_DATA_BUFFER that this project
// uses.
type NTFSVolumeData struct {
	Sectors         uint64
	TotalClusters   uint64
	FreeClusters    uint64
	BytesPerSector  uint32
	BytesPerCluster uint32
}

// SizeofNTFSVolumeData is sizeof(NTFS_VOLUME_DATA_BUFFER).
const SizeofNTFSVolumeData = 96

// Encode returns the structure in Windows' layout.
func (v NTFSVolumeData) Encode() []byte {
	b := make([]byte, SizeofNTFSVolumeData)
	le.PutUint64(b[8:], v.Sectors)
	le.PutUint64(b[16:], v.TotalClusters)
	le.PutUint64(b[24:], v.FreeClusters)
	le.PutUint32(b[40:], v.BytesPerSector)
	le.PutUint32(b[44:], v.BytesPerCluster)
	return b
}

// DecodeNTFSVolumeData reads an NTFS_VOLUME_DATA_BUFFER.
func DecodeNTFSVolumeData(b []byte) (NTFSVolumeData, error) {
	if len(b) < SizeofNTFSVolumeData {
		return NTFSVolumeData{}, short("NTFS_VOLUME_DATA_BUFFER", len(b), SizeofNTFSVolumeData)
	}
	return NTFSVolumeData{
		Sectors: le.Uint64(b[8:]), TotalClusters: le.Uint64(b[16:]), FreeClusters: le.Uint64(b[24:]),
		BytesPerSector: le.Uint32(b[40:]), BytesPerCluster: le.Uint32(b[44:]),
	}, nil
}

// EncodeSectors returns the input of FSCTL_EXTEND_VOLUME: the new total number of
// sectors of the volume.
func EncodeSectors(n int64) []byte { return le.AppendUint64(nil, uint64(n)) }

// DecodeSectors reads the input of FSCTL_EXTEND_VOLUME.
func DecodeSectors(b []byte) (int64, error) {
	if len(b) < 8 {
		return 0, short("FSCTL_EXTEND_VOLUME", len(b), 8)
	}
	return int64(le.Uint64(b)), nil
}

// Reparse is REPARSE_DATA_BUFFER of a mount point, junction or symbolic link.
type Reparse struct {
	Tag        uint32 // IO_REPARSE_TAG_MOUNT_POINT or IO_REPARSE_TAG_SYMLINK
	Substitute string // the NT name that Windows follows: `\??\Volume{…}\`, `\??\C:\dir`, or relative
	Print      string // the name shown to people
	Relative   bool   // a symbolic link whose Substitute is relative to its directory
}

// Encode returns the structure in Windows' layout.
func (r Reparse) Encode() []byte {
	names := 16
	if r.Tag == IO_REPARSE_TAG_SYMLINK {
		names = 20
	}
	b := make([]byte, names)
	le.PutUint32(b, r.Tag)
	sub, prt := appendUTF16(nil, r.Substitute), appendUTF16(nil, r.Print)
	gap := 0
	if r.Tag == IO_REPARSE_TAG_MOUNT_POINT {
		gap = 2 // mount points need both names NUL-terminated
	}
	le.PutUint16(b[10:], uint16(len(sub)))
	le.PutUint16(b[12:], uint16(len(sub)+gap))
	le.PutUint16(b[14:], uint16(len(prt)))
	if r.Tag == IO_REPARSE_TAG_SYMLINK && r.Relative {
		le.PutUint32(b[16:], SYMLINK_FLAG_RELATIVE)
	}
	b = append(append(b, sub...), make([]byte, gap)...)
	b = append(append(b, prt...), make([]byte, gap)...)
	le.PutUint16(b[4:], uint16(len(b)-8))
	return b
}

// DecodeReparse reads a REPARSE_DATA_BUFFER. For a tag that is neither a mount
// point nor a symbolic link, it reads the tag only.
func DecodeReparse(b []byte) (Reparse, error) {
	if len(b) < 8 {
		return Reparse{}, short("REPARSE_DATA_BUFFER", len(b), 8)
	}
	r := Reparse{Tag: le.Uint32(b)}
	names := 16
	switch r.Tag {
	case IO_REPARSE_TAG_SYMLINK:
		names = 20
	case IO_REPARSE_TAG_MOUNT_POINT:
	default:
		return r, nil
	}
	end := 8 + int(le.Uint16(b[4:]))
	if end > len(b) {
		return Reparse{}, short("REPARSE_DATA_BUFFER.ReparseDataLength", len(b), end)
	}
	if end < names {
		return Reparse{}, short("REPARSE_DATA_BUFFER", end, names)
	}
	name := func(field int) (string, error) {
		off, n := names+int(le.Uint16(b[field:])), int(le.Uint16(b[field+2:]))
		if off+n > end || n%2 != 0 {
			return "", fmt.Errorf("REPARSE_DATA_BUFFER: %w: name of %d bytes at %d of %d", ErrLayout, n, off, end)
		}
		return utf16At(b, off, n), nil
	}
	var err error
	if r.Substitute, err = name(8); err != nil {
		return Reparse{}, err
	}
	if r.Print, err = name(12); err != nil {
		return Reparse{}, err
	}
	if r.Tag == IO_REPARSE_TAG_SYMLINK {
		r.Relative = le.Uint32(b[16:])&SYMLINK_FLAG_RELATIVE != 0
	}
	return r, nil
}

// DirEntry is FILE_FULL_DIR_INFORMATION, one entry of a directory.
type DirEntry struct {
	Name       string
	Attributes uint32 // FILE_ATTRIBUTE_…
	ReparseTag uint32 // EaSize, which holds the tag when FILE_ATTRIBUTE_REPARSE_POINT is set ([MS-FSCC] 2.4.14)
	Size       int64  // EndOfFile, bytes
}

const sizeofDirEntry = 68

// AppendDirEntry appends e to a directory buffer and links the previous entry,
// which began at prev (-1 for none), to it. It returns where e begins.
func AppendDirEntry(b []byte, prev int, e DirEntry) (grown []byte, at int) {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	at = len(b)
	if prev >= 0 {
		le.PutUint32(b[prev:], uint32(at-prev))
	}
	b = append(b, make([]byte, sizeofDirEntry)...)
	le.PutUint64(b[at+40:], uint64(e.Size))
	le.PutUint64(b[at+48:], uint64(e.Size))
	le.PutUint32(b[at+56:], e.Attributes)
	le.PutUint32(b[at+64:], e.ReparseTag)
	b = appendUTF16(b, e.Name)
	le.PutUint32(b[at+60:], uint32(len(b)-at-sizeofDirEntry))
	return b, at
}

// DecodeDirectory reads the output of QueryDirectory.
func DecodeDirectory(b []byte) ([]DirEntry, error) {
	var es []DirEntry
	for at := 0; ; {
		if len(b)-at < sizeofDirEntry {
			return es, short("FILE_FULL_DIR_INFORMATION", len(b)-at, sizeofDirEntry)
		}
		n := int(le.Uint32(b[at+60:]))
		if n%2 != 0 || n < 0 || n > len(b)-at-sizeofDirEntry {
			return es, fmt.Errorf("FILE_FULL_DIR_INFORMATION: %w: name of %d bytes in %d", ErrLayout, n, len(b)-at)
		}
		e := DirEntry{
			Name:       utf16At(b, at+sizeofDirEntry, n),
			Attributes: le.Uint32(b[at+56:]),
			Size:       int64(le.Uint64(b[at+40:])),
		}
		if e.Attributes&FILE_ATTRIBUTE_REPARSE_POINT != 0 {
			e.ReparseTag = le.Uint32(b[at+64:])
		}
		es = append(es, e)
		next := int(le.Uint32(b[at:]))
		if next == 0 {
			return es, nil
		}
		if next < sizeofDirEntry || next > len(b)-at {
			return es, fmt.Errorf("FILE_FULL_DIR_INFORMATION: %w: next entry at +%d bytes, but %d are left", ErrLayout, next, len(b)-at)
		}
		at += next
	}
}

// AttributeTag is FILE_ATTRIBUTE_TAG_INFORMATION.
type AttributeTag struct{ Attributes, ReparseTag uint32 }

// SizeofAttributeTag is sizeof(FILE_ATTRIBUTE_TAG_INFORMATION).
const SizeofAttributeTag = 8

// Encode returns the structure in Windows' layout.
func (a AttributeTag) Encode() []byte {
	return le.AppendUint32(le.AppendUint32(nil, a.Attributes), a.ReparseTag)
}

// DecodeAttributeTag reads a FILE_ATTRIBUTE_TAG_INFORMATION.
func DecodeAttributeTag(b []byte) (AttributeTag, error) {
	if len(b) < SizeofAttributeTag {
		return AttributeTag{}, short("FILE_ATTRIBUTE_TAG_INFORMATION", len(b), SizeofAttributeTag)
	}
	return AttributeTag{le.Uint32(b), le.Uint32(b[4:])}, nil
}

// FileStandard is what this project reads of FILE_STANDARD_INFORMATION.
type FileStandard struct {
	EndOfFile     int64 // bytes
	Links         uint32
	DeletePending bool
	Directory     bool
}

// SizeofFileStandard is sizeof(FILE_STANDARD_INFORMATION).
const SizeofFileStandard = 24

// Encode returns the structure in Windows' layout.
func (f FileStandard) Encode() []byte {
	b := make([]byte, SizeofFileStandard)
	le.PutUint64(b, uint64(f.EndOfFile))
	le.PutUint64(b[8:], uint64(f.EndOfFile))
	le.PutUint32(b[16:], f.Links)
	b[20], b[21] = flag(f.DeletePending), flag(f.Directory)
	return b
}

// DecodeFileStandard reads a FILE_STANDARD_INFORMATION.
func DecodeFileStandard(b []byte) (FileStandard, error) {
	if len(b) < SizeofFileStandard {
		return FileStandard{}, short("FILE_STANDARD_INFORMATION", len(b), SizeofFileStandard)
	}
	return FileStandard{EndOfFile: int64(le.Uint64(b[8:])), Links: le.Uint32(b[16:]), DeletePending: b[20] != 0, Directory: b[21] != 0}, nil
}

// EncodeDisposition returns FILE_DISPOSITION_INFORMATION_EX with
// FILE_DISPOSITION_ flags.
func EncodeDisposition(flags uint32) []byte { return le.AppendUint32(nil, flags) }
