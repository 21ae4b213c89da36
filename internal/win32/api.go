package win32

// Handle is an open object of Windows or of the emulated node. The zero Handle is
// never open.
type Handle uintptr

// API is the set of Windows calls that CSI Proxy makes. It is safe for concurrent
// use. A call cannot be canceled: a caller with a deadline runs calls that may
// block on a worker goroutine.
type API interface {
	Handles
	Devices
	Volumes
	Files
	Privileges
	Installation
	Services
	Firmware
	ISCSI
	SMB
	SMBLogon
}

// Handles opens devices and reads, writes and controls open objects.
type Handles interface {
	// CreateFile opens a device or volume (CreateFileW). path is `\\.\PhysicalDrive2`, a
	// device interface path, or a volume name without its trailing backslash.
	CreateFile(path string, access, share, disposition, flags uint32) (Handle, error)
	// CloseHandle closes a handle from CreateFile or NtCreateFile.
	CloseHandle(h Handle) error
	// DeviceIoControl sends a control code and returns how many bytes of out it
	// filled; n is valid with ERROR_MORE_DATA too. On ERROR_INSUFFICIENT_BUFFER and
	// ERROR_MORE_DATA the caller tries again with a larger out.
	DeviceIoControl(h Handle, code uint32, in, out []byte) (n int, err error)
	// ReadAt and WriteAt transfer bytes at an offset (an OVERLAPPED offset).
	// Devices require multiples of their sector size.
	ReadAt(h Handle, p []byte, off int64) (int, error)
	WriteAt(h Handle, p []byte, off int64) (int, error)
	// FlushFileBuffers writes the cached data of h; for a volume handle, that of
	// all its files.
	FlushFileBuffers(h Handle) error
}

// Devices finds devices.
type Devices interface {
	// Interfaces lists the present device interfaces of disks, GUID_DEVINTERFACE_DISK
	// (CM_Get_Device_Interface_ListW).
	Interfaces() ([]Interface, error)
	// Reenumerate looks for new and vanished devices in the whole device tree
	// (CM_Reenumerate_DevNode on the root, synchronous).
	Reenumerate() error
	// OfflineReasons returns why disks are offline (MSFT_Disk.OfflineReason of WMI), by the
	// number of the disk: one of the constants VDSDiskOfflineReason…, which is
	// VDSDiskOfflineReasonNone for a disk that is online. It has the disks that WMI's storage
	// provider lists. The error is ERROR_NOT_SUPPORTED if this Windows has no such class.
	OfflineReasons() (map[uint32]uint16, error)
}

// Interface is a present device interface.
type Interface struct {
	Path string // `\\?\scsi#disk&ven_…#{53f56307-…}`, openable with CreateFile
}

// Volumes is the mount manager and information about mounted file systems. A
// "root" or "volume" here ends in a backslash: `\\?\Volume{…}\`, `C:\`.
type Volumes interface {
	// VolumeNames lists every volume of the node (FindFirstVolumeW, FindNextVolumeW).
	VolumeNames() ([]string, error)
	// VolumeInformation returns information about a volume's file system
	// (GetVolumeInformationW). ERROR_UNRECOGNIZED_VOLUME means that no file
	// system driver recognizes its content.
	VolumeInformation(root string) (VolumeInfo, error)
	// FreeSpace returns sizes in bytes (GetDiskFreeSpaceExW). The caller's quota
	// limits avail, but not free.
	FreeSpace(root string) (avail, total, free uint64, err error)
	// VolumePathName returns the mount point above p (GetVolumePathNameW).
	// Trailing components of p need not exist.
	VolumePathName(p string) (string, error)
	// VolumeNameForMountPoint returns the volume mounted at root
	// (GetVolumeNameForVolumeMountPointW).
	VolumeNameForMountPoint(root string) (string, error)
	// VolumePathNames returns the drive letters and folders at which vol is
	// mounted (GetVolumePathNamesForVolumeNameW).
	VolumePathNames(vol string) ([]string, error)
	// SetMountPoint mounts vol at an empty directory (SetVolumeMountPointW); dir
	// ends in a backslash.
	SetMountPoint(dir, vol string) error
	// DeleteMountPoint removes the mount point at dir and leaves a plain
	// directory (DeleteVolumeMountPointW).
	DeleteMountPoint(dir string) error
	// Format creates NTFS on vol and destroys its content. Windows has
	// no documented flat call for this, so the native side chooses between WMI
	// and fmifs.dll. WMI's storage provider has a cache: the error is
	// ERROR_NOT_READY for a volume that is not in it yet, and
	// ERROR_SERVICE_DISABLED if it lists no volumes at all. For a new volume it
	// may also be ERROR_INVALID_PARAMETER, although nothing is wrong.
	Format(vol string, o FormatOptions) error
	// UpdateStorageCache makes WMI's storage provider look for disks and volumes
	// (MSFT_StorageSetting.UpdateHostStorageCache). It does nothing if Format does
	// not use WMI.
	UpdateStorageCache() error
}

// VolumeInfo is the result of VolumeInformation.
type VolumeInfo struct {
	Label        string
	SerialNumber uint32
	MaxComponent uint32 // longest file name, in UTF-16 units
	Flags        uint32 // FILE_SUPPORTS_REPARSE_POINTS …
	FileSystem   string // "NTFS"
}

// FormatOptions describes how Format creates NTFS. It is a quick format without a label.
type FormatOptions struct {
	ClusterSize uint32 // bytes; 0 lets Windows choose
	// Direct formats without WMI. The error is ERROR_NOT_SUPPORTED if this program
	// or this Windows cannot.
	Direct bool
}

// Files is the file namespace. Its calls are relative to handles (ntdll), so that
// nothing can change between the check of a path and its use.
type Files interface {
	// NtCreateFile opens or creates name relative to root. With root 0, name is
	// an absolute NT path (`\??\C:\`). It returns NTStatus errors. With
	// OBJ_DONT_REPARSE, it returns STATUS_REPARSE_POINT_ENCOUNTERED if a
	// component of the path is a reparse point (for the last component, unless
	// FILE_OPEN_REPARSE_POINT is set). options must have
	// FILE_SYNCHRONOUS_IO_NONALERT, which requires SYNCHRONIZE in access;
	// otherwise the error is STATUS_INVALID_PARAMETER.
	NtCreateFile(root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error)
	// QueryDirectory fills buf with entries of FileFullDirectoryInformation
	// (DecodeDirectory) and returns the number of bytes used. At the end it
	// returns STATUS_NO_MORE_FILES, or STATUS_NO_SUCH_FILE if there was no entry
	// at all, as in the root of an empty volume. restart starts the listing
	// again. Entries include "." and "..", except in a root directory.
	QueryDirectory(h Handle, restart bool, buf []byte) (int, error)
	// QueryInformation is NtQueryInformationFile, for the File…Information
	// classes declared in this package.
	QueryInformation(h Handle, class uint32, buf []byte) (int, error)
	// SetInformation is NtSetInformationFile.
	SetInformation(h Handle, class uint32, in []byte) error
	// QuerySecurity is NtQuerySecurityObject with DACL_SECURITY_INFORMATION: it writes the
	// access control list of an open file or directory to buf, as a self-relative security
	// descriptor (DecodeDACL), and returns its size. If buf is too small, it returns
	// STATUS_BUFFER_TOO_SMALL.
	QuerySecurity(h Handle, buf []byte) (int, error)
	// SetSecurity is NtSetSecurityObject with DACL_SECURITY_INFORMATION: it replaces the access
	// control list of an open file or directory by that of a self-relative security descriptor
	// (EncodeDACL). Entries below a directory keep theirs.
	SetSecurity(h Handle, descriptor []byte) error
	// FinalPath is GetFinalPathNameByHandleW with one of the VOLUME_NAME_ flags, and
	// perhaps FILE_NAME_OPENED.
	FinalPath(h Handle, flags uint32) (string, error)
	// Attributes is GetFileAttributesW. It follows links in the path, but not a
	// link that is the last component.
	Attributes(path string) (uint32, error)
}

// Privileges enables privileges of the process's account, which Windows checks in
// addition to rights.
type Privileges interface {
	// WithPrivilege calls f with an API whose calls have the privilege, if the
	// account holds it, and returns the error of f. f must make these calls on its
	// own goroutine: only its thread has the privilege (ImpersonateSelf,
	// AdjustTokenPrivileges). If the account does not hold the privilege, f is
	// called nevertheless, and a call that needs it fails with its own error, such
	// as ERROR_PRIVILEGE_NOT_HELD.
	WithPrivilege(privilege string, f func(API) error) error
}

// Installation describes the running Windows.
type Installation interface {
	// WindowsDirectory returns the directory of the running Windows, `C:\Windows`
	// (GetSystemWindowsDirectoryW).
	WindowsDirectory() (string, error)
	// ComputerName returns a name of this machine (GetComputerNameExW). kind is one of
	// the constants ComputerName….
	ComputerName(kind uint32) (string, error)
	// RegistryText returns a value of a key of HKEY_LOCAL_MACHINE that is a text or a
	// list of texts (RegQueryValueExW), with environment variables expanded. It returns
	// ERROR_FILE_NOT_FOUND if there is no such key or value.
	RegistryText(key, name string) ([]string, error)
}
