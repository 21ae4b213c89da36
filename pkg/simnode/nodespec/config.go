package nodespec

import "log/slog"

// Config describes a node. Its zero value is the default node: disk 0 with the system
// volume C:, and the blank disks 1 and 2.
//
// The content of a node (Disks, SpannedVolumes, Directories, Services, SMBServers, ISCSI)
// is used only if the state directory is empty, and is stored there. All other fields are
// its behavior, which is that of the Config at each start.
type Config struct {
	// StateDir keeps the node between runs, even if the process is killed. Empty means a
	// temporary directory that is removed at the end. Only one process at a time can use
	// a state directory.
	StateDir string `json:"stateDir,omitempty"`

	// Disks are the initial disks. Empty means the three disks of the default node.
	Disks []Disk `json:"disks,omitempty"`
	// SpannedVolumes are volumes on more than one disk. Windows' tools can make them, but
	// no method of the API.
	SpannedVolumes []SpannedVolume `json:"spannedVolumes,omitempty"`
	// Directories are made on C: in addition to those that every node has, for example
	// `C:\var\lib\kubelet\plugins\disk.csi.example.com`.
	Directories []string `json:"directories,omitempty"`
	// SMBServers are the SMB servers that the node can reach. Empty means
	// files.example.com with the share data and the account csi, password csi.
	SMBServers []SMBServer `json:"smbServers,omitempty"`

	// Services are added to the services that every node has. A service with the same
	// name replaces the node's.
	Services []Service `json:"services,omitempty"`
	// ISCSI is the iSCSI storage that the node can reach. Empty means one target with one
	// LUN, iqn.2025-01.com.example:data at 192.0.2.10.
	ISCSI ISCSI `json:"iscsi,omitzero"`
	// Firmware is the data of the machine's firmware.
	Firmware Firmware `json:"firmware,omitzero"`
	// Registry has the texts of HKEY_LOCAL_MACHINE, by key and name. Unless it says
	// otherwise, Windows has its page file in C:\pagefile.sys.
	Registry map[string][]string `json:"registry,omitempty"`

	// World is the name of one of [Worlds], which has the values of the options of Windows
	// that are empty. "" means the default world.
	World string `json:"world,omitempty"`
	// Windows is how the node's Windows behaves.
	Windows
	// VolumeArrivalDelay is the time from when a partition is made, or its disk goes
	// online, until its volume appears. If it is 0, NewVolumes decides.
	VolumeArrivalDelay Duration `json:"volumeArrivalDelay,omitempty"`
	// StorageCacheDelay is the time from when the cache of WMI's storage provider is
	// updated until a format through WMI knows a new volume. Formatters wait up to 30 s.
	StorageCacheDelay Duration `json:"storageCacheDelay,omitempty"`
	// FormatDuration is how long a format takes.
	FormatDuration Duration `json:"formatDuration,omitempty"`
	// SMBTimeout is how long calls wait for an SMB server that is down or does not exist.
	// Windows was seen to wait 23 s. 0 means a few milliseconds.
	SMBTimeout Duration `json:"smbTimeout,omitempty"`

	// Rules apply to the services of the node. Other processes have rules of their own.
	Rules `json:"-"`
	// Seed makes the IDs of volumes, partitions and disks the same in every run if it is
	// not 0.
	Seed uint64 `json:"-"`
	// Log gets the messages of the node. nil means slog.Default().
	Log *slog.Logger `json:"-"`
}

// Rules limit what callers of one process's services may do. The zero value has no limits,
// as for a driver in process on a real node.
type Rules struct {
	// WorkingDirs are the directories that paths may lead to, as in the daemon. Empty
	// means all.
	WorkingDirs []string `json:"-"`
	// AllowedServices are the services that may be started or stopped, as in the daemon.
	// nil means all.
	AllowedServices []string `json:"-"`
	// FormatExisting allows FormatVolume to format an NTFS volume that contains data, as
	// the daemon does with -format-existing=ntfs.
	FormatExisting bool `json:"-"`
	// OverwriteUnknown allows PartitionDisk and FormatVolume to overwrite a disk or volume
	// that is not blank and has no known content, as the daemon does with
	// -unknown-content=overwrite.
	OverwriteUnknown bool `json:"-"`
	// KeepReadOnly keeps SetDiskState from making a disk writable that is offline and
	// read-only, as the daemon does with -read-only-disks=keep.
	KeepReadOnly bool `json:"-"`
	// UsersModify lets the group Users change everything on volumes that FormatVolume
	// formats, as the daemon does with -volume-root-access=users-modify.
	UsersModify bool `json:"-"`
	// ProtectedDirs are directories whose disks are not changed, besides those that the
	// node needs, as for the daemon's -protected-dir.
	ProtectedDirs []string `json:"-"`
	// NoSMBPrivacy allows SMB mappings without encryption, as the daemon does with
	// -require-privacy=false.
	NoSMBPrivacy bool `json:"-"`
	// AcceptUnverifiedPasswords allows a request to use an SMB mapping in use with a
	// password that could not be verified with the server, as the daemon does with
	// -smb-accept-unverified-passwords.
	AcceptUnverifiedPasswords bool `json:"-"`
}

// Firmware is the data of the machine's firmware.
type Firmware struct {
	// SerialNumber is the system's serial number in the SMBIOS tables. Empty means
	// "EMU-0001".
	SerialNumber string `json:"serialNumber,omitempty"`
	// SMBIOS replaces the tables with SerialNumber. It is hexadecimal and need not be
	// well-formed.
	SMBIOS string `json:"smbios,omitempty"`
}
