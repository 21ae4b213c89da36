package nodespec

// Disk describes a disk to attach.
type Disk struct {
	// Number is the N of PhysicalDriveN; nil means the lowest that is free.
	Number *uint32 `json:"number,omitempty"`
	// ID is the disk's lasting identity: letters, digits, '-' and '_'. A
	// detached disk comes back, with everything on it, when it is attached by
	// its ID. Empty means a random one.
	ID string `json:"id,omitempty"`

	Size       Size   `json:"size,omitempty"`       // bytes; rounded down to whole sectors
	SectorSize uint32 `json:"sectorSize,omitempty"` // 512 (the default) or 4096 bytes
	// Content is what a new disk holds: [ContentBlank] (the default), or
	// [ContentImage] if Image is set, or another of those constants.
	Content string `json:"content,omitempty"`
	Image   string `json:"image,omitempty"` // file to copy
	// Partitions are laid out one after the other, from 1 MiB on, on MBR and GPT
	// disks.
	Partitions []Partition `json:"partitions,omitempty"`
	// Bytes replace parts of the content of a new disk, after everything else
	// was written.
	Bytes []Bytes `json:"bytes,omitempty"`

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
	Identifiers []Identifier `json:"identifiers,omitempty"`
	// Location is the text of the device's location property; without it Windows
	// does not support the property.
	Location string `json:"location,omitempty"`
	// Address is the SCSI address; without it Windows has none.
	Address *Address `json:"address,omitempty"`
}

// The values of [Disk.Content].
const (
	ContentBlank       = "blank"       // zeroes
	ContentMBR         = "mbr"         // an MBR and Partitions
	ContentGPT         = "gpt"         // a GPT, a Microsoft reserved partition and Partitions
	ContentGPTNoMSR    = "gptNoMSR"    // a GPT and Partitions
	ContentSuperfloppy = "superfloppy" // NTFS from the first sector on, no partition table
	ContentSystem      = "system"      // ESP, Microsoft reserved, and the volume C: with a Windows on it
	ContentImage       = "image"       // a copy of the file Image
)

// Partition is a partition that a disk has from the start.
type Partition struct {
	Size       Size   `json:"size,omitempty"`       // bytes; 0 takes what is left
	Type       string `json:"type,omitempty"`       // "basic" (the default), "esp", "msr", "recovery", "ldmData", "ldmMetadata", "spaces"
	FileSystem string `json:"fileSystem,omitempty"` // "NTFS", or "" for unformatted
	Letter     string `json:"letter,omitempty"`     // drive letter, "E"; "" for none
}

// Bytes are bytes at an offset. In JSON the data is base64.
type Bytes struct {
	At   Size   `json:"at"`
	Data []byte `json:"data"`
}

// SpannedVolume is a volume made of ranges of several disks. The ranges must lie
// outside all partitions but those of LDM.
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
	CodeSet     string `json:"codeSet"`               // "binary", "ascii", "utf8"
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
