package api

import "github.com/kubernetes-csi/csi-proxy/v2/internal/win32"

// What follows are declarations that the published package has, for drivers that
// send control codes themselves with the handle of a disk. Nothing here uses
// them: what this package exchanges with Windows is encoded field by field, in
// package win32 of this project, because what a device answers is bytes with
// claims in them. Names, types and values are the published ones, also where
// they surprise: of some kinds of constants only the first has the kind's type.

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

// DeviceType is a FILE_DEVICE_ number; 7 is a disk.
type DeviceType uint32

// StorageDeviceNumber is Windows' STORAGE_DEVICE_NUMBER.
type StorageDeviceNumber struct {
	DeviceType      DeviceType
	DeviceNumber    uint32
	PartitionNumber uint32
}

// StoragePropertyID is a STORAGE_PROPERTY_ID.
type StoragePropertyID uint32

// StorageDeviceProperty is the first of the properties of storage devices.
const StorageDeviceProperty StoragePropertyID = 0

// The other properties of storage devices. From StorageDeviceIoCapabilityProperty
// on the published values are not those of Windows, whose numbers go on with 48
// there.
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

// Kinds of queries for a property.
const (
	PropertyStandardQuery   StorageQueryType = 0
	PropertyExistsQuery     StorageQueryType = 1
	PropertyMaskQuery       StorageQueryType = 2
	PropertyQueryMaxDefined StorageQueryType = 3
)

// AdditionalParameters is a byte of a query.
type AdditionalParameters byte

// StoragePropertyQuery has the fields of Windows' STORAGE_PROPERTY_QUERY but not
// its layout: Byte is a Go slice. To send it, encode it.
type StoragePropertyQuery struct {
	PropertyID StoragePropertyID
	QueryType  StorageQueryType
	Byte       []AdditionalParameters
}

// StorageDeviceIDDescriptor is the beginning of Windows'
// STORAGE_DEVICE_ID_DESCRIPTOR: as many StorageIdentifiers follow as the device
// claims.
type StorageDeviceIDDescriptor struct {
	Version             uint32
	Size                uint32
	NumberOfIdentifiers uint32
	Identifiers         [1]byte
}

// StorageIdentifierCodeSet says how an identifier is to be read.
type StorageIdentifierCodeSet uint32

// StorageIDCodeSetReserved is the first of the code sets.
const StorageIDCodeSetReserved StorageIdentifierCodeSet = 0

// The other code sets.
const (
	StorageIDCodeSetBinary = 1
	StorageIDCodeSetASCII  = 2
	StorageIDCodeSetUtf8   = 3
)

// StorageIdentifierType says who gives out identifiers of a kind.
type StorageIdentifierType uint32

// StorageIdTypeVendorSpecific is the first of the types of identifiers.
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

// StorageAssociationType says what is identified.
type StorageAssociationType uint32

// StorageIDAssocDevice is the first of the associations.
const StorageIDAssocDevice StorageAssociationType = 0

// The other associations.
const (
	StorageIDAssocPort   = 1
	StorageIDAssocTarget = 2
)

// StorageIdentifier is the beginning of Windows' STORAGE_IDENTIFIER:
// IdentifierSize bytes stand where Identifier is, and the next one begins
// NextOffset bytes behind this one. Both are claims of the device.
type StorageIdentifier struct {
	CodeSet        StorageIdentifierCodeSet
	Type           StorageIdentifierType
	IdentifierSize uint16
	NextOffset     uint16
	Association    StorageAssociationType
	Identifier     [1]byte
}

// SetStorageDeviceAttributes resembles Windows' SET_DISK_ATTRIBUTES. Use
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
