package win32

// Handle is an open object of Windows, or of the emulated node. The zero Handle
// is never open.
type Handle uintptr

// API is what CSI Proxy asks of Windows, call by call. An API may be used by
// several goroutines at once. A call cannot be cancelled: whoever must respect
// a deadline puts a call that may block on a worker.
type API interface {
	Handles
	Devices
	Volumes
	Files
	Installation
	Services
	Firmware
	ISCSI
	SMB
}

// Handles opens devices and talks to what is open.
type Handles interface {
	// CreateFile opens a device or volume (CreateFileW). path is `\\.\PhysicalDrive2`, a
	// device interface path, or a volume name without its trailing backslash.
	CreateFile(path string, access, share, disposition, flags uint32) (Handle, error)
	// CloseHandle closes what CreateFile or NtCreateFile opened.
	CloseHandle(h Handle) error
	// DeviceIoControl sends a control code and returns how many bytes of out
	// were filled in; n is valid with ERROR_MORE_DATA too. The caller grows out
	// on ERROR_INSUFFICIENT_BUFFER and ERROR_MORE_DATA.
	DeviceIoControl(h Handle, code uint32, in, out []byte) (n int, err error)
	// ReadAt and WriteAt move bytes at an offset (an OVERLAPPED offset; devices
	// want multiples of their sector size).
	ReadAt(h Handle, p []byte, off int64) (int, error)
	WriteAt(h Handle, p []byte, off int64) (int, error)
	// FlushFileBuffers writes what is cached for h; on a volume handle, for all
	// its files.
	FlushFileBuffers(h Handle) error
}

// Devices finds devices.
type Devices interface {
	// Interfaces lists the present interfaces of a device interface class
	// (SetupDiGetClassDevsW and its companions).
	Interfaces(class GUID) ([]Interface, error)
	// Reenumerate looks for new and vanished devices in the whole device tree
	// (CM_Reenumerate_DevNode on the root, synchronous).
	Reenumerate() error
}

// Interface is a present device interface.
type Interface struct {
	Path string // `\\?\scsi#disk&ven_…#{53f56307-…}`, openable with CreateFile
}

// Volumes is the mount manager and what is known of mounted file systems. A
// "root" or "volume" here ends in a backslash: `\\?\Volume{…}\`, `C:\`.
type Volumes interface {
	// VolumeNames lists every volume of the node (FindFirstVolumeW, FindNextVolumeW).
	VolumeNames() ([]string, error)
	// VolumeInformation tells the file system on a volume (GetVolumeInformationW).
	// ERROR_UNRECOGNIZED_VOLUME means that no file system driver knows its content.
	VolumeInformation(root string) (VolumeInfo, error)
	// FreeSpace is GetDiskFreeSpaceExW; all three are bytes. avail is limited by
	// the caller's quota, free is not.
	FreeSpace(root string) (avail, total, free uint64, err error)
	// VolumePathName is the mount point under which p lies (GetVolumePathNameW);
	// it also answers for trailing parts that do not exist.
	VolumePathName(p string) (string, error)
	// VolumeNameForMountPoint is the volume mounted at root
	// (GetVolumeNameForVolumeMountPointW).
	VolumeNameForMountPoint(root string) (string, error)
	// VolumePathNames lists drive letters and folders at which vol is mounted
	// (GetVolumePathNamesForVolumeNameW).
	VolumePathNames(vol string) ([]string, error)
	// SetMountPoint mounts vol at an empty directory (SetVolumeMountPointW); dir
	// ends in a backslash.
	SetMountPoint(dir, vol string) error
	// DeleteMountPoint removes the mount point at dir, which stays as a plain
	// directory (DeleteVolumeMountPointW).
	DeleteMountPoint(dir string) error
	// Format makes a file system on vol and destroys what is there. Windows has
	// no documented flat call for it, so what the native side uses for it
	// (WMI or fmifs.dll) stays below this line.
	Format(vol string, o FormatOptions) error
}

// VolumeInfo is the answer of VolumeInformation.
type VolumeInfo struct {
	Label        string
	SerialNumber uint32
	MaxComponent uint32 // longest file name, in UTF-16 units
	Flags        uint32 // FILE_SUPPORTS_REPARSE_POINTS …
	FileSystem   string // "NTFS"
}

// FormatOptions says which file system Format makes.
type FormatOptions struct {
	FileSystem  string // "NTFS"
	Label       string
	Quick       bool
	ClusterSize uint32 // bytes; 0 lets Windows choose
}

// Files is the file namespace, handle-relative (ntdll), so that nothing can
// change between the check of a path and its use.
type Files interface {
	// NtCreateFile opens or creates name, relative to root, or, with root 0, an
	// absolute NT path (`\??\C:\`). It answers NTStatus errors; with
	// OBJ_DONT_REPARSE, STATUS_REPARSE_POINT_ENCOUNTERED when a component on the
	// way (or the last one, unless FILE_OPEN_REPARSE_POINT) is a reparse point.
	// options must have FILE_SYNCHRONOUS_IO_NONALERT, which in turn makes Windows
	// want SYNCHRONIZE in access: STATUS_INVALID_PARAMETER otherwise.
	NtCreateFile(root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error)
	// QueryDirectory fills buf with entries of FileFullDirectoryInformation
	// (DecodeDirectory) and returns the bytes used; STATUS_NO_MORE_FILES ends
	// the listing (STATUS_NO_SUCH_FILE if it never had an entry, as in the root
	// of an empty volume), restart begins it anew. "." and ".." are among them,
	// but for a root.
	QueryDirectory(h Handle, restart bool, buf []byte) (int, error)
	// QueryInformation is NtQueryInformationFile for the File…Information
	// classes declared in this package.
	QueryInformation(h Handle, class uint32, buf []byte) (int, error)
	// SetInformation is NtSetInformationFile.
	SetInformation(h Handle, class uint32, in []byte) error
	// FinalPath is GetFinalPathNameByHandleW with one of the VOLUME_NAME_ flags.
	FinalPath(h Handle, flags uint32) (string, error)
	// Attributes is GetFileAttributesW: it follows links on the way, not the last one.
	Attributes(path string) (uint32, error)
}

// Installation tells about the Windows that runs.
type Installation interface {
	// WindowsDirectory is the directory of the running Windows, `C:\Windows`
	// (GetSystemWindowsDirectoryW).
	WindowsDirectory() (string, error)
}
