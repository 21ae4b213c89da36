package api

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// The declarations below are published, for drivers that send control codes to disks
// themselves. This package does not use them: package win32 of this project encodes and
// decodes field by field, because lengths and offsets from a device cannot be trusted.
// Names, types and values are the published ones, even where they are surprising: of
// some groups of constants only the first one is typed.

// Control codes.
const (
	IOCTL_STORAGE_GET_DEVICE_NUMBER = win32.IOCTL_STORAGE_GET_DEVICE_NUMBER
	IOCTL_STORAGE_QUERY_PROPERTY    = win32.IOCTL_STORAGE_QUERY_PROPERTY
)

// Disk is the device path and the serial number of a disk.
type Disk struct {
	Path         string `json:"Path"`
	SerialNumber string `json:"SerialNumber"`
}

// DeviceType is a FILE_DEVICE_ constant; 7 is a disk.
type DeviceType uint32

// StorageDeviceNumber is Windows' STORAGE_DEVICE_NUMBER.
type StorageDeviceNumber struct {
	DeviceType      DeviceType
	DeviceNumber    uint32
	PartitionNumber uint32
}

// StoragePropertyID is a STORAGE_PROPERTY_ID.
type StoragePropertyID uint32

// StorageDeviceProperty is the first property of storage devices.
const StorageDeviceProperty StoragePropertyID = 0

// The other properties of storage devices. From StorageDeviceIoCapabilityProperty on,
// the published values differ from those of Windows, which continue with 48.
const (
	StorageAdapterProperty                 = 1
	StorageDeviceIDProperty                = 2
	StorageDeviceUniqueIDProperty          = 3
	StorageDeviceWriteCacheProperty        = 4
	StorageMiniportProperty                = 5
	StorageAccessAlignmentProperty         = 6
	StorageDeviceSeekPenaltyProperty       = 7
	StorageDeviceTrimProperty              = 8
	StorageDeviceWriteAggregationProperty  = 9
	StorageDeviceDeviceTelemetryProperty   = 10
	StorageDeviceLBProvisioningProperty    = 11
	StorageDevicePowerProperty             = 12
	StorageDeviceCopyOffloadProperty       = 13
	StorageDeviceResiliencyProperty        = 14
	StorageDeviceMediumProductType         = 15
	StorageAdapterRpmbProperty             = 16
	StorageAdapterCryptoProperty           = 17
	StorageDeviceIoCapabilityProperty      = 18
	StorageAdapterProtocolSpecificProperty = 19
	StorageDeviceProtocolSpecificProperty  = 20
	StorageAdapterTemperatureProperty      = 21
	StorageDeviceTemperatureProperty       = 22
	StorageAdapterPhysicalTopologyProperty = 23
	StorageDevicePhysicalTopologyProperty  = 24
	StorageDeviceAttributesProperty        = 25
	StorageDeviceManagementStatus          = 26
	StorageAdapterSerialNumberProperty     = 27
	StorageDeviceLocationProperty          = 28
	StorageDeviceNumaProperty              = 29
	StorageDeviceZonedDeviceProperty       = 30
	StorageDeviceUnsafeShutdownCount       = 31
	StorageDeviceEnduranceProperty         = 32
)

// StorageQueryType is a STORAGE_QUERY_TYPE.
type StorageQueryType uint32

// The types of queries.
const (
	PropertyStandardQuery   StorageQueryType = 0
	PropertyExistsQuery     StorageQueryType = 1
	PropertyMaskQuery       StorageQueryType = 2
	PropertyQueryMaxDefined StorageQueryType = 3
)

// AdditionalParameters is a byte of a query.
type AdditionalParameters byte

// StoragePropertyQuery has the fields of Windows' STORAGE_PROPERTY_QUERY, but not its
// layout, because Byte is a Go slice. Encode it before you send it.
type StoragePropertyQuery struct {
	PropertyID StoragePropertyID
	QueryType  StorageQueryType
	Byte       []AdditionalParameters
}

// StorageDeviceIDDescriptor is the beginning of Windows' STORAGE_DEVICE_ID_DESCRIPTOR.
// NumberOfIdentifiers StorageIdentifiers follow, according to the device.
type StorageDeviceIDDescriptor struct {
	Version             uint32
	Size                uint32
	NumberOfIdentifiers uint32
	Identifiers         [1]byte
}

// StorageIdentifierCodeSet is the encoding of an identifier.
type StorageIdentifierCodeSet uint32

// StorageIDCodeSetReserved is the first code set.
const StorageIDCodeSetReserved StorageIdentifierCodeSet = 0

// The other code sets.
const (
	StorageIDCodeSetBinary = 1
	StorageIDCodeSetASCII  = 2
	StorageIDCodeSetUtf8   = 3
)

// StorageIdentifierType is the type of an identifier, which says who assigns it.
type StorageIdentifierType uint32

// StorageIdTypeVendorSpecific is the first type of identifiers.
const StorageIdTypeVendorSpecific StorageIdentifierType = 0

// The other types of identifiers.
const (
	StorageIDTypeVendorID                 = 1
	StorageIDTypeEUI64                    = 2
	StorageIDTypeFCPHName                 = 3
	StorageIDTypePortRelative             = 4
	StorageIDTypeTargetPortGroup          = 5
	StorageIDTypeLogicalUnitGroup         = 6
	StorageIDTypeMD5LogicalUnitIdentifier = 7
	StorageIDTypeScsiNameString           = 8
)

// StorageAssociationType is what an identifier identifies.
type StorageAssociationType uint32

// StorageIDAssocDevice is the first association.
const StorageIDAssocDevice StorageAssociationType = 0

// The other associations.
const (
	StorageIDAssocPort   = 1
	StorageIDAssocTarget = 2
)

// StorageIdentifier is the beginning of Windows' STORAGE_IDENTIFIER. Identifier has
// IdentifierSize bytes, and the next identifier begins NextOffset bytes after this one.
// Both values come from the device and cannot be trusted.
type StorageIdentifier struct {
	CodeSet        StorageIdentifierCodeSet
	Type           StorageIdentifierType
	IdentifierSize uint16
	NextOffset     uint16
	Association    StorageAssociationType
	Identifier     [1]byte
}

// SetStorageDeviceAttributes is similar to Windows' SET_DISK_ATTRIBUTES. Use
// [DiskAPI.SetDiskState] or [DiskAPI.SetDiskReadOnly].
type SetStorageDeviceAttributes struct {
	Version        uint32
	Persist        bool
	Reserved1      uint32
	Attributes     uint64
	AttributesMask uint64
	Reserved2      uint64
}

// GetStorageDeviceAtrributes is Windows' GET_DISK_ATTRIBUTES, under its published
// name. Use [DiskAPI.GetDiskState] or [DiskAPI.GetDiskReadOnly].
type GetStorageDeviceAtrributes struct {
	Version    uint32
	Reserved1  uint32
	Attributes uint64
}

// StoragePartitionStyle is a PARTITION_STYLE.
type StoragePartitionStyle uint32

// Styles of partition tables.
const (
	PartitionStyleMbr StoragePartitionStyle = 0
	PartitionStyleGpt StoragePartitionStyle = 1
	PartitionStyleRaw StoragePartitionStyle = 2
)

// DriveLayoutInfoMbr is Windows' DRIVE_LAYOUT_INFORMATION_MBR.
type DriveLayoutInfoMbr struct {
	Signature uint32
	CheckSum  uint32
}
