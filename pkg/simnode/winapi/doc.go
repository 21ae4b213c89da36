// Package winapi has the names of the Windows calls that CSI Proxy makes, for a [simnode.Fault].
// A call that stands for several Windows functions has a name of its own. The codes that some
// calls take, and the errors that they return, are Microsoft's names as text; the node refuses
// one that it does not know, and says which one may be meant.
//
//	n.Fail(simnode.Fault{
//		Call:     winapi.DeviceIoControl,
//		CodeName: "IOCTL_DISK_GROW_PARTITION",
//		Error:    "ERROR_INVALID_PARAMETER",
//		Times:    1,
//	})
//
// # Which call to make fail
//
// A fault affects a Windows call, not a method of an Interface. So the driver gets
// the error that it would get on a real node. Most methods make one call that no
// other method makes; that is the call to choose:
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
//	ListVolumesOnDisk     DeviceIoControl  IOCTL_DISK_GET_DRIVE_LAYOUT_EX
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
// Some methods make their call only if there is work to do: an empty NTFS volume
// is not formatted again. Some ignore a failed call: a disk that does not return
// its identifiers is listed without them. [simnode.Node.Record] shows the calls
// that were made.
//
// # Transient errors
//
// A device that has just arrived can return ERROR_ACCESS_DENIED,
// ERROR_SHARING_VIOLATION, ERROR_NOT_READY, ERROR_BUSY or ERROR_NO_SUCH_DEVICE for
// a short time. The services retry on these errors for up to 2.5 seconds. To make
// a method fail immediately, use another error, such as ERROR_GEN_FAILURE. To test
// that it retries, use one of these with a number of Times.
//
// [simnode.Fault]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode#Fault
// [simnode.Node.Record]: https://pkg.go.dev/github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode#Node.Record
package winapi
