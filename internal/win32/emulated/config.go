package emulated

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Config describes a node. Its zero value is the default node: disk 0 with the
// system volume C:, disks 1 and 2 blank.
//
// What a node consists of (Disks, SpannedVolumes, Directories, Services,
// SMBServers, ISCSI) is read when its state directory is empty and kept there from then on. How it behaves
// (delays, policies) is taken from the Config of each Open.
type Config struct {
	// StateDir keeps the node between runs. Empty means a temporary directory
	// that Close removes; one that a killed process left is removed by the next
	// node of that kind.
	StateDir string `json:"stateDir,omitempty"`

	// Disks are attached from the start. None means the three of the default node.
	Disks []DiskConfig `json:"disks,omitempty"`
	// SpannedVolumes lie on more than one disk. They cannot be made through Win32 calls.
	SpannedVolumes []SpannedVolumeConfig `json:"spannedVolumes,omitempty"`
	// Directories are made on C: beside those that every node has, as in
	// `C:\var\lib\kubelet\plugins\disk.csi.example.com`.
	Directories []string `json:"directories,omitempty"`

	// Services are there beside those that every node has, or in place of them.
	Services []ServiceConfig `json:"services,omitempty"`
	// SMBServers are what the node can reach. None means the one of the default
	// node: files.example.com with the share data and the account csi, password csi.
	SMBServers []SMBServerConfig `json:"smbServers,omitempty"`
	// ISCSI is the storage that the node can reach by iSCSI. None means one
	// target with one LUN, iqn.2025-01.com.example:data at 192.0.2.10.
	ISCSI ISCSIConfig `json:"iscsi,omitzero"`
	// Firmware is what the machine tells about itself.
	Firmware FirmwareConfig `json:"firmware,omitzero"`

	// SANPolicy decides about attached disks that do not say themselves whether
	// they are offline: "onlineAll" (the default), "offlineShared" (disks on a
	// bus that several machines may share arrive offline and read-only, as on
	// Windows Server) or "offlineAll".
	SANPolicy string `json:"sanPolicy,omitempty"`
	// AttachNeedsRescan keeps attached disks invisible until Reenumerate.
	AttachNeedsRescan bool `json:"attachNeedsRescan,omitempty"`
	// NoAutomount keeps the mount manager from giving drive letters to new
	// basic volumes whose partition does not forbid it (`automount disable`).
	NoAutomount bool `json:"noAutomount,omitempty"`
	// VolumeArrivalDelay passes between a partition's creation, or its disk's
	// coming online, and the appearance of its volume.
	VolumeArrivalDelay Duration `json:"volumeArrivalDelay,omitempty"`
	// FormatDuration is how long a format takes.
	FormatDuration Duration `json:"formatDuration,omitempty"`
	// CreateDiskAddsMSR makes IOCTL_DISK_CREATE_DISK add a Microsoft reserved
	// partition to a GPT disk by itself. What Windows does is not known for certain.
	CreateDiskAddsMSR bool `json:"createDiskAddsMSR,omitempty"`
	// GrowNeedsLayout makes IOCTL_DISK_GROW_PARTITION refuse to pass the end of
	// the GPT's usable range even though the disk has grown, until
	// IOCTL_DISK_SET_DRIVE_LAYOUT_EX has written the table anew. What Windows
	// does is not known for certain.
	GrowNeedsLayout bool `json:"growNeedsLayout,omitempty"`

	Log   *slog.Logger        `json:"-"` // nil means slog.Default()
	Now   func() time.Time    `json:"-"` // nil means time.Now
	Sleep func(time.Duration) `json:"-"` // how a format passes its time; nil means time.Sleep
	Rand  io.Reader           `json:"-"` // identifiers; nil means crypto/rand
}

// Content is what a disk holds when it is attached.
type Content string

// What a disk may hold at first.
const (
	ContentBlank       Content = "blank"       // zeroes
	ContentMBR         Content = "mbr"         // an MBR and Partitions
	ContentGPT         Content = "gpt"         // a GPT, a Microsoft reserved partition and Partitions
	ContentGPTNoMSR    Content = "gptNoMSR"    // a GPT and Partitions
	ContentSuperfloppy Content = "superfloppy" // NTFS from the first sector on, no partition table
	ContentSystem      Content = "system"      // ESP, Microsoft reserved, and the volume C: with a Windows on it
	ContentImage       Content = "image"       // a copy of the file Image
)

// DiskConfig is a disk to attach.
type DiskConfig struct {
	// Number is the N of PhysicalDriveN; without one, the lowest that is free.
	Number *uint32 `json:"number,omitempty"`
	// ID is the disk's lasting identity: letters, digits, '-' and '_'. A
	// detached disk comes back, with all that is on it, when it is attached by
	// its ID. Without one it gets a random one.
	ID string `json:"id,omitempty"`

	Size       Size    `json:"size,omitempty"`       // bytes; rounded down to whole sectors
	SectorSize uint32  `json:"sectorSize,omitempty"` // 512 (the default) or 4096 bytes
	Content    Content `json:"content,omitempty"`    // ContentBlank without it, ContentImage with Image
	Image      string  `json:"image,omitempty"`      // file to copy from
	// Partitions are laid out one behind the other, from 1 MiB on, on MBR and
	// GPT disks.
	Partitions []PartitionConfig `json:"partitions,omitempty"`

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
	// Identifiers are the SCSI device identification page (83h).
	Identifiers []IdentifierConfig `json:"identifiers,omitempty"`
	// Location is the text of the device location property; without it the
	// property is not supported.
	Location string `json:"location,omitempty"`
	// Address is the SCSI address; without it IOCTL_SCSI_GET_ADDRESS is not supported.
	Address *win32.SCSIAddress `json:"address,omitempty"`
}

// PartitionConfig is a partition that a disk has from the start.
type PartitionConfig struct {
	Size       Size   `json:"size,omitempty"`       // bytes; 0 takes what is left
	Type       string `json:"type,omitempty"`       // "basic" (the default), "esp", "msr", "recovery", "ldmData", "ldmMetadata", "spaces"
	FileSystem string `json:"fileSystem,omitempty"` // "NTFS", or "" for unformatted
	Letter     string `json:"letter,omitempty"`     // drive letter, "E"; "" for none
}

// SpannedVolumeConfig is a volume made of ranges of several disks. The ranges
// must lie outside all partitions but those of LDM.
type SpannedVolumeConfig struct {
	Extents []ExtentConfig `json:"extents"`
}

// ExtentConfig is one range of a spanned volume.
type ExtentConfig struct {
	Disk   uint32 `json:"disk"`
	Offset Size   `json:"offset"`
	Length Size   `json:"length"`
}

// IdentifierConfig is one identifier of page 83h: Text for the code sets "ascii"
// and "utf8", Hex for "binary".
type IdentifierConfig struct {
	CodeSet     string `json:"codeSet"`               // "binary", "ascii", "utf8"
	Type        uint32 `json:"type"`                  // 0 vendor specific, 1 T10 vendor ID, 2 EUI-64, 3 NAA, 8 SCSI name
	Association string `json:"association,omitempty"` // "device" (the default), "port", "target"
	Text        string `json:"text,omitempty"`
	Hex         string `json:"hex,omitempty"`
}

// identifier is the STORAGE_IDENTIFIER that c means.
func (c IdentifierConfig) identifier() (win32.Identifier, error) {
	id := win32.Identifier{Type: c.Type}
	switch c.CodeSet {
	case "binary":
		id.CodeSet = win32.StorageIdCodeSetBinary
	case "ascii":
		id.CodeSet = win32.StorageIdCodeSetAscii
	case "utf8":
		id.CodeSet = win32.StorageIdCodeSetUtf8
	default:
		return id, fmt.Errorf("identifier: code set %q, want binary, ascii or utf8", c.CodeSet)
	}
	switch c.Association {
	case "", "device":
		id.Association = win32.StorageIdAssocDevice
	case "port":
		id.Association = win32.StorageIdAssocPort
	case "target":
		id.Association = win32.StorageIdAssocTarget
	default:
		return id, fmt.Errorf("identifier: association %q, want device, port or target", c.Association)
	}
	if (c.Text == "") == (c.Hex == "") {
		return id, errors.New("identifier: want either text or hex")
	}
	id.ID = []byte(c.Text)
	if c.Hex != "" {
		var err error
		if id.ID, err = hex.DecodeString(c.Hex); err != nil {
			return id, fmt.Errorf("identifier: hex %q: %w", c.Hex, err)
		}
	}
	if len(id.ID) > 255 {
		return id, fmt.Errorf("identifier of %d bytes, want at most 255", len(id.ID))
	}
	return id, nil
}

// busTypes are the names of DiskConfig.Bus.
func busType(name string) (uint32, error) {
	switch strings.ToLower(name) {
	case "", "sas":
		return win32.BusTypeSas, nil
	case "scsi":
		return win32.BusTypeScsi, nil
	case "iscsi":
		return win32.BusTypeISCSI, nil
	case "nvme":
		return win32.BusTypeNvme, nil
	case "sata":
		return win32.BusTypeSata, nil
	case "ata":
		return win32.BusTypeAta, nil
	case "virtual":
		return win32.BusTypeVirtual, nil
	case "vhd":
		return win32.BusTypeFileBackedVirtual, nil
	}
	return 0, fmt.Errorf("bus %q, want sas, scsi, iscsi, nvme, sata, ata, virtual or vhd", name)
}

// sharedBus tells whether other machines may use a disk on that bus too: the
// SAN policy "offlineShared" is about those (Microsoft: diskpart, san).
func sharedBus(bus uint32) bool {
	switch bus {
	case win32.BusTypeScsi, win32.BusTypeISCSI, win32.BusTypeSas:
		return true
	}
	return false
}

// The names of Config.SANPolicy.
const (
	sanOnlineAll     = "onlineAll"
	sanOfflineShared = "offlineShared"
	sanOfflineAll    = "offlineAll"
)

func (c Config) validate() error {
	switch c.SANPolicy {
	case "", sanOnlineAll, sanOfflineShared, sanOfflineAll:
	default:
		return fmt.Errorf("SAN policy %q, want %s, %s or %s", c.SANPolicy, sanOnlineAll, sanOfflineShared, sanOfflineAll)
	}
	if c.VolumeArrivalDelay < 0 || c.FormatDuration < 0 {
		return errors.New("a delay is negative")
	}
	if err := checkSMB(c.SMBServers); err != nil {
		return err
	}
	for _, s := range c.Services {
		if err := s.validate(); err != nil {
			return err
		}
	}
	if err := c.ISCSI.validate(); err != nil {
		return err
	}
	if _, err := hex.DecodeString(c.Firmware.SMBIOS); err != nil {
		return fmt.Errorf("firmware: SMBIOS tables: %w", err)
	}
	for i, d := range c.Disks {
		if err := d.validate(); err != nil {
			return fmt.Errorf("disk %d of the configuration: %w", i, err)
		}
	}
	for i, v := range c.SpannedVolumes {
		if len(v.Extents) < 2 {
			return fmt.Errorf("spanned volume %d: %d extents, want at least 2", i, len(v.Extents))
		}
	}
	return nil
}

// minDisk and maxDisk bound the size of a disk.
const (
	minDisk = 4 << 20
	maxDisk = 256 << 40 // what NTFS can use with 64 KiB clusters
)

func (c DiskConfig) validate() error {
	if c.SectorSize != 0 && c.SectorSize != 512 && c.SectorSize != 4096 {
		return fmt.Errorf("sector size %d, want 512 or 4096", c.SectorSize)
	}
	if c.ID != "" && (len(c.ID) > 64 || strings.Trim(c.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "") {
		return fmt.Errorf("disk ID %q, want at most 64 letters, digits, '-' and '_'", c.ID)
	}
	if c.Content != ContentImage && c.Image != "" && c.Content != "" {
		return fmt.Errorf("content %q and an image %q, want one of them", c.Content, c.Image)
	}
	switch c.Content {
	case "", ContentBlank, ContentMBR, ContentGPT, ContentGPTNoMSR, ContentSuperfloppy, ContentSystem:
	case ContentImage:
		if c.Image == "" {
			return errors.New(`content "image" without an image file`)
		}
	default:
		return fmt.Errorf("content %q, want blank, mbr, gpt, gptNoMSR, superfloppy, system or image", c.Content)
	}
	if c.Size != 0 && (c.Size < minDisk || c.Size > maxDisk) {
		return fmt.Errorf("disk of %d bytes, want %d to %d", c.Size, uint64(minDisk), uint64(maxDisk))
	}
	if len(c.Partitions) > 0 && c.Content != ContentMBR && c.Content != ContentGPT && c.Content != ContentGPTNoMSR {
		return fmt.Errorf("partitions on a disk with content %q, want mbr, gpt or gptNoMSR", c.Content)
	}
	if _, err := busType(c.Bus); err != nil {
		return err
	}
	for _, id := range c.Identifiers {
		if _, err := id.identifier(); err != nil {
			return err
		}
	}
	return nil
}

// Size is a number of bytes. In JSON and YAML it is a number, or a text such as
// "10GiB", "512 MB" or "1Ti".
type Size uint64

// MarshalJSON implements [json.Marshaler].
func (s Size) MarshalJSON() ([]byte, error) { return strconv.AppendUint(nil, uint64(s), 10), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Size) UnmarshalJSON(b []byte) error {
	text := string(b)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	v, err := ParseSize(text)
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// ParseSize reads a whole number of bytes with an optional unit: K, M, G, T
// with i (1024) or without (1000), and an optional B.
func ParseSize(text string) (Size, error) {
	t := strings.TrimSpace(text)
	digits := strings.IndexFunc(t, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(t)
	}
	v, err := strconv.ParseUint(t[:digits], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a whole number of bytes with an optional unit, as in 10GiB", text)
	}
	unit := strings.ToLower(strings.TrimSpace(t[digits:]))
	unit = strings.TrimSuffix(unit, "b")
	base := uint64(1000)
	if strings.HasSuffix(unit, "i") {
		base, unit = 1024, unit[:len(unit)-1]
		if unit == "" {
			unit = "?"
		}
	}
	power := strings.Index("kmgt", unit)
	if unit == "" {
		power = -1
	} else if power < 0 || len(unit) != 1 {
		return 0, fmt.Errorf("size %q: unit unknown, want K, M, G or T, with i for powers of 1024, and B", text)
	}
	for range power + 1 {
		if v > (1<<64-1)/base {
			return 0, fmt.Errorf("size %q does not fit 64 bits", text)
		}
		v *= base
	}
	return Size(v), nil
}

// Duration is a [time.Duration]; in JSON and YAML a text such as "150ms".
type Duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration %s: want a text such as \"150ms\"", b)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
