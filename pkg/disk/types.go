// Package disk finds the disks of a Windows node, gives a blank disk a
// partition table with one data partition, and takes disks online and offline.
//
// A disk is named by its Windows disk number: the N of \\.\PhysicalDriveN. A
// number belongs to a disk for as long as the disk is attached; after a detach
// or a reboot another disk may carry it, so drivers look a disk up again (by
// [DiskIDs] or [DiskLocation]) each time instead of storing its number.
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package disk

import "context"

// Interface is what can be asked of the disks of one node.
//
// Every method may be called from several goroutines at once; calls for one
// disk wait for each other. Every method may be repeated: a call whose answer
// was lost can be sent again. An error is never accompanied by a response that
// has a meaning.
type Interface interface {
	// GetDiskReadOnly returns whether a disk refuses to be written. A disk that
	// the node does not have is an error that is not-found.
	//
	// Disks on a bus that machines share come offline and read-only by Windows'
	// SAN policy, and SetDiskState leaves them read-only: a driver that formats or
	// writes them calls SetDiskReadOnly first. No published gRPC API has the two
	// methods, so package remote returns an error that is unimplemented.
	GetDiskReadOnly(context.Context, *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error)

	// GetDiskState tells whether a disk is online. A disk that the node does
	// not have is an error that is not-found.
	GetDiskState(context.Context, *GetDiskStateRequest) (*GetDiskStateResponse, error)

	// GetDiskStats returns the size of a disk in bytes, as the node sees it at
	// the moment. A disk that was grown shows its new size after Rescan.
	GetDiskStats(context.Context, *GetDiskStatsRequest) (*GetDiskStatsResponse, error)

	// ListDiskIDs returns the identifiers of every disk of the node. A disk
	// that does not answer, or that has no identifier, is in the result with
	// empty strings; one that does not even tell its number is left out.
	ListDiskIDs(context.Context, *ListDiskIDsRequest) (*ListDiskIDsResponse, error)

	// ListDiskLocations returns where each disk is attached. Disks whose
	// location Windows does not express as adapter, bus, target and LUN are
	// left out.
	ListDiskLocations(context.Context, *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error)

	// PartitionDisk makes sure that a disk has a partition table and a
	// partition: a disk without a table gets a GPT, and a table without a
	// partition gets one basic data partition of the largest size. A disk that
	// already has any partition, its own or a foreign one, is left as it is.
	PartitionDisk(context.Context, *PartitionDiskRequest) (*PartitionDiskResponse, error)

	// Rescan makes the node look again at its disks: newly attached ones
	// appear, detached ones disappear, grown ones get their new size.
	Rescan(context.Context, *RescanRequest) (*RescanResponse, error)

	// SetDiskReadOnly makes a disk read-only or writable, for good, and leaves it
	// online or offline as it is. Two errors are failed preconditions: an online
	// disk that still refuses to be written after it was made writable, and a disk
	// that Windows needs and that shall be read-only.
	SetDiskReadOnly(context.Context, *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error)

	// SetDiskState takes a disk online or offline. A disk that is already in
	// the wanted state is success.
	SetDiskState(context.Context, *SetDiskStateRequest) (*SetDiskStateResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// DiskLocation says where a disk is attached. The fields are decimal texts as
// Windows reports them; one that is not reported is empty.
type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

// DiskIDs are the identifiers of one disk.
type DiskIDs struct {
	// Page83 is an identifier that the device reports about itself in the SCSI
	// vital product data page 83h: text if the device says it is ASCII, else
	// lower-case hexadecimal without separators. Empty if it reports none.
	Page83 string
	// SerialNumber is the serial number that the device reports, without blanks
	// and control characters at its ends.
	SerialNumber string
}

// ListDiskLocationsRequest has no parameters.
type ListDiskLocationsRequest struct{}

// ListDiskLocationsResponse holds a location per disk number.
type ListDiskLocationsResponse struct {
	DiskLocations map[uint32]*DiskLocation
}

// PartitionDiskRequest names the disk to be partitioned.
type PartitionDiskRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// PartitionDiskResponse is empty: volumes are found by
// volume.Interface.ListVolumesOnDisk.
type PartitionDiskResponse struct{}

// RescanRequest has no parameters: the whole node is rescanned.
type RescanRequest struct{}

// RescanResponse is empty.
type RescanResponse struct{}

// ListDiskIDsRequest has no parameters.
type ListDiskIDsRequest struct{}

// ListDiskIDsResponse holds the identifiers per disk number.
type ListDiskIDsResponse struct {
	DiskIDs map[uint32]*DiskIDs
}

// GetDiskStatsRequest names the disk to be measured.
type GetDiskStatsRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskStatsResponse holds the size of a disk.
type GetDiskStatsResponse struct {
	// TotalBytes is the size of the whole disk in bytes.
	TotalBytes int64
}

// SetDiskStateRequest names a disk and the state it shall be in.
type SetDiskStateRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// IsOnline is true to take the disk online, false to take it offline.
	IsOnline bool
}

// SetDiskStateResponse is empty.
type SetDiskStateResponse struct{}

// GetDiskStateRequest names the disk that is asked about.
type GetDiskStateRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskStateResponse holds the state of a disk.
type GetDiskStateResponse struct {
	// IsOnline is true if the disk is online.
	IsOnline bool
}

// GetDiskReadOnlyRequest names the disk that is asked about.
type GetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskReadOnlyResponse holds whether a disk is read-only.
type GetDiskReadOnlyResponse struct {
	// IsReadOnly is true if the disk refuses to be written.
	IsReadOnly bool
}

// SetDiskReadOnlyRequest names a disk and whether it shall be read-only.
type SetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// IsReadOnly is true to make the disk read-only, false to make it writable.
	IsReadOnly bool
}

// SetDiskReadOnlyResponse is empty.
type SetDiskReadOnlyResponse struct{}
