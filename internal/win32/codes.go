package win32

// Access rights, share modes, dispositions, flags (winnt.h, fileapi.h, ntifs.h).
const (
	GENERIC_READ          = 0x80000000
	GENERIC_WRITE         = 0x40000000
	DELETE                = 0x00010000
	SYNCHRONIZE           = 0x00100000
	FILE_LIST_DIRECTORY   = 0x0001
	FILE_ADD_FILE         = 0x0002
	FILE_TRAVERSE         = 0x0020
	FILE_READ_ATTRIBUTES  = 0x0080
	FILE_WRITE_ATTRIBUTES = 0x0100

	FILE_SHARE_READ   = 1
	FILE_SHARE_WRITE  = 2
	FILE_SHARE_DELETE = 4

	// CreateFile.
	OPEN_EXISTING = 3

	// NtCreateFile dispositions.
	FILE_OPEN    = 1
	FILE_CREATE  = 2
	FILE_OPEN_IF = 3

	// NtCreateFile options.
	FILE_DIRECTORY_FILE          = 0x00000001
	FILE_SYNCHRONOUS_IO_NONALERT = 0x00000020
	FILE_NON_DIRECTORY_FILE      = 0x00000040
	FILE_OPEN_FOR_BACKUP_INTENT  = 0x00004000
	FILE_OPEN_REPARSE_POINT      = 0x00200000

	// Object attributes.
	OBJ_CASE_INSENSITIVE = 0x40
	OBJ_DONT_REPARSE     = 0x1000

	FILE_ATTRIBUTE_READONLY      = 0x1
	FILE_ATTRIBUTE_HIDDEN        = 0x2
	FILE_ATTRIBUTE_SYSTEM        = 0x4
	FILE_ATTRIBUTE_DIRECTORY     = 0x10
	FILE_ATTRIBUTE_ARCHIVE       = 0x20
	FILE_ATTRIBUTE_NORMAL        = 0x80
	FILE_ATTRIBUTE_REPARSE_POINT = 0x400

	// GetFinalPathNameByHandle.
	VOLUME_NAME_DOS  = 0
	VOLUME_NAME_GUID = 1
	FILE_NAME_OPENED = 8 // the name with which the file was opened, not the normalized one

	// VolumeInfo.Flags.
	FILE_CASE_PRESERVED_NAMES    = 0x00000002
	FILE_UNICODE_ON_DISK         = 0x00000004
	FILE_PERSISTENT_ACLS         = 0x00000008
	FILE_SUPPORTS_REPARSE_POINTS = 0x00000080
	FILE_READ_ONLY_VOLUME        = 0x00080000
)

// Kinds of names for ComputerName (COMPUTER_NAME_FORMAT). Those that are not physical are
// the names of a failover cluster's virtual server where there is one.
const (
	ComputerNameNetBIOS                   = 0
	ComputerNameDnsHostname               = 1
	ComputerNameDnsFullyQualified         = 3
	ComputerNamePhysicalNetBIOS           = 4
	ComputerNamePhysicalDnsHostname       = 5
	ComputerNamePhysicalDnsFullyQualified = 7
)

// Privileges (winnt.h).
const (
	SE_CREATE_SYMBOLIC_LINK_NAME = "SeCreateSymbolicLinkPrivilege"
	SE_LOAD_DRIVER_NAME          = "SeLoadDriverPrivilege"
)

// File information classes (ntifs.h, FILE_INFORMATION_CLASS).
const (
	FileFullDirectoryInformation = 2 // of QueryDirectory
	FileBasicInformation         = 4
	FileStandardInformation      = 5
	FileDispositionInformation   = 13
	FileAttributeTagInformation  = 35
	FileDispositionInformationEx = 64
)

// Flags of FileDispositionInformationEx.
const (
	FILE_DISPOSITION_DELETE                    = 0x1
	FILE_DISPOSITION_POSIX_SEMANTICS           = 0x2
	FILE_DISPOSITION_FORCE_IMAGE_SECTION_CHECK = 0x4
	FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE = 0x10
)

// Control codes (winioctl.h, ntddscsi.h, mountmgr.h). Bits 14 and 15 of a code are the access
// that the handle must have: 0 any, 1 read, 2 write, 3 both.
const (
	IOCTL_STORAGE_GET_DEVICE_NUMBER      = 0x2D1080
	IOCTL_STORAGE_QUERY_PROPERTY         = 0x2D1400
	IOCTL_SCSI_GET_ADDRESS               = 0x41018
	IOCTL_DISK_GET_LENGTH_INFO           = 0x7405C
	IOCTL_DISK_GET_DRIVE_GEOMETRY_EX     = 0x700A0
	IOCTL_DISK_GET_DRIVE_LAYOUT_EX       = 0x70050
	IOCTL_DISK_SET_DRIVE_LAYOUT_EX       = 0x7C054
	IOCTL_DISK_CREATE_DISK               = 0x7C058
	IOCTL_DISK_GROW_PARTITION            = 0x7C0D0
	IOCTL_DISK_UPDATE_DRIVE_SIZE         = 0x7C0C8
	IOCTL_DISK_UPDATE_PROPERTIES         = 0x70140
	IOCTL_DISK_IS_WRITABLE               = 0x70024
	IOCTL_DISK_IS_CLUSTERED              = 0x700F8
	IOCTL_DISK_GET_DISK_ATTRIBUTES       = 0x700F0
	IOCTL_DISK_SET_DISK_ATTRIBUTES       = 0x7C0F4
	IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS = 0x560000
	IOCTL_VOLUME_ONLINE                  = 0x56C008
	IOCTL_VOLUME_OFFLINE                 = 0x56C00C
	IOCTL_VOLUME_IS_OFFLINE              = 0x560010
	IOCTL_VOLUME_UPDATE_PROPERTIES       = 0x560054
	FSCTL_LOCK_VOLUME                    = 0x90018
	FSCTL_DISMOUNT_VOLUME                = 0x90020
	FSCTL_GET_NTFS_VOLUME_DATA           = 0x90064
	FSCTL_EXTEND_VOLUME                  = 0x900F0
	FSCTL_GET_REPARSE_POINT              = 0x900A8
	FSCTL_SET_REPARSE_POINT              = 0x900A4
	FSCTL_DELETE_REPARSE_POINT           = 0x900AC
)

// STORAGE_PROPERTY_ID of IOCTL_STORAGE_QUERY_PROPERTY (ntddstor.h). The enum
// is not consecutive: StorageDeviceLocationProperty is 58.
const (
	StorageDeviceProperty         = 0
	StorageDeviceIdProperty       = 2
	StorageDeviceLocationProperty = 58
)

// STORAGE_IDENTIFIER fields (ntddstor.h).
const (
	StorageIdCodeSetBinary = 1
	StorageIdCodeSetAscii  = 2
	StorageIdCodeSetUtf8   = 3

	StorageIdTypeVendorSpecific           = 0
	StorageIdTypeVendorId                 = 1
	StorageIdTypeEUI64                    = 2
	StorageIdTypeFCPHName                 = 3
	StorageIdTypeMD5LogicalUnitIdentifier = 7
	StorageIdTypeScsiNameString           = 8

	StorageIdAssocDevice = 0
	StorageIdAssocPort   = 1
	StorageIdAssocTarget = 2
)

// STORAGE_BUS_TYPE (ntddstor.h).
const (
	BusTypeScsi              = 1
	BusTypeAta               = 3
	BusTypeISCSI             = 9
	BusTypeSas               = 10
	BusTypeSata              = 11
	BusTypeVirtual           = 14
	BusTypeFileBackedVirtual = 15
	BusTypeNvme              = 17
)

// FILE_DEVICE_DISK is STORAGE_DEVICE_NUMBER.DeviceType of a disk (winioctl.h).
const FILE_DEVICE_DISK = 7

// PARTITION_STYLE (winioctl.h). WMI uses other numbers.
const (
	PARTITION_STYLE_MBR = 0
	PARTITION_STYLE_GPT = 1
	PARTITION_STYLE_RAW = 2
)

// GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER keeps the mount manager from giving
// the partition a drive letter (winioctl.h, bit 63).
const GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER = 0x8000000000000000

// Disk attributes (winioctl.h).
const (
	DISK_ATTRIBUTE_OFFLINE   = 1
	DISK_ATTRIBUTE_READ_ONLY = 2
)

// VDS_DISK_OFFLINE_REASON (vds.h). MSFT_Disk.OfflineReason has the same numbers, up to 7.
// https://learn.microsoft.com/windows-hardware/drivers/storage/msft-disk
const (
	VDSDiskOfflineReasonNone      = 0
	VDSDiskOfflineReasonPolicy    = 1
	VDSDiskOfflineReasonCollision = 4
)

// Reparse tags (ntifs.h).
const (
	IO_REPARSE_TAG_MOUNT_POINT = 0xA0000003
	IO_REPARSE_TAG_SYMLINK     = 0xA000000C
	SYMLINK_FLAG_RELATIVE      = 1
	// REPARSE_NAME_SURROGATE is the tag bit of a reparse point that stands for
	// another name.
	REPARSE_NAME_SURROGATE = 0x20000000
	// MAXIMUM_REPARSE_DATA_BUFFER_SIZE is the most that FSCTL_GET_REPARSE_POINT
	// returns, in bytes.
	MAXIMUM_REPARSE_DATA_BUFFER_SIZE = 16 * 1024
)

// Device interface classes (ntddstor.h).
var (
	GUID_DEVINTERFACE_DISK = GUID{0x53f56307, 0xb6bf, 0x11d0, [8]byte{0x94, 0xf2, 0x00, 0xa0, 0xc9, 0x1e, 0xfb, 0x8b}}
)

// GPT partition types (Microsoft: PARTITION_INFORMATION_GPT, the Win32 metadata's
// Windows.Win32.Storage.FileSystem, diskpart's "set id"; UEFI specification).
var (
	PARTITION_BASIC_DATA_GUID    = GUID{0xebd0a0a2, 0xb9e5, 0x4433, [8]byte{0x87, 0xc0, 0x68, 0xb6, 0xb7, 0x26, 0x99, 0xc7}}
	PARTITION_MSFT_RESERVED_GUID = GUID{0xe3c9e316, 0x0b5c, 0x4db8, [8]byte{0x81, 0x7d, 0xf9, 0x2d, 0xf0, 0x02, 0x15, 0xae}}
	PARTITION_SYSTEM_GUID        = GUID{0xc12a7328, 0xf81f, 0x11d2, [8]byte{0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b}}
	PARTITION_MSFT_RECOVERY_GUID = GUID{0xde94bba4, 0x06d1, 0x4d40, [8]byte{0xa1, 0x6a, 0xbf, 0xd5, 0x01, 0x79, 0xd6, 0xac}}
	PARTITION_LDM_DATA_GUID      = GUID{0xaf9b60a0, 0x1431, 0x4f62, [8]byte{0xbc, 0x68, 0x33, 0x11, 0x71, 0x4a, 0x69, 0xad}}
	PARTITION_LDM_METADATA_GUID  = GUID{0x5808c8aa, 0x7e8f, 0x42e0, [8]byte{0x85, 0xd2, 0xe1, 0xe9, 0x04, 0x34, 0xcf, 0xb3}}
	PARTITION_SPACES_GUID        = GUID{0xe75caf8f, 0xf680, 0x4cee, [8]byte{0xaf, 0xa3, 0xb0, 0x01, 0xe5, 0x6e, 0xfc, 0x2d}}
	PARTITION_SPACES_DATA_GUID   = GUID{0xe7addcb4, 0xdc34, 0x4539, [8]byte{0x9a, 0x76, 0xeb, 0xbd, 0x07, 0xbe, 0x6f, 0x7e}}
	PARTITION_CLUSTER_GUID       = GUID{0xdb97dba9, 0x0840, 0x4bae, [8]byte{0x97, 0xf0, 0xff, 0xb9, 0xa3, 0x27, 0xc7, 0xe1}}

	// The cache of Storage Spaces Direct.
	PARTITION_SBL_CACHE_SSD_GUID          = GUID{0xeeff8352, 0xdd2a, 0x44db, [8]byte{0xae, 0x83, 0xbe, 0xe1, 0xcf, 0x74, 0x81, 0xdc}}
	PARTITION_SBL_CACHE_SSD_RESERVED_GUID = GUID{0xdcc0c7c1, 0x55ad, 0x4f17, [8]byte{0x9d, 0x43, 0x4b, 0xc7, 0x76, 0xe0, 0x11, 0x7e}}
	PARTITION_SBL_CACHE_HDD_GUID          = GUID{0x03aaa829, 0xebfc, 0x4e7e, [8]byte{0xaa, 0xc9, 0xc4, 0xd7, 0x6c, 0x63, 0xb2, 0x4b}}
)
