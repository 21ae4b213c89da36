package winapi

// AnyCall stands for every call but CloseHandle, which does not fail in Windows:
// a handle that cannot be closed is lost.
const AnyCall = "*"

// Handles and devices.
const (
	CreateFile       = "CreateFile"       // opens a disk, a volume or a device (CreateFileW)
	CloseHandle      = "CloseHandle"      // closes what CreateFile and NtCreateFile opened
	DeviceIoControl  = "DeviceIoControl"  // sends a control code, which is the Code of a fault
	ReadAt           = "ReadAt"           // reads bytes of a disk or volume
	WriteAt          = "WriteAt"          // writes bytes of a disk or volume
	FlushFileBuffers = "FlushFileBuffers" // writes what is cached of a volume
	Interfaces       = "Interfaces"       // lists disks or volumes that are present (SetupDiGetClassDevsW …)
	Reenumerate      = "Reenumerate"      // looks for new devices (CM_Reenumerate_DevNode)
)

// Volumes.
const (
	VolumeNames             = "VolumeNames"             // lists all volumes (FindFirstVolumeW …)
	VolumeInformation       = "VolumeInformation"       // tells the file system of a volume (GetVolumeInformationW)
	FreeSpace               = "FreeSpace"               // is GetDiskFreeSpaceExW
	VolumePathName          = "VolumePathName"          // is GetVolumePathNameW
	VolumeNameForMountPoint = "VolumeNameForMountPoint" // is GetVolumeNameForVolumeMountPointW
	VolumePathNames         = "VolumePathNames"         // is GetVolumePathNamesForVolumeNameW
	SetMountPoint           = "SetMountPoint"           // mounts a volume at a directory (SetVolumeMountPointW)
	DeleteMountPoint        = "DeleteMountPoint"        // unmounts it (DeleteVolumeMountPointW)
	Format                  = "Format"                  // makes a file system; Windows has no flat call for it
)

// Files and directories.
const (
	NtCreateFile     = "NtCreateFile"     // opens or creates a file, directory or link
	QueryDirectory   = "QueryDirectory"   // lists a directory (NtQueryDirectoryFile)
	QueryInformation = "QueryInformation" // is NtQueryInformationFile; the class is the Code of a fault
	SetInformation   = "SetInformation"   // is NtSetInformationFile, which removes files; the class is the Code
	FinalPath        = "FinalPath"        // is GetFinalPathNameByHandleW
	Attributes       = "Attributes"       // is GetFileAttributesW
	WindowsDirectory = "WindowsDirectory" // is GetSystemWindowsDirectoryW
)

// Services and firmware.
const (
	ServiceStatus     = "ServiceStatus"     // is QueryServiceStatusEx
	ServiceConfig     = "ServiceConfig"     // is QueryServiceConfigW
	StartService      = "StartService"      // is StartServiceW
	ControlService    = "ControlService"    // stops a service; the control is the Code
	DependentServices = "DependentServices" // is EnumDependentServicesW
	FirmwareTable     = "FirmwareTable"     // is GetSystemFirmwareTable
)

// SMB.
const (
	UseAdd  = "UseAdd"  // maps a share (NetUseAdd)
	UseEnum = "UseEnum" // lists mappings (NetUseEnum)
	UseDel  = "UseDel"  // removes a mapping (NetUseDel)
)

// The iSCSI initiator (iscsidsc.dll).
const (
	AddIScsiSendTargetPortal          = "AddIScsiSendTargetPortal"          // registers a portal
	GetDevicesForIScsiSession         = "GetDevicesForIScsiSession"         // lists the disks of a session
	GetIScsiSessionList               = "GetIScsiSessionList"               // lists sessions
	IScsiTargetDiscovery              = "IScsiTargetDiscovery"              // tells how a target was found (GetIScsiTargetInformation)
	LoginIScsiTarget                  = "LoginIScsiTarget"                  // logs in
	LogoutIScsiTarget                 = "LogoutIScsiTarget"                 // logs out
	RefreshIScsiSendTargetPortal      = "RefreshIScsiSendTargetPortal"      // asks a portal for its targets
	RemoveIScsiPersistentTarget       = "RemoveIScsiPersistentTarget"       // ends one of them
	RemoveIScsiSendTargetPortal       = "RemoveIScsiSendTargetPortal"       // forgets a portal
	ReportIScsiPersistentLogins       = "ReportIScsiPersistentLogins"       // lists logins that Windows makes by itself
	ReportIScsiSendTargetPortals      = "ReportIScsiSendTargetPortals"      // lists registered portals
	ReportIScsiTargetPortals          = "ReportIScsiTargetPortals"          // lists the portals of a target (GetIScsiTargetInformation)
	ReportIScsiTargets                = "ReportIScsiTargets"                // lists targets
	SetIScsiInitiatorCHAPSharedSecret = "SetIScsiInitiatorCHAPSharedSecret" // sets the secret for mutual CHAP
)
