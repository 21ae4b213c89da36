package win32

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/mingwtest"
)

// The headers for applications and for drivers. Microsoft's headers of the two
// cannot be included together.
const (
	applicationHeaders = `
#define _WIN32_WINNT 0x0A00
#define NTDDI_VERSION 0x0A000008
#define WIN32_LEAN_AND_MEAN
#define WIN32_NO_STATUS
#include <windows.h>
#undef WIN32_NO_STATUS
#include <ntstatus.h>
#include <winternl.h>
#undef DEFINE_GUID
#define DEFINE_GUID(name, d1, d2, d3, b0, b1, b2, b3, b4, b5, b6, b7) enum { \
	name##_1 = (int)(d1), name##_2 = (d2) << 16 | (d3), \
	name##_3 = (int)((unsigned)(b0) << 24 | (b1) << 16 | (b2) << 8 | (b3)), \
	name##_4 = (int)((unsigned)(b4) << 24 | (b5) << 16 | (b6) << 8 | (b7)) }
#include <winioctl.h>
#include <diskguid.h>
#include <lm.h>
#include <lmuseflg.h>
#include <ntddscsi.h>
`
	driverHeaders = `
#define _WIN32_WINNT 0x0A00
#define NTDDI_VERSION 0x0A000008
#include <ntifs.h>
#undef DEFINE_GUID
#define DEFINE_GUID(name, ...)
`
)

// Constants with a different name in C.
var otherSpelling = map[string]string{
	"BusTypeISCSI": "BusTypeiScsi",
	// A macro in C, which picks this bit out of a tag.
	"REPARSE_NAME_SURROGATE": "IsReparseTagNameSurrogate(0xFFFFFFFF)",
}

// Constants that only the driver headers have.
var ofDrivers = []string{"FileDispositionInformationEx"}

// Constants that mingw-w64 10 lacks, with the numbers of Microsoft's pages.
var documented = map[string]uint64{
	// Microsoft: System Error Codes (0-499).
	"ERROR_DEVICE_HARDWARE_ERROR": 483,
	// winioctl.h: CTL_CODE(IOCTL_DISK_BASE, 0x3C, METHOD_BUFFERED, FILE_ANY_ACCESS)
	// and CTL_CODE(IOCTL_DISK_BASE, 0x3D, METHOD_BUFFERED, FILE_READ_ACCESS | FILE_WRITE_ACCESS).
	"IOCTL_DISK_GET_DISK_ATTRIBUTES": 7<<16 | 0x3C<<2,
	"IOCTL_DISK_SET_DISK_ATTRIBUTES": 7<<16 | 3<<14 | 0x3D<<2,
	"IOCTL_DISK_IS_CLUSTERED":        7<<16 | 0x3E<<2,
	"DISK_ATTRIBUTE_OFFLINE":         1,
	"DISK_ATTRIBUTE_READ_ONLY":       2,
	// Microsoft: VDS_DISK_OFFLINE_REASON.
	"VDSDiskOfflineReasonNone":      0,
	"VDSDiskOfflineReasonPolicy":    1,
	"VDSDiskOfflineReasonCollision": 4,
	// [MS-ERREF] 2.2 and 2.3.1.
	"ERROR_NO_SUCH_DEVICE":             433,
	"ERROR_REPARSE_POINT_ENCOUNTERED":  4395,
	"STATUS_REPARSE_POINT_ENCOUNTERED": 0xC000050B,
	// Microsoft: GetSystemFirmwareTable, the provider signature 'RSMB'.
	"FirmwareSMBIOS": 'R'<<24 | 'S'<<16 | 'M'<<8 | 'B',
	// lmuse.h of Microsoft's SDK 10.0.16299 and later.
	"USE_FLAG_GLOBAL_MAPPING":      0x10000,
	"REQUIRE_CONNECTION_INTEGRITY": 0x08,
	"REQUIRE_CONNECTION_PRIVACY":   0x10,
	// Microsoft: iSCSI Discovery Library API, iscsidsc.h and iscsierr.h.
	"ISCSI_NO_AUTH_TYPE":                 0,
	"ISCSI_CHAP_AUTH_TYPE":               1,
	"ISCSI_MUTUAL_CHAP_AUTH_TYPE":        2,
	"ISDSC_NON_SPECIFIC_ERROR":           0xEFFF0000 + 1,
	"ISDSC_LOGIN_FAILED":                 0xEFFF0000 + 2,
	"ISDSC_CONNECTION_FAILED":            0xEFFF0000 + 3,
	"ISDSC_AUTHENTICATION_FAILURE":       0xEFFF0000 + 9,
	"ISDSC_AUTHORIZATION_FAILURE":        0xEFFF0000 + 0xA,
	"ISDSC_NOT_FOUND":                    0xEFFF0000 + 0xB,
	"ISDSC_TARGET_REMOVED":               0xEFFF0000 + 0xC,
	"ISDSC_TARGET_ERROR":                 0xEFFF0000 + 0x12,
	"ISDSC_SERVICE_UNAVAILABLE":          0xEFFF0000 + 0x13,
	"ISDSC_OUT_OF_RESOURCES":             0xEFFF0000 + 0x14,
	"ISDSC_INVALID_SESSION_ID":           0xEFFF0000 + 0x1C,
	"ISDSC_SESSION_BUSY":                 0xEFFF0000 + 0x1F,
	"ISDSC_TRANSPORT_ERROR":              0xEFFF0000 + 0x24,
	"ISDSC_TARGET_NOT_FOUND":             0xEFFF0000 + 0x29,
	"ISDSC_LOGIN_USER_INFO_BAD":          0xEFFF0000 + 0x2A,
	"ISDSC_OPERATION_NOT_ALL_SUCCESS":    0xAFFF0000 + 0x2E,
	"ISDSC_TARGET_PORTAL_ALREADY_EXISTS": 0xEFFF0000 + 0x32,
	"ISDSC_SERVICE_DID_NOT_RESPOND":      0xEFFF0000 + 0x39,
	"ISDSC_SERVICE_NOT_RUNNING":          0xEFFF0000 + 0x3E,
	"ISDSC_TARGET_ALREADY_LOGGED_IN":     0xEFFF0000 + 0x3F,
	"ISDSC_DEVICE_BUSY_ON_SESSION":       0xEFFF0000 + 0x40,
	"ISDSC_PORTAL_NOT_FOUND":             0xEFFF0000 + 0x43,
	"ISDSC_BUFFER_TOO_SMALL":             0xEFFF0000 + 0x54,
	// ntddvol.h of the Windows driver kit: CTL_CODE('V', 21, METHOD_BUFFERED, FILE_ANY_ACCESS).
	"IOCTL_VOLUME_UPDATE_PROPERTIES": 'V'<<16 | 21<<2,
	// ntddk.h, FILE_DISPOSITION_INFORMATION_EX.
	"FILE_DISPOSITION_DELETE":                    0x01,
	"FILE_DISPOSITION_POSIX_SEMANTICS":           0x02,
	"FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK": 0x04,
	"FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE": 0x10,
}

// constantAsserts returns the assertions for all constants in cs.
func constantAsserts(cs []goConstant) (application, driver []mingwtest.Assert) {
	for _, c := range cs {
		if _, ok := documented[c.name]; ok {
			continue
		}
		spelling := c.name
		if s, ok := otherSpelling[c.name]; ok {
			spelling = s
		}
		a := mingwtest.Assert{
			Name: fmt.Sprintf("%s is %#x", c.name, c.value),
			Expr: fmt.Sprintf("(unsigned)(%s) == %#xu", spelling, c.value),
		}
		if c.value > 0xFFFFFFFF {
			a.Expr = fmt.Sprintf("(unsigned long long)(%s) == %#xull", spelling, c.value)
		}
		if slices.Contains(ofDrivers, c.name) {
			driver = append(driver, a)
		} else {
			application = append(application, a)
		}
	}
	return application, driver
}

// TestConstants checks every exported number of this package against the headers.
func TestConstants(t *testing.T) {
	cs := constants(t)
	if len(cs) < 150 {
		t.Fatalf("found only %d constants in the source", len(cs))
	}
	for _, c := range cs {
		if want, ok := documented[c.name]; ok && c.value != want {
			t.Errorf("%s = %#x, but the documented value is %#x", c.name, c.value, want)
		}
	}
	for name := range documented {
		if !slices.ContainsFunc(cs, func(c goConstant) bool { return c.name == name }) {
			t.Errorf("the list of documented constants has %s, which the package does not declare", name)
		}
	}
	application, driver := constantAsserts(cs)
	for _, wrong := range mingwtest.Check(t, applicationHeaders, application) {
		t.Errorf("false in mingw-w64's headers: %s", wrong)
	}
	for _, wrong := range mingwtest.Check(t, driverHeaders, driver) {
		t.Errorf("false in mingw-w64's driver headers: %s", wrong)
	}
}

// lackingGUIDs are those that mingw-w64 lacks, as the Win32 metadata's constants have them.
func lackingGUIDs() map[string]string {
	return map[string]string{
		"PARTITION_SPACES_GUID":                 "{e75caf8f-f680-4cee-afa3-b001e56efc2d}",
		"PARTITION_SPACES_DATA_GUID":            "{e7addcb4-dc34-4539-9a76-ebbd07be6f7e}",
		"PARTITION_CLUSTER_GUID":                "{db97dba9-0840-4bae-97f0-ffb9a327c7e1}",
		"PARTITION_SBL_CACHE_SSD_GUID":          "{eeff8352-dd2a-44db-ae83-bee1cf7481dc}",
		"PARTITION_SBL_CACHE_SSD_RESERVED_GUID": "{dcc0c7c1-55ad-4f17-9d43-4bc776e0117e}",
		"PARTITION_SBL_CACHE_HDD_GUID":          "{03aaa829-ebfc-4e7e-aac9-c4d76c63b24b}",
	}
}

func TestGUIDs(t *testing.T) {
	guids := map[string]GUID{
		"GUID_DEVINTERFACE_DISK":       GUID_DEVINTERFACE_DISK,
		"PARTITION_BASIC_DATA_GUID":    PARTITION_BASIC_DATA_GUID,
		"PARTITION_MSFT_RESERVED_GUID": PARTITION_MSFT_RESERVED_GUID,
		"PARTITION_SYSTEM_GUID":        PARTITION_SYSTEM_GUID,
		"PARTITION_MSFT_RECOVERY_GUID": PARTITION_MSFT_RECOVERY_GUID,
		"PARTITION_LDM_DATA_GUID":      PARTITION_LDM_DATA_GUID,
		"PARTITION_LDM_METADATA_GUID":  PARTITION_LDM_METADATA_GUID,
	}
	lacking := lackingGUIDs()
	for name, g := range map[string]GUID{
		"PARTITION_SPACES_GUID":                 PARTITION_SPACES_GUID,
		"PARTITION_SPACES_DATA_GUID":            PARTITION_SPACES_DATA_GUID,
		"PARTITION_CLUSTER_GUID":                PARTITION_CLUSTER_GUID,
		"PARTITION_SBL_CACHE_SSD_GUID":          PARTITION_SBL_CACHE_SSD_GUID,
		"PARTITION_SBL_CACHE_SSD_RESERVED_GUID": PARTITION_SBL_CACHE_SSD_RESERVED_GUID,
		"PARTITION_SBL_CACHE_HDD_GUID":          PARTITION_SBL_CACHE_HDD_GUID,
	} {
		if g.String() != lacking[name] {
			t.Errorf("%s = %s, want %s", name, g, lacking[name])
		}
	}
	for _, name := range append(exported[*types.Var](t, "GUID_"), exported[*types.Var](t, "PARTITION_")...) {
		if _, ok := guids[name]; !ok && lacking[name] == "" {
			t.Errorf("no test covers %s", name)
		}
	}
	var asserts []mingwtest.Assert
	for name, g := range guids {
		d := g.Data4
		asserts = append(asserts, mingwtest.Assert{
			Name: fmt.Sprintf("%s is %s", name, g),
			Expr: fmt.Sprintf("(unsigned)%[1]s_1 == %[2]du && (unsigned)%[1]s_2 == %[3]du && (unsigned)%[1]s_3 == %[4]du && (unsigned)%[1]s_4 == %[5]du",
				name, g.Data1, uint32(g.Data2)<<16|uint32(g.Data3),
				uint32(d[0])<<24|uint32(d[1])<<16|uint32(d[2])<<8|uint32(d[3]),
				uint32(d[4])<<24|uint32(d[5])<<16|uint32(d[6])<<8|uint32(d[7])),
		})
	}
	for _, wrong := range mingwtest.Check(t, applicationHeaders, asserts) {
		t.Errorf("false in mingw-w64's headers: %s", wrong)
	}
}

// Values without a zero byte, so that an encoding shows where they begin and end.
const (
	p8  = 0xA1
	p16 = 0xA1A2
	p32 = 0xA1A2A3A4
	p64 = 0xA1A2A3A4A5A6A7A8
)

var pGUID = GUID{p32, p16, p16, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}

// structure is a C structure in our encoder's layout. The encoding of a member
// differs from the zero encoding in that member only, which shows its position.
type structure struct {
	c       string
	size    int // 0: no fixed size
	zero    []byte
	members []member
}

type member struct {
	c       string
	encoded []byte
	ignore  [2]int // bytes that also change: a size field
	begins  bool   // only the member's first byte is certain to differ
}

// at finds the member by comparing the encodings.
func (m member) at(zero []byte) (offset, width int, err error) {
	first, last := -1, -1
	for i := range min(len(zero), len(m.encoded)) {
		if zero[i] == m.encoded[i] || m.ignore[0] <= i && i < m.ignore[1] {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 {
		return 0, 0, fmt.Errorf("the encoder does not write %s", m.c)
	}
	if m.begins {
		return first, 0, nil
	}
	return first, last - first + 1, nil
}

// sizeField is the position of Size in all STORAGE_…_DESCRIPTOR structures.
var sizeField = [2]int{4, 8}

func structures() []structure {
	gpt := Layout{Style: PARTITION_STYLE_GPT}
	withGPT := func(set func(*Layout)) []byte { l := gpt; set(&l); return l.Encode() }
	part := func(style uint32, set func(*Partition)) []byte {
		p := Partition{Style: style}
		set(&p)
		return Layout{Partitions: []Partition{p}}.Encode()[SizeofLayout:]
	}
	gptPart := func(set func(*Partition)) []byte { return part(PARTITION_STYLE_GPT, set) }
	mbrPart := func(set func(*Partition)) []byte { return part(PARTITION_STYLE_MBR, set) }
	none := func(*Partition) {}
	ids := func(ids ...Identifier) []byte { return EncodeIdentifiers(ids) }
	id := func(i Identifier, more ...Identifier) []byte {
		return EncodeIdentifiers(append([]Identifier{i}, more...))[sizeofDeviceIDDescriptor:]
	}
	device := func(d DeviceDescriptor) []byte { return d.Encode() }
	entry := func(e DirEntry) []byte { b, _ := AppendDirEntry(nil, -1, e); return b }
	twoEntries := func() []byte {
		b, at := AppendDirEntry(nil, -1, DirEntry{})
		b, _ = AppendDirEntry(b, at, DirEntry{})
		return b
	}()
	link := func(r Reparse) []byte { r.Tag = IO_REPARSE_TAG_SYMLINK; return r.Encode() }
	mount := func(r Reparse) []byte { r.Tag = IO_REPARSE_TAG_MOUNT_POINT; return r.Encode() }

	return []structure{
		{"STORAGE_DEVICE_NUMBER", SizeofDeviceNumber, DeviceNumber{}.Encode(), []member{
			{c: "DeviceType", encoded: DeviceNumber{DeviceType: p32}.Encode()},
			{c: "DeviceNumber", encoded: DeviceNumber{DeviceNumber: p32}.Encode()},
			{c: "PartitionNumber", encoded: DeviceNumber{PartitionNumber: p32}.Encode()},
		}},
		{"STORAGE_PROPERTY_QUERY", SizeofPropertyQuery, PropertyQuery{}.Encode(), []member{
			{c: "PropertyId", encoded: PropertyQuery{PropertyID: p32}.Encode()},
			{c: "QueryType", encoded: PropertyQuery{QueryType: p32}.Encode()},
		}},
		{"STORAGE_DEVICE_DESCRIPTOR", sizeofDeviceDescriptor, device(DeviceDescriptor{}), []member{
			{c: "RemovableMedia", encoded: device(DeviceDescriptor{Removable: true})},
			{c: "BusType", encoded: device(DeviceDescriptor{BusType: p32})},
			{c: "VendorIdOffset", encoded: device(DeviceDescriptor{Vendor: "x"}), ignore: sizeField, begins: true},
			{c: "ProductIdOffset", encoded: device(DeviceDescriptor{Product: "x"}), ignore: sizeField, begins: true},
			{c: "ProductRevisionOffset", encoded: device(DeviceDescriptor{Revision: "x"}), ignore: sizeField, begins: true},
			{c: "SerialNumberOffset", encoded: device(DeviceDescriptor{SerialNumber: "x"}), ignore: sizeField, begins: true},
			{c: "Size", encoded: device(DeviceDescriptor{SerialNumber: "x"}), ignore: [2]int{8, 40}, begins: true},
		}},
		{"STORAGE_DEVICE_ID_DESCRIPTOR", 0, ids(), []member{
			{c: "Size", encoded: ids(Identifier{}), ignore: [2]int{8, 12}, begins: true},
			{c: "NumberOfIdentifiers", encoded: ids(Identifier{}), ignore: sizeField, begins: true},
		}},
		{"STORAGE_IDENTIFIER", 0, id(Identifier{}), []member{
			{c: "CodeSet", encoded: id(Identifier{CodeSet: p32})},
			{c: "Type", encoded: id(Identifier{Type: p32})},
			{c: "IdentifierSize", encoded: id(Identifier{ID: make([]byte, 0x101)})},
			{c: "NextOffset", encoded: id(Identifier{}, Identifier{}), begins: true},
			{c: "Association", encoded: id(Identifier{Association: p32})},
		}},
		{"SCSI_ADDRESS", 8, SCSIAddress{}.Encode(), []member{
			{c: "PortNumber", encoded: SCSIAddress{Port: p8}.Encode()},
			{c: "PathId", encoded: SCSIAddress{Path: p8}.Encode()},
			{c: "TargetId", encoded: SCSIAddress{Target: p8}.Encode()},
			{c: "Lun", encoded: SCSIAddress{Lun: p8}.Encode()},
		}},
		{"GET_LENGTH_INFORMATION", 8, EncodeLength(0), []member{
			{c: "Length", encoded: EncodeLength(p64)},
		}},
		{"DISK_GEOMETRY_EX", SizeofGeometry, Geometry{}.Encode(), []member{
			{c: "Geometry.BytesPerSector", encoded: Geometry{BytesPerSector: p32}.Encode()},
			{c: "DiskSize", encoded: Geometry{DiskSize: p64}.Encode()},
		}},
		{"CREATE_DISK", SizeofCreateDisk, CreateDisk{}.Encode(), []member{
			{c: "Gpt.DiskId", encoded: CreateDisk{DiskID: pGUID}.Encode()},
		}},
		{"DRIVE_LAYOUT_INFORMATION_EX", 0, Layout{}.Encode(), []member{
			{c: "PartitionStyle", encoded: Layout{Style: p32}.Encode()},
			{c: "Mbr.Signature", encoded: Layout{Signature: p32}.Encode()},
			{c: "PartitionCount", encoded: Layout{Partitions: make([]Partition, 1)}.Encode(), begins: true},
		}},
		{"DRIVE_LAYOUT_INFORMATION_EX", 0, gpt.Encode(), []member{
			{c: "Gpt.DiskId", encoded: withGPT(func(l *Layout) { l.DiskID = pGUID })},
			{c: "Gpt.StartingUsableOffset", encoded: withGPT(func(l *Layout) { l.UsableOffset = p64 })},
			{c: "Gpt.UsableLength", encoded: withGPT(func(l *Layout) { l.UsableLength = p64 })},
			{c: "Gpt.MaxPartitionCount", encoded: withGPT(func(l *Layout) { l.MaxPartitions = p32 })},
		}},
		{"PARTITION_INFORMATION_EX", SizeofPartition, mbrPart(none), []member{
			{c: "PartitionStyle", encoded: part(p32, none)},
			{c: "StartingOffset", encoded: mbrPart(func(p *Partition) { p.Offset = p64 })},
			{c: "PartitionLength", encoded: mbrPart(func(p *Partition) { p.Length = p64 })},
			{c: "PartitionNumber", encoded: mbrPart(func(p *Partition) { p.Number = p32 })},
			{c: "RewritePartition", encoded: mbrPart(func(p *Partition) { p.Rewrite = true })},
			{c: "Mbr.PartitionType", encoded: mbrPart(func(p *Partition) { p.MBRType = p8 })},
			{c: "Mbr.BootIndicator", encoded: mbrPart(func(p *Partition) { p.Active = true })},
			{c: "Mbr.RecognizedPartition", encoded: mbrPart(func(p *Partition) { p.Recognized = true })},
			{c: "Mbr.HiddenSectors", encoded: mbrPart(func(p *Partition) { p.Hidden = p32 })},
		}},
		{"PARTITION_INFORMATION_EX", SizeofPartition, gptPart(none), []member{
			{c: "Gpt.PartitionType", encoded: gptPart(func(p *Partition) { p.Type = pGUID })},
			{c: "Gpt.PartitionId", encoded: gptPart(func(p *Partition) { p.ID = pGUID })},
			{c: "Gpt.Attributes", encoded: gptPart(func(p *Partition) { p.Attributes = p64 })},
			{c: "Gpt.Name", encoded: gptPart(func(p *Partition) { p.Name = strings.Repeat("\uA1A2", 36) })},
		}},
		{"DISK_GROW_PARTITION", SizeofGrowPartition, GrowPartition{}.Encode(), []member{
			{c: "PartitionNumber", encoded: GrowPartition{Number: p32}.Encode()},
			{c: "BytesToGrow", encoded: GrowPartition{Delta: -0x0102030405060708}.Encode()},
		}},
		{"DISK_EXTENT", sizeofExtent, EncodeExtents(make([]Extent, 1))[sizeofExtents:], []member{
			{c: "DiskNumber", encoded: EncodeExtents([]Extent{{Disk: p32}})[sizeofExtents:]},
			{c: "StartingOffset", encoded: EncodeExtents([]Extent{{Offset: p64}})[sizeofExtents:]},
			{c: "ExtentLength", encoded: EncodeExtents([]Extent{{Length: p64}})[sizeofExtents:]},
		}},
		{"VOLUME_DISK_EXTENTS", 0, EncodeExtents(nil), []member{
			{c: "NumberOfDiskExtents", encoded: EncodeExtents(make([]Extent, 1)), begins: true},
		}},
		{"NTFS_VOLUME_DATA_BUFFER", SizeofNTFSVolumeData, NTFSVolumeData{}.Encode(), []member{
			{c: "NumberSectors", encoded: NTFSVolumeData{Sectors: p64}.Encode()},
			{c: "TotalClusters", encoded: NTFSVolumeData{TotalClusters: p64}.Encode()},
			{c: "FreeClusters", encoded: NTFSVolumeData{FreeClusters: p64}.Encode()},
			{c: "BytesPerSector", encoded: NTFSVolumeData{BytesPerSector: p32}.Encode()},
			{c: "BytesPerCluster", encoded: NTFSVolumeData{BytesPerCluster: p32}.Encode()},
		}},
		{"FILE_FULL_DIR_INFORMATION", 0, entry(DirEntry{}), []member{
			{c: "NextEntryOffset", encoded: twoEntries, begins: true},
			{c: "EndOfFile", encoded: entry(DirEntry{Size: -0x0102030405060708}), ignore: [2]int{48, 56}},
			{c: "AllocationSize", encoded: entry(DirEntry{Size: -0x0102030405060708}), ignore: [2]int{40, 48}},
			{c: "FileAttributes", encoded: entry(DirEntry{Attributes: p32})},
			{c: "EaSize", encoded: entry(DirEntry{ReparseTag: p32})},
			{c: "FileNameLength", encoded: entry(DirEntry{Name: "x"}), begins: true},
		}},
		{"FILE_ATTRIBUTE_TAG_INFORMATION", SizeofAttributeTag, AttributeTag{}.Encode(), []member{
			{c: "FileAttributes", encoded: AttributeTag{Attributes: p32}.Encode()},
			{c: "ReparseTag", encoded: AttributeTag{ReparseTag: p32}.Encode()},
		}},
		{"FILE_STANDARD_INFORMATION", SizeofFileStandard, FileStandard{}.Encode(), []member{
			{c: "AllocationSize", encoded: FileStandard{EndOfFile: -0x0102030405060708}.Encode(), ignore: [2]int{8, 16}},
			{c: "EndOfFile", encoded: FileStandard{EndOfFile: -0x0102030405060708}.Encode(), ignore: [2]int{0, 8}},
			{c: "NumberOfLinks", encoded: FileStandard{Links: p32}.Encode()},
			{c: "DeletePending", encoded: FileStandard{DeletePending: true}.Encode()},
			{c: "Directory", encoded: FileStandard{Directory: true}.Encode()},
		}},
		// Of the driver's headers.
		{"REPARSE_DATA_BUFFER", 0, link(Reparse{}), []member{
			{c: "ReparseTag", encoded: mount(Reparse{}), ignore: [2]int{4, 16}, begins: true},
			{c: "ReparseDataLength", encoded: link(Reparse{Substitute: "x"}), ignore: [2]int{8, 16}, begins: true},
			{c: "SymbolicLinkReparseBuffer.SubstituteNameLength", encoded: link(Reparse{Substitute: "x"}), ignore: [2]int{4, 6}, begins: true},
			{c: "SymbolicLinkReparseBuffer.PrintNameOffset", encoded: link(Reparse{Substitute: "x"}), ignore: [2]int{4, 12}, begins: true},
			{c: "SymbolicLinkReparseBuffer.PrintNameLength", encoded: link(Reparse{Print: "x"}), ignore: [2]int{4, 6}, begins: true},
			{c: "SymbolicLinkReparseBuffer.Flags", encoded: link(Reparse{Relative: true}), begins: true},
		}},
		{"REPARSE_DATA_BUFFER", 0, mount(Reparse{}), []member{
			{c: "MountPointReparseBuffer.SubstituteNameLength", encoded: mount(Reparse{Substitute: "x"}), ignore: [2]int{4, 6}, begins: true},
			{c: "MountPointReparseBuffer.PrintNameOffset", encoded: mount(Reparse{Substitute: "x"}), ignore: [2]int{4, 12}, begins: true},
			{c: "MountPointReparseBuffer.PrintNameLength", encoded: mount(Reparse{Print: "x"}), ignore: [2]int{4, 6}, begins: true},
		}},
	}
}

// layoutAsserts returns what the headers must have for our encodings to be right.
func layoutAsserts(t *testing.T, all []structure) (application, driver []mingwtest.Assert) {
	t.Helper()
	for _, s := range all {
		to := &application
		if s.c == "REPARSE_DATA_BUFFER" || strings.HasPrefix(s.c, "MOUNT") {
			to = &driver
		}
		if s.size != 0 {
			if len(s.zero) != s.size {
				t.Errorf("our %s has %d bytes, want %d", s.c, len(s.zero), s.size)
			}
			*to = append(*to, mingwtest.Size(s.c, s.size))
		}
		for _, m := range s.members {
			offset, width, err := m.at(s.zero)
			if err != nil {
				t.Errorf("%s: %v", s.c, err)
				continue
			}
			*to = append(*to, mingwtest.Offset(s.c, m.c, offset, width)...)
		}
	}
	// What follows a header of fixed size.
	begin := func(c, m string, at int) []mingwtest.Assert { return mingwtest.Offset(c, m, at, 0) }
	application = append(application, begin("STORAGE_DEVICE_ID_DESCRIPTOR", "Identifiers", sizeofDeviceIDDescriptor)...)
	application = append(application, begin("STORAGE_IDENTIFIER", "Identifier", sizeofIdentifier)...)
	application = append(application, begin("DRIVE_LAYOUT_INFORMATION_EX", "PartitionEntry", SizeofLayout)...)
	application = append(application, begin("VOLUME_DISK_EXTENTS", "Extents", sizeofExtents)...)
	application = append(application, begin("FILE_FULL_DIR_INFORMATION", "FileName", sizeofDirEntry)...)
	driver = append(driver, begin("REPARSE_DATA_BUFFER", "SymbolicLinkReparseBuffer.PathBuffer", len(Reparse{Tag: IO_REPARSE_TAG_SYMLINK}.Encode()))...)
	driver = append(driver, begin("REPARSE_DATA_BUFFER", "MountPointReparseBuffer.PathBuffer", len(Reparse{Tag: IO_REPARSE_TAG_MOUNT_POINT}.Encode())-4)...) // two NULs
	return application, driver
}

// TestLayouts checks every structure that this package encodes against the
// headers. This covers the decoders too, since they read what the encoders wrote.
func TestLayouts(t *testing.T) {
	application, driver := layoutAsserts(t, structures())
	for _, wrong := range mingwtest.Check(t, applicationHeaders, application) {
		t.Errorf("false in mingw-w64's headers: %s", wrong)
	}
	for _, wrong := range mingwtest.Check(t, driverHeaders, driver) {
		t.Errorf("false in mingw-w64's driver headers: %s", wrong)
	}
}

// TestDocumentedLayouts checks structures that mingw-w64 10 lacks against the
// numbers of Microsoft's pages.
func TestDocumentedLayouts(t *testing.T) {
	for _, s := range []struct {
		structure
		at [][2]int // offset and width of each member
	}{
		{structure{"GET_DISK_ATTRIBUTES", 16, EncodeDiskAttributes(0), []member{
			{c: "Attributes", encoded: EncodeDiskAttributes(p64)},
		}}, [][2]int{{8, 8}}},
		{structure{"SET_DISK_ATTRIBUTES", 40, SetDiskAttributes{}.Encode(), []member{
			{c: "Persist", encoded: SetDiskAttributes{Persist: true}.Encode()},
			{c: "Attributes", encoded: SetDiskAttributes{Attributes: p64}.Encode()},
			{c: "AttributesMask", encoded: SetDiskAttributes{Mask: p64}.Encode()},
		}}, [][2]int{{4, 1}, {8, 8}, {16, 8}}},
		{structure{"STORAGE_DEVICE_LOCATION_DESCRIPTOR", 37, EncodeLocation(""), []member{
			{c: "Size", encoded: EncodeLocation("x"), begins: true},
		}}, [][2]int{{4, 0}}},
		{structure{"FILE_DISPOSITION_INFORMATION_EX", 4, EncodeDisposition(0), []member{
			{c: "Flags", encoded: EncodeDisposition(p32)},
		}}, [][2]int{{0, 4}}},
	} {
		if len(s.zero) != s.size {
			t.Errorf("our %s has %d bytes, want %d", s.c, len(s.zero), s.size)
		}
		for i, m := range s.members {
			offset, width, err := m.at(s.zero)
			if err != nil || offset != s.at[i][0] || width != s.at[i][1] {
				t.Errorf("our %s.%s is at %d, %d bytes wide (%v), but the documented position is %v", s.c, m.c, offset, width, err, s.at[i])
			}
		}
	}
	// The first field of the two attribute structures is their own size, and the
	// location string begins at 36, the value of StringOffset at 32.
	if b := EncodeDiskAttributes(0); le.Uint32(b) != 16 {
		t.Errorf("GET_DISK_ATTRIBUTES.Version = %d, want 16", le.Uint32(b))
	}
	if b := (SetDiskAttributes{}).Encode(); le.Uint32(b) != 40 {
		t.Errorf("SET_DISK_ATTRIBUTES.Version = %d, want 40", le.Uint32(b))
	}
	if b := EncodeLocation("x"); le.Uint32(b[32:]) != 36 || b[36] != 'x' {
		t.Errorf("location string is not at 36 as StringOffset, at 32, should say: % x", b)
	}
}
