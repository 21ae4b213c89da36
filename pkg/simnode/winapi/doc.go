// Package winapi is the vocabulary of a [simnode.Fault]: the calls of Windows
// that CSI Proxy makes, the codes that some of them carry, and what they can
// answer. All are untyped constants, names as Microsoft spells them; a call
// that stands for several functions of Windows has a name of its own.
//
//	n.Fail(simnode.Fault{
//		Call:  winapi.DeviceIoControl,
//		Code:  winapi.IOCTL_DISK_GROW_PARTITION,
//		Error: winapi.ERROR_INVALID_PARAMETER,
//		Times: 1,
//	})
//
// # Which call to let fail
//
// A fault stands below the services: it happens to a call of Windows, not to a
// method of an Interface. That is what makes it worth having, since the driver's
// error is then the one that it would get on a node. Most methods have one
// call that nothing else makes, and which is the one to name:
//
//	PartitionDisk         DeviceIoControl  IOCTL_DISK_CREATE_DISK, IOCTL_DISK_SET_DRIVE_LAYOUT_EX
//	SetDiskState          DeviceIoControl  IOCTL_DISK_SET_DISK_ATTRIBUTES
//	GetDiskState          DeviceIoControl  IOCTL_DISK_GET_DISK_ATTRIBUTES
//	GetDiskStats          CreateFile, with the Path of the disk
//	ListDiskIDs           Interfaces
//	Rescan                Reenumerate
//	FormatVolume          Format
//	IsVolumeFormatted     VolumeInformation
//	GetVolumeStats        FreeSpace
//	ListVolumesOnDisk     VolumeNames
//	MountVolume           SetMountPoint
//	UnmountVolume         DeleteMountPoint
//	ResizeVolume          DeviceIoControl  IOCTL_DISK_GROW_PARTITION, FSCTL_EXTEND_VOLUME
//	WriteVolumeCache      FlushFileBuffers
//	CreateSymlink         DeviceIoControl  FSCTL_SET_REPARSE_POINT
//	Rmdir, RmdirContents  SetInformation
//	Mkdir, PathExists     NtCreateFile, with the Path of the directory
//	NewSMBGlobalMapping   UseAdd
//	RemoveSMBGlobalMapping UseDel
//	ConnectTarget         LoginIScsiTarget
//	DisconnectTarget      LogoutIScsiTarget
//	DiscoverTargetPortal  RefreshIScsiSendTargetPortal
//	StartService          StartService
//	StopService           ControlService
//	GetBIOSSerialNumber   FirmwareTable
//
// Some make their call only when there is work to do: an empty NTFS is not
// formatted again. Some go on without an answer that they can do without: a disk
// that does not tell its identifiers is listed without them. [simnode.Node.Record] shows the calls that were made.
//
// # Errors that pass
//
// A device that has just arrived answers ERROR_ACCESS_DENIED,
// ERROR_SHARING_VIOLATION, ERROR_NOT_READY, ERROR_BUSY or ERROR_NO_SUCH_DEVICE
// for a moment, and the services wait up to two seconds and a half for that to
// pass. To see a method fail at once, and at the first try, use another one, such
// as ERROR_GEN_FAILURE; to see it wait, one of these and a number of Times.
//
// [simnode.Fault]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode#Fault
// [simnode.Node.Record]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode#Node.Record
package winapi
