package simnode

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
)

// Config describes a node. Its zero value is the default node: disk 0 with the
// system volume C:, disks 1 and 2 blank.
//
// What a node consists of (Disks, SpannedVolumes, Directories, Services, ISCSI)
// is read when its state directory is empty and kept there from then on. How it behaves (all
// else) is taken from the Config of each Open.
//
// The JSON names are those of the daemon's -node-config file.
type Config struct {
	// StateDir keeps the node between runs, and survives a kill. Empty means a
	// temporary directory that Close removes. One process at a time can have a
	// state directory open.
	StateDir string `json:"stateDir,omitempty"`

	// Disks are attached from the start. None means the three of the default
	// node.
	Disks []Disk `json:"disks,omitempty"`
	// SpannedVolumes lie on more than one disk. Windows tools make them, CSI
	// Proxy has to cope with them.
	SpannedVolumes []SpannedVolume `json:"spannedVolumes,omitempty"`
	// Directories are made on C: beside those that every node has.
	Directories []string `json:"directories,omitempty"`
	// SMBServers are what the node can reach. None means the one of the default
	// node: files.example.com with the share data and the account csi, password csi.
	SMBServers []SMBServer `json:"smbServers,omitempty"`

	// Services are there beside those that every node has, or in place of them.
	Services []Service `json:"services,omitempty"`
	// ISCSI is the storage that the node can reach by iSCSI. None means one
	// target with one LUN, iqn.2025-01.com.example:data at 192.0.2.10.
	ISCSI ISCSI `json:"iscsi,omitzero"`
	// Firmware is what the machine tells about itself.
	Firmware Firmware `json:"firmware,omitzero"`

	// SANPolicy decides about attached disks that do not say themselves whether
	// they are offline: "onlineAll" (the default), "offlineShared" (disks on a
	// bus that several machines may share arrive offline and read-only, as on
	// Windows Server) or "offlineAll".
	SANPolicy string `json:"sanPolicy,omitempty"`
	// AttachNeedsRescan keeps attached disks invisible until a rescan.
	AttachNeedsRescan bool `json:"attachNeedsRescan,omitempty"`
	// NoAutomount keeps Windows from giving drive letters to new volumes.
	NoAutomount bool `json:"noAutomount,omitempty"`
	// VolumeArrivalDelay passes between a partition's creation, or its disk's
	// coming online, and the appearance of its volume.
	VolumeArrivalDelay Duration `json:"volumeArrivalDelay,omitempty"`
	// FormatDuration is how long a format takes.
	FormatDuration Duration `json:"formatDuration,omitempty"`
	// CreateDiskAddsMSR makes a new GPT come with a Microsoft reserved
	// partition. What Windows does is not known for certain.
	CreateDiskAddsMSR bool `json:"createDiskAddsMSR,omitempty"`
	// GrowNeedsLayout makes a partition stay within the old end of a disk that
	// has grown until its table was written anew. What Windows does is not
	// known for certain.
	GrowNeedsLayout bool `json:"growNeedsLayout,omitempty"`

	// Rules are those of the node's own Interfaces. Other processes have theirs.
	Rules `json:"-"`
	// Seed, if it is not 0, makes the identities of volumes, partitions and
	// disks the same in every run.
	Seed uint64 `json:"-"`
	// Log gets what the node has to say; nil means slog.Default().
	Log *slog.Logger `json:"-"`
}

// Disk describes a disk to attach.
type Disk struct {
	// Number is the N of PhysicalDriveN; without one, the lowest that is free.
	Number *uint32 `json:"number,omitempty"`
	// ID is the disk's lasting identity: letters, digits, '-' and '_'. A
	// detached disk comes back, with all that is on it, when it is attached by
	// its ID. Without one it gets a random one.
	ID string `json:"id,omitempty"`

	Size       Size   `json:"size,omitempty"`
	SectorSize uint32 `json:"sectorSize,omitempty"` // 512 (the default) or 4096 bytes
	// Content is what the disk holds: "blank" (the default), "mbr", "gpt"
	// (with a Microsoft reserved partition), "gptNoMSR", "superfloppy" (a file
	// system and no table), "system" (C: with a Windows on it) or "image" (a
	// copy of the file Image).
	Content string `json:"content,omitempty"`
	Image   string `json:"image,omitempty"`
	// Partitions are laid out one behind the other on MBR and GPT disks.
	Partitions []Partition `json:"partitions,omitempty"`

	// Offline and ReadOnly override the SAN policy.
	Offline  *bool `json:"offline,omitempty"`
	ReadOnly *bool `json:"readOnly,omitempty"`
	// WriteProtected is a lock on the medium itself, which no call removes.
	WriteProtected bool `json:"writeProtected,omitempty"`

	Bus      string `json:"bus,omitempty"` // "sas" (the default), "scsi", "iscsi", "nvme", "sata", "ata", "virtual", "vhd"
	Vendor   string `json:"vendor,omitempty"`
	Product  string `json:"product,omitempty"`
	Revision string `json:"revision,omitempty"`
	Serial   string `json:"serial,omitempty"`
	// Identifiers are what the disk reports in its page 83h.
	Identifiers []Identifier `json:"identifiers,omitempty"`
	// Location is the text of the device's location property; without it Windows
	// does not support the property.
	Location string `json:"location,omitempty"`
	// Address is the SCSI address; without it Windows has none.
	Address *Address `json:"address,omitempty"`
}

// Partition is a partition that a disk has from the start.
type Partition struct {
	Size       Size   `json:"size,omitempty"`       // 0 takes what is left
	Type       string `json:"type,omitempty"`       // "basic" (the default), "esp", "msr", "recovery", "ldmData", "ldmMetadata", "spaces"
	FileSystem string `json:"fileSystem,omitempty"` // "NTFS", or "" for unformatted
	Letter     string `json:"letter,omitempty"`     // drive letter, "E"; "" for none
}

// SpannedVolume is a volume made of ranges of several disks, outside of all
// partitions but those of LDM.
type SpannedVolume struct {
	Extents []Extent `json:"extents"`
}

// Extent is one range of a spanned volume.
type Extent struct {
	Disk   uint32 `json:"disk"`
	Offset Size   `json:"offset"`
	Length Size   `json:"length"`
}

// Identifier is one identifier of page 83h: Text for the code sets "ascii" and
// "utf8", Hex for "binary".
type Identifier struct {
	CodeSet     string `json:"codeSet"`
	Type        uint32 `json:"type"`                  // 0 vendor specific, 1 T10 vendor ID, 2 EUI-64, 3 NAA, 8 SCSI name
	Association string `json:"association,omitempty"` // "device" (the default), "port", "target"
	Text        string `json:"text,omitempty"`
	Hex         string `json:"hex,omitempty"`
}

// Address is a SCSI address.
type Address struct {
	Port   uint8 `json:"port"`
	Path   uint8 `json:"path"`
	Target uint8 `json:"target"`
	Lun    uint8 `json:"lun"`
}

// Service is a Windows service. Its life is a table of delays: nothing runs
// behind it, except that MSiSCSI answers the calls of the iSCSI initiator.
type Service struct {
	// Name is the key name, as "MSiSCSI"; one name whatever its case.
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"` // Name without it
	// StartType is "boot", "system", "auto", "manual" (the default) or "disabled".
	StartType string `json:"startType,omitempty"`
	// State is "running", "stopped" or "paused" at first; without it, running
	// for what Windows starts by itself, else stopped.
	State string `json:"state,omitempty"`
	// DependsOn are services that must run for this one to run.
	DependsOn []string `json:"dependsOn,omitempty"`
	// StartDelay and StopDelay are how long the pending states last.
	StartDelay Duration `json:"startDelay,omitempty"`
	StopDelay  Duration `json:"stopDelay,omitempty"`
	// WaitHint is the estimate that the service gives while it is pending. It
	// makes progress four times in that time.
	WaitHint Duration `json:"waitHint,omitempty"`
	// StartError is the Win32 error number with which starting is refused, as
	// 1069 for an account that cannot log on.
	StartError uint32 `json:"startError,omitempty"`
	// Dies makes the service end with this Win32 error number instead of
	// running, once StartDelay is over, as 1067 for a process that crashes.
	Dies uint32 `json:"dies,omitempty"`
	// RefusesStop makes it accept no stop.
	RefusesStop bool `json:"refusesStop,omitempty"`
	// Hangs keeps it "start" or "stop" pending for good, without progress.
	Hangs string `json:"hangs,omitempty"`
}

// Firmware is what the machine tells about itself.
type Firmware struct {
	// SerialNumber is the system's serial number; without it, "EMU-0001".
	SerialNumber string `json:"serialNumber,omitempty"`
	// SMBIOS, in hexadecimal, is answered in place of the tables that would hold
	// SerialNumber, whatever it is.
	SMBIOS string `json:"smbios,omitempty"`
}

// Size is a number of bytes. In JSON, YAML and flags it is a number, or a text
// such as "10GiB", "512 MB" or "1Ti".
type Size uint64

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Size) UnmarshalJSON(b []byte) error { return (*emulated.Size)(s).UnmarshalJSON(b) }

// ParseSize reads a whole number of bytes with an optional unit, as in 10GiB.
func ParseSize(text string) (Size, error) {
	s, err := emulated.ParseSize(text)
	return Size(s), err
}

// String is the number of bytes.
func (s Size) String() string { return strconv.FormatUint(uint64(s), 10) }

// Duration is a [time.Duration]; in JSON and YAML a text such as "150ms".
type Duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return emulated.Duration(d).MarshalJSON() }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(b []byte) error { return (*emulated.Duration)(d).UnmarshalJSON(b) }

// translate makes the type of the emulation from ours. Both have the same JSON,
// which a test holds them to.
func translate[To, From any](from From) (to To, err error) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		return to, fmt.Errorf("simulated node: configuration: %w", err)
	}
	return to, nil
}
