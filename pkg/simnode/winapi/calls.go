package winapi

// AnyCall means every call but CloseHandle. Windows does not fail CloseHandle, and
// a handle that is not closed would leak.
const AnyCall = "*"

// Handles and devices.
const (
	CreateFile       = "CreateFile"       // opens a disk, a volume or a device (CreateFileW)
	CloseHandle      = "CloseHandle"      // closes a handle of CreateFile or NtCreateFile
	DeviceIoControl  = "DeviceIoControl"  // sends a control code, the Code of a fault
	ReadAt           = "ReadAt"           // reads bytes of a disk or volume
	WriteAt          = "WriteAt"          // writes bytes of a disk or volume
	FlushFileBuffers = "FlushFileBuffers" // flushes the cache of a volume
	Interfaces       = "Interfaces"       // lists the disks that are present (SetupDiGetClassDevsW …)
	Reenumerate      = "Reenumerate"      // rescans for new devices (CM_Reenumerate_DevNode)
	OfflineReasons   = "OfflineReasons"   // returns why disks are offline (MSFT_Disk.OfflineReason)
)

// Volumes.
const (
	VolumeNames             = "VolumeNames"             // lists all volumes (FindFirstVolumeW …)
	VolumeInformation       = "VolumeInformation"       // returns the file system of a volume (GetVolumeInformationW)
	FreeSpace               = "FreeSpace"               // returns the size and free space of a volume (GetDiskFreeSpaceExW)
	VolumePathName          = "VolumePathName"          // returns the mount point that a path is on (GetVolumePathNameW)
	VolumeNameForMountPoint = "VolumeNameForMountPoint" // returns the volume of a mount point (GetVolumeNameForVolumeMountPointW)
	VolumePathNames         = "VolumePathNames"         // lists the mount points of a volume (GetVolumePathNamesForVolumeNameW)
	SetMountPoint           = "SetMountPoint"           // mounts a volume on a directory (SetVolumeMountPointW)
	DeleteMountPoint        = "DeleteMountPoint"        // unmounts a volume from a directory (DeleteVolumeMountPointW)
	Format                  = "Format"                  // makes a file system; Windows has several ways and no single function
	UpdateStorageCache      = "UpdateStorageCache"      // makes WMI look for disks and volumes (MSFT_StorageSetting.UpdateHostStorageCache)
)

// Files and directories.
const (
	NtCreateFile     = "NtCreateFile"     // opens or creates a file, directory or link
	QueryDirectory   = "QueryDirectory"   // lists a directory (NtQueryDirectoryFile)
	QueryInformation = "QueryInformation" // reads properties of a file (NtQueryInformationFile); the class is the Code of a fault
	QuerySecurity    = "QuerySecurity"    // reads the access control list of the root of a new volume (NtQuerySecurityObject)
	SetSecurity      = "SetSecurity"      // sets it (NtSetSecurityObject)
	SetInformation   = "SetInformation"   // renames or removes a file (NtSetInformationFile); the class is the Code of a fault
	FinalPath        = "FinalPath"        // returns the path of a handle (GetFinalPathNameByHandleW)
	Attributes       = "Attributes"       // returns the attributes of a path (GetFileAttributesW)
	WithPrivilege    = "WithPrivilege"    // enables a privilege, the Path of a fault, for other calls (AdjustTokenPrivileges)
	WindowsDirectory = "WindowsDirectory" // returns where Windows is installed (GetSystemWindowsDirectoryW)
	RegistryText     = "RegistryText"     // returns a text of HKEY_LOCAL_MACHINE (RegQueryValueExW); key and name are the Path of a fault
	ComputerName     = "ComputerName"     // returns a name of the machine (GetComputerNameExW); the kind is the Code of a fault
)

// Services and firmware.
const (
	ServiceStatus     = "ServiceStatus"     // returns the state of a service (QueryServiceStatusEx)
	ServiceConfig     = "ServiceConfig"     // returns the configuration of a service (QueryServiceConfigW)
	StartService      = "StartService"      // starts a service (StartServiceW)
	ControlService    = "ControlService"    // stops a service; the control is the Code of a fault
	DependentServices = "DependentServices" // lists the services that depend on a service (EnumDependentServicesW)
	FirmwareTable     = "FirmwareTable"     // reads the SMBIOS tables (GetSystemFirmwareTable)
)

// SMB.
const (
	UseAdd  = "UseAdd"  // maps a share (NetUseAdd)
	UseEnum = "UseEnum" // lists mappings (NetUseEnum)
	UseDel  = "UseDel"  // removes a mapping (NetUseDel)
	// LogonToServer checks credentials at a server (LogonUserW, NetUseAdd of IPC$).
	LogonToServer = "LogonToServer"
)

// The iSCSI initiator (iscsidsc.dll).
const (
	AddIScsiSendTargetPortal          = "AddIScsiSendTargetPortal"          // registers a portal
	GetDevicesForIScsiSession         = "GetDevicesForIScsiSession"         // lists the disks of a session
	GetIScsiSessionList               = "GetIScsiSessionList"               // lists sessions
	IScsiTargetDiscovery              = "IScsiTargetDiscovery"              // returns how a target was discovered (GetIScsiTargetInformation)
	LoginIScsiTarget                  = "LoginIScsiTarget"                  // logs in to a target
	LogoutIScsiTarget                 = "LogoutIScsiTarget"                 // logs out of a session
	RefreshIScsiSendTargetPortal      = "RefreshIScsiSendTargetPortal"      // asks a portal for its targets
	RemoveIScsiPersistentTarget       = "RemoveIScsiPersistentTarget"       // removes a persistent login
	RemoveIScsiSendTargetPortal       = "RemoveIScsiSendTargetPortal"       // removes a portal
	ReportIScsiPersistentLogins       = "ReportIScsiPersistentLogins"       // lists persistent logins, which Windows repeats after a restart
	ReportIScsiSendTargetPortals      = "ReportIScsiSendTargetPortals"      // lists registered portals
	ReportIScsiTargetPortals          = "ReportIScsiTargetPortals"          // lists the portals of a target (GetIScsiTargetInformation)
	ReportIScsiTargets                = "ReportIScsiTargets"                // lists targets
	SetIScsiInitiatorCHAPSharedSecret = "SetIScsiInitiatorCHAPSharedSecret" // sets the secret for mutual CHAP
)
