package nodespec

import (
	"log/slog"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

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

	// World is [WorldStrict] (the default) or [WorldKind]: how Windows behaves where Windows
	// does not say, and where versions of it differ.
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
	rules.Rules `json:"-"`
	// Seed makes the IDs of volumes, partitions and disks the same in every run if it is
	// not 0.
	Seed uint64 `json:"-"`
	// Log gets the messages of the node. nil means slog.Default().
	Log *slog.Logger `json:"-"`
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
