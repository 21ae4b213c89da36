package simnode

import "github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"

// The types that describe a node are those of package nodespec, which documents them.
type (
	Config        = nodespec.Config
	Windows       = nodespec.Windows
	Disk          = nodespec.Disk
	Partition     = nodespec.Partition
	Bytes         = nodespec.Bytes
	SpannedVolume = nodespec.SpannedVolume
	Extent        = nodespec.Extent
	Identifier    = nodespec.Identifier
	Address       = nodespec.Address
	Service       = nodespec.Service
	Firmware      = nodespec.Firmware
	ISCSI         = nodespec.ISCSI
	ISCSIPortal   = nodespec.ISCSIPortal
	ISCSITarget   = nodespec.ISCSITarget
	LUN           = nodespec.LUN
	CHAP          = nodespec.CHAP
	SMBServer     = nodespec.SMBServer
	SMBAccount    = nodespec.SMBAccount
	Size          = nodespec.Size
	Duration      = nodespec.Duration
)

// The types for faults and for the state of a node are also those of package nodespec.
type (
	Fault           = nodespec.Fault
	State           = nodespec.State
	DiskInfo        = nodespec.DiskInfo
	PartitionInfo   = nodespec.PartitionInfo
	VolumeInfo      = nodespec.VolumeInfo
	MountInfo       = nodespec.MountInfo
	ServiceInfo     = nodespec.ServiceInfo
	ISCSITargetInfo = nodespec.ISCSITargetInfo
	SMBServerInfo   = nodespec.SMBServerInfo
	SMBMappingInfo  = nodespec.SMBMappingInfo
	File            = nodespec.File
	Link            = nodespec.Link
)

// ParseSize parses a whole number of bytes with an optional unit, such as 10GiB.
func ParseSize(text string) (Size, error) { return nodespec.ParseSize(text) }
