package api

import "golang.org/x/sys/windows"

type PartitionInfoMbr struct {
	PartitionType       byte
	BootIndicator       bool
	RecognizedPartition bool
	HiddenSectors       uint32
	PartitionId         windows.GUID
}

type PartitionInfoGpt struct {
	PartitionType windows.GUID
	PartitionId   windows.GUID
	Attributes    uint64
	Name          [36]uint16
}

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

type DriveLayoutInfoGpt struct {
	DiskId               windows.GUID
	StartingUsableOffset int64
	UsableLength         int64
	MaxPartitionCount    uint32
}

type StorageDriveLayoutInfo struct {
	PartitionStyle  StoragePartitionStyle
	PartitionCount  uint32
	DummmyUnionName struct {
		DriveLayoutInfoMbr
		DriveLayoutInfoGpt
	}
	PartitionEntry []StoragePartitionInfo
}
