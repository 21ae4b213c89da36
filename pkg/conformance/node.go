package conformance

import (
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Node is a node under test. A field that is nil is not supported; the cases that
// need it are skipped.
type Node struct {
	Disk       disk.Service
	Volume     volume.Service
	Filesystem filesystem.Service
	SMB        smb.Service
	ISCSI      iscsi.Service
	System     system.Service

	// Dir is an empty directory on the system volume that a case may use, for
	// example `C:\var\lib\kubelet\plugins\contract`.
	Dir string
	// Confined says that the node applies the daemon's rules: it refuses paths
	// outside the working directory that Dir is in, shares of the node itself,
	// administrative shares, and services that are not listed.
	Confined bool
	// SystemDisk is the number of the disk that Windows runs from.
	SystemDisk uint32
	// Spanned are the two disks of the volume that [Setup.Spanned] asks for.
	Spanned []uint32

	// Attach attaches a new disk and returns its number. A disk that it cannot make
	// is [errors.ErrUnsupported], and the case is skipped.
	Attach func(Disk) (uint32, error)
	// Detach removes a disk even if it is in use. The function that it returns
	// attaches the same disk again, possibly under another number.
	Detach func(number uint32) (attach func() (uint32, error), err error)
	// Grow makes a disk larger. Windows sees the new size after a rescan.
	Grow func(number uint32, size uint64) error
	// Restart restarts Windows.
	Restart func() error
	// AddSMBServer adds an SMB server to the node's network. Each of its shares has a
	// directory "inside" with an empty directory "inside" in it.
	AddSMBServer func(SMBServer) error
	// SetSMBPassword changes the password of an account on a server. Existing
	// connections keep working until the server goes down.
	SetSMBPassword func(server, user, password string) error
	// SetSMBDown makes a server unreachable, or reachable again.
	SetSMBDown func(server string, down bool) error
	// SMBMappings returns the node's global mappings.
	SMBMappings func() ([]SMBMapping, error)
	// SetISCSITarget adds an iSCSI target that the node can reach.
	SetISCSITarget func(ISCSITarget) error
	// SetService adds a Windows service that does nothing. If the node limits
	// services, it must allow contract-base, contract-left, contract-right and
	// contract-top, and refuse contract-unlisted.
	SetService func(Service) error
	// MakeFile makes an empty file at a path that does not exist.
	MakeFile func(path string) error
	// Fail makes a Windows call fail or take longer until Heal is called. hits
	// returns how many calls were affected. Cases set Call, Code, Error, Times and
	// Delay of the fault.
	Fail func(Fault) (hits func() uint32, err error)
	// Heal removes all faults and releases the calls that they delay.
	Heal func()
	// OpenHandles describes the open handles. There must be none while no call
	// runs. It is nil if the node cannot list them.
	OpenHandles func() ([]string, error)
}

// Setup is how a case needs its node to be configured.
type Setup struct {
	// ArrivalDelay is the time from when a partition is made, or its disk goes
	// online, until Windows has its volume.
	ArrivalDelay time.Duration
	// World and Windows are how Windows has to behave, as in [nodespec.Config]. The node
	// chooses what is empty.
	World   string
	Windows Windows
	// Spanned gives the node a volume without a file system that spans two disks.
	Spanned bool
}

// Cases describe their nodes with the types of package nodespec, like simulated nodes.
type (
	Windows     = nodespec.Windows
	Disk        = nodespec.Disk
	Partition   = nodespec.Partition
	Bytes       = nodespec.Bytes
	Identifier  = nodespec.Identifier
	Address     = nodespec.Address
	Service     = nodespec.Service
	SMBServer   = nodespec.SMBServer
	SMBAccount  = nodespec.SMBAccount
	SMBMapping  = nodespec.SMBMappingInfo
	ISCSITarget = nodespec.ISCSITarget
	Fault       = nodespec.Fault
)

// yes is for Offline and ReadOnly of a [Disk].
func yes() *bool {
	is := true
	return &is
}

// Control codes that cases make fail (winioctl.h).
const (
	getDeviceNumber = 0x2D1080 // IOCTL_STORAGE_GET_DEVICE_NUMBER
	queryProperty   = 0x2D1400 // IOCTL_STORAGE_QUERY_PROPERTY
	createDisk      = 0x7C058  // IOCTL_DISK_CREATE_DISK
	setLayout       = 0x7C054  // IOCTL_DISK_SET_DRIVE_LAYOUT_EX
	updateSize      = 0x7C0C8  // IOCTL_DISK_UPDATE_DRIVE_SIZE
	setAttributes   = 0x7C0F4  // IOCTL_DISK_SET_DISK_ATTRIBUTES
	growPartition   = 0x7C0D0  // IOCTL_DISK_GROW_PARTITION
	extendVolume    = 0x900F0  // FSCTL_EXTEND_VOLUME
	volumeExtents   = 0x560000 // IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS
)
