package nodespec

import "log/slog"

// Config describes a node. Its zero value is the default node: disk 0 with the
// system volume C:, disks 1 and 2 blank.
//
// What a node consists of (Disks, SpannedVolumes, Directories, Services,
// SMBServers, ISCSI) is read when its state directory is empty, and kept there
// from then on. How it behaves (all other fields) is taken from the Config of
// each start.
type Config struct {
	// StateDir keeps the node between runs, also if the process is killed. Empty
	// means a temporary directory that is removed at the end. One process at a
	// time can have a state directory open.
	StateDir string `json:"stateDir,omitempty"`

	// Disks are attached from the start. None means the three of the default
	// node.
	Disks []Disk `json:"disks,omitempty"`
	// SpannedVolumes lie on more than one disk. Windows' tools make them, and no
	// call of the API does; CSI Proxy has to cope with them.
	SpannedVolumes []SpannedVolume `json:"spannedVolumes,omitempty"`
	// Directories are made on C: in addition to those that every node has, as in
	// `C:\var\lib\kubelet\plugins\disk.csi.example.com`.
	Directories []string `json:"directories,omitempty"`
	// SMBServers are those that the node can reach. None means the one of the
	// default node: files.example.com with the share data and the account csi,
	// password csi.
	SMBServers []SMBServer `json:"smbServers,omitempty"`

	// Services are added to those that every node has. One of the same name
	// replaces that of the node.
	Services []Service `json:"services,omitempty"`
	// ISCSI is the storage that the node can reach by iSCSI. None means one
	// target with one LUN, iqn.2025-01.com.example:data at 192.0.2.10.
	ISCSI ISCSI `json:"iscsi,omitzero"`
	// Firmware is what the machine's firmware reports.
	Firmware Firmware `json:"firmware,omitzero"`

	// SANPolicy decides about attached disks whose Offline is not set:
	// [SANOnlineAll] (the default), [SANOfflineShared] or [SANOfflineAll].
	SANPolicy string `json:"sanPolicy,omitempty"`
	// AttachNeedsRescan keeps attached disks invisible until a rescan.
	AttachNeedsRescan bool `json:"attachNeedsRescan,omitempty"`
	// NoAutomount keeps the mount manager from giving drive letters to new basic
	// volumes whose partition does not forbid it (`automount disable`).
	NoAutomount bool `json:"noAutomount,omitempty"`
	// VolumeArrivalDelay passes between the creation of a partition, or its disk
	// coming online, and the appearance of its volume.
	VolumeArrivalDelay Duration `json:"volumeArrivalDelay,omitempty"`
	// FormatDuration is how long a format takes.
	FormatDuration Duration `json:"formatDuration,omitempty"`
	// CreateDiskAddsMSR makes IOCTL_DISK_CREATE_DISK add a Microsoft reserved
	// partition to a GPT disk. What Windows does is not known for certain.
	CreateDiskAddsMSR bool `json:"createDiskAddsMSR,omitempty"`
	// GrowNeedsLayout makes IOCTL_DISK_GROW_PARTITION refuse to pass the end of
	// the GPT's usable range although the disk has grown, until
	// IOCTL_DISK_SET_DRIVE_LAYOUT_EX has written the table again. What Windows
	// does is not known for certain.
	GrowNeedsLayout bool `json:"growNeedsLayout,omitempty"`

	// Rules are those of the node's own services. Other processes on the node
	// have theirs.
	Rules `json:"-"`
	// Seed, if it is not 0, makes the identities of volumes, partitions and
	// disks the same in every run.
	Seed uint64 `json:"-"`
	// Log gets the messages of the node; nil means slog.Default().
	Log *slog.Logger `json:"-"`
}

// The values of [Config.SANPolicy].
const (
	SANOnlineAll     = "onlineAll"
	SANOfflineShared = "offlineShared" // disks on a bus that several machines may share arrive offline and read-only, as on Windows Server
	SANOfflineAll    = "offlineAll"    // every disk does
)

// Rules limit the callers of the services of one process. The zero Rules are
// those of a driver in process on a real node.
type Rules struct {
	// WorkingDirs, when not empty, are the only directories below which paths
	// may resolve, as in the daemon. Empty means anywhere.
	WorkingDirs []string `json:"-"`
	// AllowedServices, when not nil, are the only services that may be started
	// or stopped, as in the daemon. nil means all.
	AllowedServices []string `json:"-"`
	// FormatExisting lets FormatVolume format an NTFS file system that holds data, as
	// the daemon does with -format-existing=ntfs.
	FormatExisting bool `json:"-"`
	// NoSMBPrivacy lets SMB mappings be made without encryption, as the daemon
	// does with -require-privacy=false.
	NoSMBPrivacy bool `json:"-"`
	// AcceptUnverifiedPasswords lets a request use an SMB mapping in use with a
	// password that the server could not be asked about, as the daemon does with
	// -smb-accept-unverified-passwords.
	AcceptUnverifiedPasswords bool `json:"-"`
}

// Firmware is what the machine's firmware reports.
type Firmware struct {
	// SerialNumber is the system's serial number in the SMBIOS tables; empty
	// means "EMU-0001".
	SerialNumber string `json:"serialNumber,omitempty"`
	// SMBIOS, in hexadecimal, replaces the tables that would hold SerialNumber,
	// and need not be well formed.
	SMBIOS string `json:"smbios,omitempty"`
}
