package conformance

import (
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
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
	// Lacks names the methods that the node's version of the API, or every version,
	// does not have; [ListPartition] stands for the partition number of
	// ListVolumesOnDisk. These methods must return [errors.ErrUnsupported]; cases
	// that call them are skipped.
	Lacks []string
	// SystemDisk is the number of the disk that Windows runs from.
	SystemDisk uint32
	// Spanned are the two disks of the volume that [Setup.Spanned] asks for.
	Spanned []uint32

	// Attach attaches a new disk and returns its number.
	Attach func(Disk) (uint32, error)
	// Detach removes a disk even if it is in use. The function that it returns
	// attaches the same disk again, possibly under another number.
	Detach func(number uint32) (attach func() (uint32, error), err error)
	// Grow makes a disk larger. Windows sees the new size after a rescan.
	Grow func(number uint32, size uint64) error
	// Restart restarts Windows.
	Restart func() error
	// AddSMBServer adds an SMB server to the node's network.
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
	// returns how many calls were affected.
	Fail func(Fault) (hits func() uint32, err error)
	// Heal removes all faults and releases the calls that they delay.
	Heal func()
	// OpenHandles describes the open handles. There must be none while no call
	// runs. It is nil if the node cannot list them.
	OpenHandles func() ([]string, error)
}

// ListPartition is a value for [Node.Lacks].
const ListPartition = "ListVolumesOnDisk of a partition"

// Setup is how a case needs its node to be configured.
type Setup struct {
	// ArrivalDelay is the time from when a partition is made, or its disk goes
	// online, until Windows has its volume.
	ArrivalDelay time.Duration
	// AttachNeedsRescan hides attached disks until the next rescan.
	AttachNeedsRescan bool
	// ArriveOffline attaches disks offline and read-only, as the SAN policy of
	// Windows Server does on shared buses.
	ArriveOffline bool
	// TableAddsReserved makes Windows add a reserved partition to every new GPT.
	TableAddsReserved bool
	// GrowthNeedsTable stops partitions from growing past the old end of their
	// disk until the partition table has been rewritten.
	GrowthNeedsTable bool
	// Spanned gives the node a volume without a file system that spans two disks.
	Spanned bool
}

// Table is the partition table of a disk.
type Table string

// The tables of [Disk].
const (
	Blank       Table = ""            // no table, all zeroes
	MBR         Table = "mbr"         // master boot record
	GPT         Table = "gpt"         // with a Microsoft reserved partition
	GPTNoMSR    Table = "gptNoMSR"    // without a Microsoft reserved partition
	Superfloppy Table = "superfloppy" // no table, NTFS from the first sector
)

// Disk describes a disk to attach.
type Disk struct {
	Table      Table
	Size       uint64 // bytes
	SectorSize uint32 // bytes; 0 means 512
	Partitions []Partition
	// Bytes overwrite the disk after its table and file systems were written.
	Bytes []Bytes

	// Offline and ReadOnly are attributes that Windows keeps for the disk;
	// WriteProtected protects the medium itself.
	Offline, ReadOnly, WriteProtected bool

	Bus         string // "sas" (and ""), "scsi", "nvme", "sata", "ata", "virtual", "vhd"
	Serial      string
	Identifiers []Identifier // SCSI page 83h
	Location    string       // Windows' location string
	Address     *Address
}

// Partition is a partition of a disk. It begins where the one before it ends.
type Partition struct {
	Size       uint64 // bytes; 0 takes the rest of the disk
	Type       string // "basic" (and ""), "esp", "recovery"
	FileSystem string // "NTFS" or "" (none)
	Letter     string // drive letter such as "E"; "" means none
}

// Bytes are bytes at an offset.
type Bytes struct {
	At   uint64
	Data []byte
}

// Identifier is a SCSI page 83h identifier. Text holds it in the code sets "ascii"
// and "utf8", Hex in "binary".
type Identifier struct {
	CodeSet     string
	Type        uint32
	Association string // "device" (and ""), "port", "target"
	Text, Hex   string
}

// Address is a SCSI address.
type Address struct{ Port, Path, Target, Lun uint8 }

// SMBServer is a server with shares that its accounts may use. Each share has a
// directory "inside" with an empty directory "inside" in it.
type SMBServer struct {
	Name         string // as in \\name\share
	Shares       []string
	Passwords    map[string]string // passwords of the accounts, by user
	NoEncryption bool              // the server does not support SMB encryption
}

// SMBMapping is a global mapping.
type SMBMapping struct {
	Remote string // \\server\share
	User   string
	Works  bool // Windows reports the status OK
}

// ISCSITarget is a target that listens on port 3260.
type ISCSITarget struct {
	IQN, Address string
	LUNs         []uint64 // sizes in bytes
	// A login needs ChapUser and ChapSecret; the target proves that it knows
	// MutualSecret. Without a user the target accepts only logins without CHAP.
	ChapUser, ChapSecret, MutualSecret string
}

// Service is a Windows service that starts on demand.
type Service struct {
	Name      string
	Running   bool
	DependsOn []string // services that must run for it to run
}

// Fault makes a Windows call fail or take longer.
type Fault struct {
	Call  string        // Microsoft's name of the call, or that of package winapi ("Format")
	Code  uint32        // the control code, for DeviceIoControl
	Error string        // name or number of the Win32 error; "" if the call is only delayed
	Times uint32        // how many calls; 0 means all until Heal
	Delay time.Duration // how long a call waits before it fails or continues; Heal ends the wait
}

// Control codes that cases make fail (winioctl.h).
const (
	getDeviceNumber  = 0x2D1080 // IOCTL_STORAGE_GET_DEVICE_NUMBER
	queryProperty    = 0x2D1400 // IOCTL_STORAGE_QUERY_PROPERTY
	createDisk       = 0x7C058  // IOCTL_DISK_CREATE_DISK
	setLayout        = 0x7C054  // IOCTL_DISK_SET_DRIVE_LAYOUT_EX
	getLayout        = 0x70050  // IOCTL_DISK_GET_DRIVE_LAYOUT_EX
	updateProperties = 0x70140  // IOCTL_DISK_UPDATE_PROPERTIES
	updateSize       = 0x7C0C8  // IOCTL_DISK_UPDATE_DRIVE_SIZE
	setAttributes    = 0x7C0F4  // IOCTL_DISK_SET_DISK_ATTRIBUTES
	getAttributes    = 0x700F0  // IOCTL_DISK_GET_DISK_ATTRIBUTES
	growPartition    = 0x7C0D0  // IOCTL_DISK_GROW_PARTITION
	extendVolume     = 0x900F0  // FSCTL_EXTEND_VOLUME
	getLength        = 0x7405C  // IOCTL_DISK_GET_LENGTH_INFO
	getReparsePoint  = 0x900A8  // FSCTL_GET_REPARSE_POINT
	setReparsePoint  = 0x900A4  // FSCTL_SET_REPARSE_POINT
	ntfsData         = 0x90064  // FSCTL_GET_NTFS_VOLUME_DATA
	volumeExtents    = 0x560000 // IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS
)
