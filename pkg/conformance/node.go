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

// Node is a node under test. What is nil it does not have, and the cases that
// need it are skipped.
type Node struct {
	Disk       disk.Interface
	Volume     volume.Interface
	Filesystem filesystem.Interface
	SMB        smb.Interface
	ISCSI      iscsi.Interface
	System     system.Interface

	// Dir is an empty directory on the volume of Windows, for a case to work in:
	// `C:\var\lib\kubelet\plugins\contract`.
	Dir string
	// Confined tells that paths outside of Dir's working directory are refused,
	// as the daemon does, and so are shares of the node itself, shares for
	// administrators, and services that are not listed.
	Confined bool
	// Lacks are methods that the version of the API behind the node does not have,
	// by name; ListPartition stands for the partition number of ListVolumesOnDisk.
	// They have to answer [errors.ErrUnsupported], and the cases that call one are
	// skipped there.
	Lacks []string
	// SystemDisk is the disk that Windows runs from.
	SystemDisk uint32
	// Spanned are the two disks of the volume that [Setup.Spanned] asks for.
	Spanned []uint32

	// Attach plugs in a disk that the node had not before, and tells its number.
	Attach func(Disk) (uint32, error)
	// Detach takes a disk away, whatever uses it. With what it returns the disk
	// comes back, as it was, perhaps under another number.
	Detach func(number uint32) (attach func() (uint32, error), err error)
	// Grow makes a disk larger, behind Windows' back: it sees that with a rescan.
	Grow func(number uint32, size uint64) error
	// Restart restarts Windows.
	Restart func() error
	// AddSMBServer puts another SMB server on the node's network.
	AddSMBServer func(SMBServer) error
	// SetSMBPassword changes the password of an account of a server. Connections
	// go on with the old one until the server goes down.
	SetSMBPassword func(server, user, password string) error
	// SetSMBDown takes a server away from the network, or brings it back.
	SetSMBDown func(server string, down bool) error
	// SMBMappings are the global mappings that the node has.
	SMBMappings func() ([]SMBMapping, error)
	// SetISCSITarget makes an iSCSI target that the node can reach.
	SetISCSITarget func(ISCSITarget) error
	// SetService makes a Windows service that does nothing. Where services are
	// limited, those named contract-base, contract-left, contract-right and
	// contract-top may be started and stopped, and contract-unlisted may not.
	SetService func(Service) error
	// MakeFile puts an empty file where there is nothing.
	MakeFile func(path string) error
	// Fail makes a call of Windows fail or take its time, until Heal. hits
	// tells how often that happened.
	Fail func(Fault) (hits func() uint32, err error)
	// Heal ends all faults, and the waiting of calls that they hold up.
	Heal func()
	// OpenHandles describes the handles that are open, or is nil if the node
	// cannot tell. There are none while no call runs.
	OpenHandles func() ([]string, error)
}

// ListPartition is for [Node.Lacks].
const ListPartition = "ListVolumesOnDisk of a partition"

// Setup is what a case wants of its node from the start.
type Setup struct {
	// ArrivalDelay passes between a partition's creation, or its disk's coming
	// online, and the arrival of its volume.
	ArrivalDelay time.Duration
	// AttachNeedsRescan keeps disks that are attached invisible until a rescan.
	AttachNeedsRescan bool
	// ArriveOffline makes attached disks come offline and read-only, as the SAN
	// policy of Windows Server does for shared buses.
	ArriveOffline bool
	// TableAddsReserved makes Windows put a reserved partition of its own into a
	// new GPT.
	TableAddsReserved bool
	// GrowthNeedsTable keeps a partition from growing beyond the old end of a
	// disk until the disk's table was written anew.
	GrowthNeedsTable bool
	// Spanned gives the node a volume without file system that lies on two disks.
	Spanned bool
}

// Table is how a disk is divided.
type Table string

// The tables of [Disk].
const (
	Blank       Table = ""            // none, all zeroes
	MBR         Table = "mbr"         //
	GPT         Table = "gpt"         // with a Microsoft reserved partition
	GPTNoMSR    Table = "gptNoMSR"    // without
	Superfloppy Table = "superfloppy" // none: NTFS from the first sector on
)

// Disk is a kind of disk.
type Disk struct {
	Table      Table
	Size       uint64 // bytes
	SectorSize uint32 // bytes; 0 means 512
	Partitions []Partition
	// Bytes replace what the disk holds, after all else was put there.
	Bytes []Bytes

	// Offline and ReadOnly are what Windows remembers of the disk;
	// WriteProtected is a lock on the medium itself.
	Offline, ReadOnly, WriteProtected bool

	Bus         string // "sas" (and ""), "scsi", "nvme", "sata", "ata", "virtual", "vhd"
	Serial      string
	Identifiers []Identifier // of page 83h
	Location    string       // as Windows words it
	Address     *Address
}

// Partition is a partition of a disk, laid out behind the one before it.
type Partition struct {
	Size       uint64 // bytes; 0 takes what is left
	Type       string // "basic" (and ""), "esp", "recovery"
	FileSystem string // "NTFS", or "" for none
	Letter     string // drive letter, "E"; "" for none
}

// Bytes are bytes at an offset.
type Bytes struct {
	At   uint64
	Data []byte
}

// Identifier is an identifier of page 83h: Text in the code sets "ascii" and
// "utf8", Hex in "binary".
type Identifier struct {
	CodeSet     string
	Type        uint32
	Association string // "device" (and ""), "port", "target"
	Text, Hex   string
}

// Address is a SCSI address.
type Address struct{ Port, Path, Target, Lun uint8 }

// SMBServer is a server with shares that its accounts may use. Each of them has
// a directory "inside", which has an empty one of that name.
type SMBServer struct {
	Name         string // as in \\name\share
	Shares       []string
	Passwords    map[string]string // of the accounts, by user
	NoEncryption bool              // it cannot encrypt
}

// SMBMapping is a global mapping.
type SMBMapping struct {
	Remote string // \\server\share
	User   string
	Works  bool // Windows tells the status OK
}

// ISCSITarget is a target that listens on port 3260.
type ISCSITarget struct {
	IQN, Address string
	LUNs         []uint64 // sizes in bytes
	// ChapUser and ChapSecret are what a login needs, and MutualSecret what the
	// target proves to know; without a user none is taken.
	ChapUser, ChapSecret, MutualSecret string
}

// Service is a Windows service that starts when it is asked to.
type Service struct {
	Name      string
	Running   bool
	DependsOn []string // services that must run for it to run
}

// Fault is what happens to a call of Windows: Call is its name as Microsoft
// spells it, or as package win32 of this project does ("Format"), and Code the
// control code of a DeviceIoControl.
type Fault struct {
	Call  string
	Code  uint32
	Error string        // the Win32 error's name or number; "" if the call only takes longer
	Times uint32        // 0 means until Heal
	Delay time.Duration // before it fails or goes on; Heal ends it
}

// Control codes that cases let fail (winioctl.h).
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
