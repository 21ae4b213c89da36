// Package volume formats, mounts, measures and grows the volumes of a Windows
// node.
//
// A volume is named by its volume ID, the path that Windows gives it, trailing
// backslash included:
//
//	\\?\Volume{6e1f3a48-0000-0000-0000-100000000000}\
//
// IDs come from ListVolumesOnDisk or from one of the methods that look a
// volume up by a path; they are compared without regard to case. A volume is mounted on a
// directory of an NTFS volume, called the target path.
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package volume

import "context"

// Interface is what can be asked of the volumes of one node.
//
// Every method may be called from several goroutines at once; calls for one
// volume wait for each other. An empty volume ID or target path is an
// error that is invalid; a volume that the node does not have is an error that is
// not-found. An error is never accompanied by a response that has a meaning.
type Interface interface {
	// FormatVolume makes an NTFS file system on a volume that has none. A
	// volume that this node formatted before and that is still empty is
	// success; a volume with any other content is refused and left as it is.
	FormatVolume(context.Context, *FormatVolumeRequest) (*FormatVolumeResponse, error)

	// GetClosestVolumeIDFromTargetPath returns the volume on which a path
	// lies: that of the nearest mount point at or above it, links followed,
	// or that of its drive. The path must exist.
	GetClosestVolumeIDFromTargetPath(context.Context, *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error)

	// GetDiskNumberFromVolumeID returns the disk on which a volume begins.
	GetDiskNumberFromVolumeID(context.Context, *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error)

	// GetVolumeIDFromTargetPath returns the volume that is mounted on a
	// directory. A directory on which nothing is mounted is an error.
	GetVolumeIDFromTargetPath(context.Context, *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error)

	// GetVolumeStats returns size and use of a volume's file system in bytes.
	GetVolumeStats(context.Context, *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error)

	// IsVolumeFormatted tells whether a volume has a file system. A volume that
	// cannot be read at the moment is an error, never "no": a driver formats
	// what it is told is not formatted.
	IsVolumeFormatted(context.Context, *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error)

	// ListVolumesOnDisk returns the volumes on a disk, or on one partition of
	// it, in the order in which they lie on the disk. A disk without volumes,
	// and a disk that the node does not have, give an empty list.
	ListVolumesOnDisk(context.Context, *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error)

	// MountVolume mounts a volume on an existing empty directory. A directory
	// on which the same volume is mounted already is success.
	MountVolume(context.Context, *MountVolumeRequest) (*MountVolumeResponse, error)

	// ResizeVolume grows a volume, its partition and its file system, to a size or
	// to all that its disk has room for. A size at or below the
	// present one is success and changes nothing: volumes never shrink. A size
	// above the maximum is an error that is out of range. After its disk was
	// grown, disk.Interface.Rescan comes first.
	ResizeVolume(context.Context, *ResizeVolumeRequest) (*ResizeVolumeResponse, error)

	// UnmountVolume writes the cache of a volume out and removes its mount
	// point from a directory. The directory stays. A volume that is gone can be
	// unmounted; a path at which nothing is mounted is success; one at which
	// another volume is mounted, or which is a link, is refused.
	UnmountVolume(context.Context, *UnmountVolumeRequest) (*UnmountVolumeResponse, error)

	// WriteVolumeCache writes what the node holds in memory for a volume to
	// its disk.
	WriteVolumeCache(context.Context, *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// ListVolumesOnDiskRequest names a disk and, if not all of it is meant, a
// partition.
type ListVolumesOnDiskRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// PartitionNumber is the Windows partition number, counted from 1. With 0
	// all partitions are meant.
	PartitionNumber uint32
}

// ListVolumesOnDiskResponse holds volume IDs.
type ListVolumesOnDiskResponse struct {
	VolumeIDs []string
}

// MountVolumeRequest names a volume and the directory to mount it on.
type MountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

// MountVolumeResponse is empty.
type MountVolumeResponse struct{}

// UnmountVolumeRequest names a volume and the directory it is mounted on.
type UnmountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

// UnmountVolumeResponse is empty.
type UnmountVolumeResponse struct{}

// IsVolumeFormattedRequest names the volume that is asked about.
type IsVolumeFormattedRequest struct {
	VolumeID string
}

// IsVolumeFormattedResponse tells whether the volume has a file system.
type IsVolumeFormattedResponse struct {
	Formatted bool
}

// FormatVolumeRequest names the volume to be formatted.
type FormatVolumeRequest struct {
	VolumeID string
}

// FormatVolumeResponse is empty.
type FormatVolumeResponse struct{}

// WriteVolumeCacheRequest names the volume whose cache is written out.
type WriteVolumeCacheRequest struct {
	VolumeID string
}

// WriteVolumeCacheResponse is empty.
type WriteVolumeCacheResponse struct{}

// ResizeVolumeRequest names a volume and the size it shall have.
type ResizeVolumeRequest struct {
	VolumeID string
	// SizeBytes is the wanted size in bytes. 0 means as large as possible; a
	// negative size is invalid.
	SizeBytes int64
}

// ResizeVolumeResponse is empty.
type ResizeVolumeResponse struct{}

// GetVolumeStatsRequest names the volume to be measured.
type GetVolumeStatsRequest struct {
	VolumeID string
}

// GetVolumeStatsResponse holds size and use of a volume.
type GetVolumeStatsResponse struct {
	// TotalBytes is the size of the file system in bytes.
	TotalBytes int64
	// UsedBytes is how much of it is in use, in bytes.
	UsedBytes int64
}

// GetDiskNumberFromVolumeIDRequest names the volume to be looked up.
type GetDiskNumberFromVolumeIDRequest struct {
	VolumeID string
}

// GetDiskNumberFromVolumeIDResponse holds a disk.
type GetDiskNumberFromVolumeIDResponse struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetVolumeIDFromTargetPathRequest names a directory on which a volume is
// mounted.
type GetVolumeIDFromTargetPathRequest struct {
	TargetPath string
}

// GetVolumeIDFromTargetPathResponse holds the ID of the mounted volume.
type GetVolumeIDFromTargetPathResponse struct {
	VolumeID string
}

// GetClosestVolumeIDFromTargetPathRequest names an existing path.
type GetClosestVolumeIDFromTargetPathRequest struct {
	TargetPath string
}

// GetClosestVolumeIDFromTargetPathResponse holds the ID of the volume on which
// the path lies.
type GetClosestVolumeIDFromTargetPathResponse struct {
	VolumeID string
}
