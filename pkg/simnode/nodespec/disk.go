package nodespec

// Disk describes a disk to attach.
type Disk struct {
	// Number is the N of PhysicalDriveN. nil means the lowest free number.
	Number *uint32 `json:"number,omitempty"`
	// ID identifies the disk even after it was detached: letters, digits, '-' and '_'.
	// Attaching a disk with the ID of a detached disk attaches that disk with its
	// content. Empty means a random ID.
	ID string `json:"id,omitempty"`

	Size       Size   `json:"size,omitempty"`       // bytes; rounded down to whole sectors
	SectorSize uint32 `json:"sectorSize,omitempty"` // 512 (the default) or 4096 bytes
	// Content is the content of a new disk: one of the constants below. The default is
	// [ContentBlank], or [ContentImage] if Image is set.
	Content string `json:"content,omitempty"`
	Image   string `json:"image,omitempty"` // file to copy
	// Partitions are the partitions of an MBR or GPT disk, one after the other from
	// 1 MiB on.
	Partitions []Partition `json:"partitions,omitempty"`
	// Bytes overwrite parts of a new disk after everything else was written.
	Bytes []Bytes `json:"bytes,omitempty"`

	// Offline and ReadOnly override the SAN policy.
	Offline  *bool `json:"offline,omitempty"`
	ReadOnly *bool `json:"readOnly,omitempty"`
	// WriteProtected protects the medium itself. No call can change it.
	WriteProtected bool `json:"writeProtected,omitempty"`
	// Clustered makes the disk one that a failover cluster manages.
	Clustered bool `json:"clustered,omitempty"`

	Bus      string `json:"bus,omitempty"` // "sas" (the default), "scsi", "iscsi", "nvme", "sata", "ata", "virtual", "vhd"
	Vendor   string `json:"vendor,omitempty"`
	Product  string `json:"product,omitempty"`
	Revision string `json:"revision,omitempty"`
	Serial   string `json:"serial,omitempty"`
	// Identifiers are the identifiers of the SCSI page 83h.
	Identifiers []Identifier `json:"identifiers,omitempty"`
	// Location is the text of the device's location property. Empty means that the device
	// does not support the property.
	Location string `json:"location,omitempty"`
	// Namespace is the number at the end of the path of an NVMe disk: on Azure the disk's LUN
	// plus 1, on EBS 0.
	Namespace uint32 `json:"namespace,omitempty"`
	// Removable makes the medium removable.
	Removable bool `json:"removable,omitempty"`
	// Address is the SCSI address, or nil.
	Address *Address `json:"address,omitempty"`
}

// The values of [Disk.Content].
const (
	ContentBlank       = "blank"       // zeroes
	ContentMBR         = "mbr"         // an MBR and Partitions
	ContentGPT         = "gpt"         // a GPT, a Microsoft reserved partition and Partitions
	ContentGPTNoMSR    = "gptNoMSR"    // a GPT and Partitions
	ContentSuperfloppy = "superfloppy" // NTFS from the first sector, without a partition table
	ContentSystem      = "system"      // EFI and Microsoft reserved partitions, and the volume C: with Windows
	ContentImage       = "image"       // a copy of the file Image
)

// Partition is an initial partition of a disk.
type Partition struct {
	Size       Size   `json:"size,omitempty"`       // bytes; 0 means the rest of the disk
	Type       string `json:"type,omitempty"`       // "basic" (the default), "esp", "msr", "recovery", "ldmData", "ldmMetadata", "spaces"
	FileSystem string `json:"fileSystem,omitempty"` // "NTFS", or "" for unformatted
	Label      string `json:"label,omitempty"`      // of an NTFS volume
	Letter     string `json:"letter,omitempty"`     // drive letter such as "E"; "" means none
}

// Bytes are bytes at an offset. In JSON the data is base64.
type Bytes struct {
	At   Size   `json:"at"`
	Data []byte `json:"data"`
}

// SpannedVolume is a volume made of ranges of several disks. The ranges must be outside
// all partitions except those of LDM.
type SpannedVolume struct {
	Extents []Extent `json:"extents"`
}

// Extent is one range of a spanned volume.
type Extent struct {
	Disk   uint32 `json:"disk"`
	Offset Size   `json:"offset"`
	Length Size   `json:"length"`
}

// Identifier is one identifier of page 83h. Text holds it in the code sets "ascii" and
// "utf8", Hex in "binary".
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
