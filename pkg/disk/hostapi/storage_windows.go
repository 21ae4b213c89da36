package api

import "golang.org/x/sys/windows"

// The published structures that contain a windows.GUID. Their unions are Go structs, so
// they do not have Windows' layout. This package does not use them.

// PartitionInfoMbr is named after Windows' PARTITION_INFORMATION_MBR.
type PartitionInfoMbr struct {
	PartitionType       byte
	BootIndicator       bool
	RecognizedPartition bool
	HiddenSectors       uint32
	PartitionId         windows.GUID
}

// PartitionInfoGpt is named after Windows' PARTITION_INFORMATION_GPT.
type PartitionInfoGpt struct {
	PartitionType windows.GUID
	PartitionId   windows.GUID
	Attributes    uint64
	Name          [36]uint16
}

// StoragePartitionInfo is named after Windows' PARTITION_INFORMATION_EX.
type StoragePartitionInfo struct {
	PartitionStyle     StoragePartitionStyle
	StartingOffset     int64
	PartitionLength    int64
	PartitionNumber    uint32
	RewritePartition   bool
	IsServicePartition bool
	DummmyUnionName    struct {
		PartitionInfoMbr
		PartitionInfoGpt
	}
}

// DriveLayoutInfoGpt is named after Windows' DRIVE_LAYOUT_INFORMATION_GPT.
type DriveLayoutInfoGpt struct {
	DiskId               windows.GUID
	StartingUsableOffset int64
	UsableLength         int64
	MaxPartitionCount    uint32
}

// StorageDriveLayoutInfo is named after Windows' DRIVE_LAYOUT_INFORMATION_EX.
type StorageDriveLayoutInfo struct {
	PartitionStyle  StoragePartitionStyle
	PartitionCount  uint32
	DummmyUnionName struct {
		DriveLayoutInfoMbr
		DriveLayoutInfoGpt
	}
	PartitionEntry []StoragePartitionInfo
}
