// Package volume formats, mounts, measures and grows the volumes of a Windows node.
//
// A volume is identified by its volume ID, which is Windows' path of the volume,
// including the trailing backslash:
//
//	\\?\Volume{6e1f3a48-0000-0000-0000-100000000000}\
//
// ListVolumesOnDisk and the methods that look up the volume of a path return IDs. They
// are compared without regard to case. A volume is mounted on a directory of an NTFS
// volume, the target path.
//
// The requests and responses here have no version. The daemon translates every
// published version of the API to them; a driver in a HostProcess container calls the
// same [Interface] in process.
package volume

import "context"

// Interface is the published API of the volumes of one node.
//
// The methods may be called concurrently; calls for one volume wait for each other.
// They fail with hosterr.ErrInvalid if the volume ID or target path is empty, and with
// hosterr.ErrNotFound if there is no such volume. If a method returns an error, its
// response is nil.
type Interface interface {
	// FormatVolume makes an NTFS file system on a volume without one. It succeeds
	// without a change if the volume has an empty NTFS file system. It fails with
	// hosterr.ErrFailedPrecondition if the volume has any other content, which is not
	// changed.
	FormatVolume(context.Context, *FormatVolumeRequest) (*FormatVolumeResponse, error)

	// GetClosestVolumeIDFromTargetPath returns the volume that a path is on: the
	// volume of the nearest mount point at or above the path, following links, or of
	// the path's drive. The path must exist.
	GetClosestVolumeIDFromTargetPath(context.Context, *GetClosestVolumeIDFromTargetPathRequest) (*GetClosestVolumeIDFromTargetPathResponse, error)

	// GetDiskNumberFromVolumeID returns the number of the disk that a volume begins on.
	GetDiskNumberFromVolumeID(context.Context, *GetDiskNumberFromVolumeIDRequest) (*GetDiskNumberFromVolumeIDResponse, error)

	// GetVolumeIDFromTargetPath returns the volume that is mounted on a directory. It
	// fails with hosterr.ErrFailedPrecondition if no volume is mounted there.
	GetVolumeIDFromTargetPath(context.Context, *GetVolumeIDFromTargetPathRequest) (*GetVolumeIDFromTargetPathResponse, error)

	// GetVolumeStats returns the size and the used bytes of a volume's file system.
	GetVolumeStats(context.Context, *GetVolumeStatsRequest) (*GetVolumeStatsResponse, error)

	// IsVolumeFormatted returns whether a volume has a file system. It returns an error,
	// and never false, for a volume that cannot be read, because drivers format volumes
	// that are reported as not formatted.
	IsVolumeFormatted(context.Context, *IsVolumeFormattedRequest) (*IsVolumeFormattedResponse, error)

	// ListVolumesOnDisk returns the volumes on a disk, or on one of its partitions, in
	// the order of their offsets. It returns an empty list for a disk without volumes,
	// and for a disk that does not exist.
	ListVolumesOnDisk(context.Context, *ListVolumesOnDiskRequest) (*ListVolumesOnDiskResponse, error)

	// MountVolume mounts a volume on an existing empty directory. It succeeds without a
	// change if the volume is already mounted there.
	MountVolume(context.Context, *MountVolumeRequest) (*MountVolumeResponse, error)

	// ResizeVolume grows the partition and the file system of a volume to a size, or to
	// the largest possible size. Volumes never shrink: if the size is not larger than
	// the current size, ResizeVolume succeeds without a change. It fails with
	// hosterr.ErrOutOfRange if the size is larger than possible. After a disk was grown,
	// call disk.Interface.Rescan first.
	ResizeVolume(context.Context, *ResizeVolumeRequest) (*ResizeVolumeResponse, error)

	// UnmountVolume flushes the cache of a volume and unmounts it from a directory, which
	// it keeps. It also works if the volume no longer exists. It succeeds if nothing is
	// mounted at the path, and fails with hosterr.ErrFailedPrecondition if another volume
	// is mounted there or the path is a link.
	UnmountVolume(context.Context, *UnmountVolumeRequest) (*UnmountVolumeResponse, error)

	// WriteVolumeCache flushes the node's cache of a volume to its disk.
	WriteVolumeCache(context.Context, *WriteVolumeCacheRequest) (*WriteVolumeCacheResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface

	// GetPathKind returns what is at a path. It follows links in the directories above the
	// path. It opens neither the file system of a volume that is mounted there, nor a share
	// that a link there leads to.
	GetPathKind(context.Context, *GetPathKindRequest) (*GetPathKindResponse, error)

	// GetPathStats returns the size and the used bytes of the volume, or of the mapped share,
	// that a path leads to.
	GetPathStats(context.Context, *GetPathStatsRequest) (*GetPathStatsResponse, error)
}

// PathKind is what is at a path.
type PathKind uint32

// What may be at a path.
const (
	PATH_KIND_UNKNOWN PathKind = 0
	// PATH_KIND_ABSENT is nothing.
	PATH_KIND_ABSENT PathKind = 1
	PATH_KIND_FILE   PathKind = 2
	// PATH_KIND_DIRECTORY is a directory on which nothing is mounted.
	PATH_KIND_DIRECTORY PathKind = 3
	// PATH_KIND_VOLUME is a mount point of a volume that the node has, formatted or not.
	PATH_KIND_VOLUME PathKind = 4
	// PATH_KIND_LINK is a symbolic link or a junction. Of a link to a share, only the node's
	// mapping was looked at.
	PATH_KIND_LINK PathKind = 5
	// PATH_KIND_BROKEN is a mount point of a volume that the node does not have, a link to a
	// share that the node has no mapping of, or to a drive that is neither of a volume nor of a
	// mapping, or a link whose target on a volume of the node does not exist.
	PATH_KIND_BROKEN PathKind = 6
)

// GetPathKindRequest has the path to look at.
type GetPathKindRequest struct {
	Path string
}

// GetPathKindResponse says what is at the path.
type GetPathKindResponse struct {
	Kind PathKind
	// VolumeID is the volume of a mount point, or empty.
	VolumeID string
}

// GetPathStatsRequest has a file, directory, mount point or link.
type GetPathStatsRequest struct {
	Path string
}

// GetPathStatsResponse has the size and the used bytes of a volume or share.
type GetPathStatsResponse struct {
	// TotalBytes is the size of the volume or share in bytes.
	TotalBytes int64
	// UsedBytes is the number of bytes in use.
	UsedBytes int64
}

// ListVolumesOnDiskRequest is the request of ListVolumesOnDisk.
type ListVolumesOnDiskRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// PartitionNumber is the Windows partition number, counted from 1. 0 means all
	// partitions.
	PartitionNumber uint32
}

// ListVolumesOnDiskResponse has volume IDs.
type ListVolumesOnDiskResponse struct {
	VolumeIDs []string
}

// MountVolumeRequest has a volume and the directory to mount it on.
type MountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

// MountVolumeResponse is empty.
type MountVolumeResponse struct{}

// UnmountVolumeRequest has a volume and the directory that it is mounted on.
type UnmountVolumeRequest struct {
	VolumeID   string
	TargetPath string
}

// UnmountVolumeResponse is empty.
type UnmountVolumeResponse struct{}

// IsVolumeFormattedRequest is the request of IsVolumeFormatted.
type IsVolumeFormattedRequest struct {
	VolumeID string
}

// IsVolumeFormattedResponse says whether the volume has a file system.
type IsVolumeFormattedResponse struct {
	Formatted bool
}

// FormatVolumeRequest is the request of FormatVolume.
type FormatVolumeRequest struct {
	VolumeID string
	// Filesystem is "ntfs" in any case, or empty, which means the same. The method fails with
	// hosterr.ErrInvalid for any other.
	Filesystem string
	// AllocationUnitBytes is the size of an allocation unit: a power of 2 from 512, and from
	// the sector size of the disk, to 2097152. 0 lets Windows choose. For an empty NTFS with
	// units of another size the method fails with hosterr.ErrFailedPrecondition, unless the daemon
	// runs with -format-existing=ntfs.
	AllocationUnitBytes uint32
}

// FormatVolumeResponse is empty.
type FormatVolumeResponse struct{}

// WriteVolumeCacheRequest is the request of WriteVolumeCache.
type WriteVolumeCacheRequest struct {
	VolumeID string
}

// WriteVolumeCacheResponse is empty.
type WriteVolumeCacheResponse struct{}

// ResizeVolumeRequest has a volume and its new size.
type ResizeVolumeRequest struct {
	VolumeID string
	// SizeBytes is the new size in bytes. 0 means the largest possible size; a negative
	// size is invalid.
	SizeBytes int64
}

// ResizeVolumeResponse is empty.
type ResizeVolumeResponse struct{}

// GetVolumeStatsRequest is the request of GetVolumeStats.
type GetVolumeStatsRequest struct {
	VolumeID string
}

// GetVolumeStatsResponse has the size and the used bytes of a volume.
type GetVolumeStatsResponse struct {
	// TotalBytes is the size of the file system in bytes.
	TotalBytes int64
	// UsedBytes is the number of bytes in use.
	UsedBytes int64
}

// GetDiskNumberFromVolumeIDRequest is the request of GetDiskNumberFromVolumeID.
type GetDiskNumberFromVolumeIDRequest struct {
	VolumeID string
}

// GetDiskNumberFromVolumeIDResponse has a disk number.
type GetDiskNumberFromVolumeIDResponse struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetVolumeIDFromTargetPathRequest has a directory that a volume is mounted on.
type GetVolumeIDFromTargetPathRequest struct {
	TargetPath string
}

// GetVolumeIDFromTargetPathResponse has the ID of the mounted volume.
type GetVolumeIDFromTargetPathResponse struct {
	VolumeID string
}

// GetClosestVolumeIDFromTargetPathRequest has an existing path.
type GetClosestVolumeIDFromTargetPathRequest struct {
	TargetPath string
}

// GetClosestVolumeIDFromTargetPathResponse has the ID of the volume that the path is on.
type GetClosestVolumeIDFromTargetPathResponse struct {
	VolumeID string
}
