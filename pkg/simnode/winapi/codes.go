package winapi

// Control codes of DeviceIoControl (winioctl.h, ntddscsi.h, mountmgr.h).
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
	IOCTL_MOUNTDEV_QUERY_DEVICE_NAME     = 0x4D0008
	IOCTL_MOUNTMGR_QUERY_POINTS          = 0x6D0008
	FSCTL_LOCK_VOLUME                    = 0x90018
	FSCTL_DISMOUNT_VOLUME                = 0x90020
	FSCTL_GET_NTFS_VOLUME_DATA           = 0x90064
	FSCTL_EXTEND_VOLUME                  = 0x900F0
	FSCTL_GET_REPARSE_POINT              = 0x900A8
	FSCTL_SET_REPARSE_POINT              = 0x900A4
	FSCTL_DELETE_REPARSE_POINT           = 0x900AC
)

// Information classes of QueryInformation, SetInformation and QueryDirectory
// (ntifs.h).
const (
	FileFullDirectoryInformation = 2
	FileBasicInformation         = 4
	FileStandardInformation      = 5
	FileDispositionInformation   = 13
	FileAttributeTagInformation  = 35
	FileDispositionInformationEx = 64
)
