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

// Properties of storage devices. From StorageDeviceIoCapabilityProperty on, the published values
// differ from those of Windows, which continue with 48.
const (
	StorageDeviceProperty                  StoragePropertyID = 0
	StorageAdapterProperty                 StoragePropertyID = 1
	StorageDeviceIDProperty                StoragePropertyID = 2
	StorageDeviceUniqueIDProperty          StoragePropertyID = 3
	StorageDeviceWriteCacheProperty        StoragePropertyID = 4
	StorageMiniportProperty                StoragePropertyID = 5
	StorageAccessAlignmentProperty         StoragePropertyID = 6
	StorageDeviceSeekPenaltyProperty       StoragePropertyID = 7
	StorageDeviceTrimProperty              StoragePropertyID = 8
	StorageDeviceWriteAggregationProperty  StoragePropertyID = 9
	StorageDeviceDeviceTelemetryProperty   StoragePropertyID = 10
	StorageDeviceLBProvisioningProperty    StoragePropertyID = 11
	StorageDevicePowerProperty             StoragePropertyID = 12
	StorageDeviceCopyOffloadProperty       StoragePropertyID = 13
	StorageDeviceResiliencyProperty        StoragePropertyID = 14
	StorageDeviceMediumProductType         StoragePropertyID = 15
	StorageAdapterRpmbProperty             StoragePropertyID = 16
	StorageAdapterCryptoProperty           StoragePropertyID = 17
	StorageDeviceIoCapabilityProperty      StoragePropertyID = 18
	StorageAdapterProtocolSpecificProperty StoragePropertyID = 19
	StorageDeviceProtocolSpecificProperty  StoragePropertyID = 20
	StorageAdapterTemperatureProperty      StoragePropertyID = 21
	StorageDeviceTemperatureProperty       StoragePropertyID = 22
	StorageAdapterPhysicalTopologyProperty StoragePropertyID = 23
	StorageDevicePhysicalTopologyProperty  StoragePropertyID = 24
	StorageDeviceAttributesProperty        StoragePropertyID = 25
	StorageDeviceManagementStatus          StoragePropertyID = 26
	StorageAdapterSerialNumberProperty     StoragePropertyID = 27
	StorageDeviceLocationProperty          StoragePropertyID = 28
	StorageDeviceNumaProperty              StoragePropertyID = 29
	StorageDeviceZonedDeviceProperty       StoragePropertyID = 30
	StorageDeviceUnsafeShutdownCount       StoragePropertyID = 31
	StorageDeviceEnduranceProperty         StoragePropertyID = 32
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

// Code sets.
const (
	StorageIDCodeSetReserved StorageIdentifierCodeSet = 0
	StorageIDCodeSetBinary   StorageIdentifierCodeSet = 1
	StorageIDCodeSetASCII    StorageIdentifierCodeSet = 2
	StorageIDCodeSetUtf8     StorageIdentifierCodeSet = 3
)

// StorageIdentifierType is the type of an identifier, which says who assigns it.
type StorageIdentifierType uint32

// Types of identifiers.
const (
	StorageIdTypeVendorSpecific           StorageIdentifierType = 0
	StorageIDTypeVendorID                 StorageIdentifierType = 1
	StorageIDTypeEUI64                    StorageIdentifierType = 2
	StorageIDTypeFCPHName                 StorageIdentifierType = 3
	StorageIDTypePortRelative             StorageIdentifierType = 4
	StorageIDTypeTargetPortGroup          StorageIdentifierType = 5
	StorageIDTypeLogicalUnitGroup         StorageIdentifierType = 6
	StorageIDTypeMD5LogicalUnitIdentifier StorageIdentifierType = 7
	StorageIDTypeScsiNameString           StorageIdentifierType = 8
)

// StorageAssociationType is what an identifier identifies.
type StorageAssociationType uint32

// What an identifier may identify.
const (
	StorageIDAssocDevice StorageAssociationType = 0
	StorageIDAssocPort   StorageAssociationType = 1
	StorageIDAssocTarget StorageAssociationType = 2
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
