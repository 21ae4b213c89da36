// Package disk finds the disks of a Windows node, gives a blank disk a
// partition table with one data partition, and takes disks online and offline.
//
// A disk is identified by its Windows disk number, the N of \\.\PhysicalDriveN. The
// number is valid while the disk is attached. After a detach or a reboot another disk
// may have it, so drivers find a disk by [DiskIDs] or [DiskLocation] each time and do
// not store its number.
//
// The requests and responses here have no version. The daemon translates every
// published version of the API to them; a driver in a HostProcess container calls the
// same [Interface] in process.
package disk

import "context"

// Interface is the published API of the disks of one node.
//
// The methods may be called concurrently; calls for one disk wait for each other. All
// methods may be repeated, for example after a lost response. If a method returns an
// error, its response is nil.
type Interface interface {
	// GetDiskReadOnly returns whether a disk is read-only. It fails with
	// hosterr.ErrNotFound if there is no such disk.
	//
	// By Windows' SAN policy, disks on buses that machines can share arrive offline
	// and read-only. SetDiskState makes such a disk online and writable. A driver whose disk
	// is read-only for another reason calls SetDiskReadOnly. The gRPC API has
	// GetDiskReadOnly and SetDiskReadOnly since v2alpha1; with older versions they fail in
	// package remote with hosterr.ErrUnimplemented.
	GetDiskReadOnly(context.Context, *GetDiskReadOnlyRequest) (*GetDiskReadOnlyResponse, error)

	// GetDiskState returns whether a disk is online. It fails with
	// hosterr.ErrNotFound if there is no such disk.
	GetDiskState(context.Context, *GetDiskStateRequest) (*GetDiskStateResponse, error)

	// GetDiskStats returns the size of a disk in bytes, as the node currently knows
	// it. After a disk was grown, Rescan updates its size.
	GetDiskStats(context.Context, *GetDiskStatsRequest) (*GetDiskStatsResponse, error)

	// ListDiskIDs returns the identifiers of all disks of the node. A disk that has
	// no identifiers, or does not return them, is in the result with empty strings.
	// A disk that does not return its number is skipped.
	ListDiskIDs(context.Context, *ListDiskIDsRequest) (*ListDiskIDsResponse, error)

	// ListDiskLocations returns where each disk is attached. It skips disks whose
	// location Windows does not report as adapter, bus, target and LUN.
	ListDiskLocations(context.Context, *ListDiskLocationsRequest) (*ListDiskLocationsResponse, error)

	// PartitionDisk makes sure that a disk has a partition table and a partition. A
	// disk without a table gets a GPT, and a table without a partition gets one basic
	// data partition of the largest possible size. A disk that has any partition is
	// not changed.
	PartitionDisk(context.Context, *PartitionDiskRequest) (*PartitionDiskResponse, error)

	// Rescan updates the node's disks: attached disks appear, detached disks
	// disappear, and grown disks get their new size.
	Rescan(context.Context, *RescanRequest) (*RescanResponse, error)

	// SetDiskReadOnly makes a disk read-only or writable, also after a reboot. It
	// does not take the disk online or offline. It fails with
	// hosterr.ErrFailedPrecondition if an online disk stays read-only although it
	// was made writable, and if a disk that Windows needs would become read-only.
	SetDiskReadOnly(context.Context, *SetDiskReadOnlyRequest) (*SetDiskReadOnlyResponse, error)

	// SetDiskState takes a disk online or offline. It succeeds without a change if
	// the disk already has that state, except that online makes a read-only disk writable
	// that is not in use.
	SetDiskState(context.Context, *SetDiskStateRequest) (*SetDiskStateResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface

	// ListDisks returns what is known about each disk, by its number: every identifier,
	// where it is attached, its state, and whether Windows needs it.
	ListDisks(context.Context, *ListDisksRequest) (*ListDisksResponse, error)
}

// ListDisksRequest has no parameters.
type ListDisksRequest struct{}

// ListDisksResponse has the disks by their numbers.
type ListDisksResponse struct {
	Disks map[uint32]*DiskInfo
}

// DiskInfo is what is known about a disk. A text is empty if the disk or Windows does not
// report it.
type DiskInfo struct {
	// DevicePath is the path of the disk's device.
	DevicePath string
	// BusType is Windows' name of the bus, such as "NVMe".
	BusType, Vendor, Product string
	SerialNumber             string
	// Page83 has all identifiers of the disk itself, each with its kind, such as
	// "naa.6000c29…", "eui.0025385…", "t10.…", "name.…", "vendor.…", "md5.…" and "uuid.…".
	Page83 []string
	// WWN, EUI64 and NGUID are the first identifiers of these kinds, in lower-case
	// hexadecimal digits.
	WWN, EUI64, NGUID string
	// NamespaceID is the NVMe namespace, or 0 if it is not known.
	NamespaceID uint32
	// AzureLUN is the LUN that Azure gave an NVMe disk.
	AzureLUN string
	// Where the disk is attached, as in ListDiskLocations.
	Adapter, Bus, Target, LUN string
	// IsBoot means that Windows runs from the disk: its directory, a page file or dump file
	// is on it.
	IsBoot bool
	// IsSystem means that the disk has a partition that starts or repairs a Windows.
	IsSystem bool
	// IsTemporary means that it is the temporary disk of an Azure machine.
	IsTemporary bool
	IsRemovable bool
	IsOnline    bool
	// OfflineReason is Windows' name of the reason why the disk is offline.
	OfflineReason string
	IsReadOnly    bool
	// Unread says what could not be read. Fields about it are empty or false.
	Unread string
}

// DiskLocation is where a disk is attached. The fields are decimal numbers as Windows
// reports them, or empty if it does not report them.
type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

// DiskIDs are the identifiers of one disk.
type DiskIDs struct {
	// Page83 is an identifier of the device from the SCSI vital product data page
	// 83h: text if the device reports ASCII, otherwise lower-case hexadecimal digits.
	// It is empty if the device reports none.
	Page83 string
	// SerialNumber is the serial number that the device reports, without leading and
	// trailing blanks and control characters.
	SerialNumber string
}

// ListDiskLocationsRequest has no parameters.
type ListDiskLocationsRequest struct{}

// ListDiskLocationsResponse has the locations by disk number.
type ListDiskLocationsResponse struct {
	DiskLocations map[uint32]*DiskLocation
}

// DiskIdentity is what a disk must be.
type DiskIdentity struct {
	// Identifiers are those that the disk must have, all of them: its serial number and others
	// from ListDisks. Disks may share one of them.
	Identifiers []string
}

// PartitionDiskRequest is the request of PartitionDisk.
type PartitionDiskRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// Identity is what the disk must be, or nil. It is checked on the handle through which the
	// disk is changed. For another disk the method fails with hosterr.ErrFailedPrecondition and
	// changes nothing.
	Identity *DiskIdentity
}

// PartitionDiskResponse is empty. volume.Interface.ListVolumesOnDisk returns the new
// volume.
type PartitionDiskResponse struct{}

// RescanRequest has no parameters: Rescan is for the whole node.
type RescanRequest struct{}

// RescanResponse is empty.
type RescanResponse struct{}

// ListDiskIDsRequest has no parameters.
type ListDiskIDsRequest struct{}

// ListDiskIDsResponse has the identifiers by disk number.
type ListDiskIDsResponse struct {
	DiskIDs map[uint32]*DiskIDs
}

// GetDiskStatsRequest is the request of GetDiskStats.
type GetDiskStatsRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskStatsResponse has the size of a disk.
type GetDiskStatsResponse struct {
	// TotalBytes is the size of the whole disk in bytes.
	TotalBytes int64
}

// SetDiskStateRequest is the request of SetDiskState.
type SetDiskStateRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// IsOnline is true to take the disk online, false to take it offline.
	IsOnline bool
	// Identity is that of PartitionDiskRequest.
	Identity *DiskIdentity
}

// SetDiskStateResponse is empty.
type SetDiskStateResponse struct{}

// GetDiskStateRequest is the request of GetDiskState.
type GetDiskStateRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskStateResponse has the state of a disk.
type GetDiskStateResponse struct {
	// IsOnline is true if the disk is online.
	IsOnline bool
}

// GetDiskReadOnlyRequest is the request of GetDiskReadOnly.
type GetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
}

// GetDiskReadOnlyResponse says whether a disk is read-only.
type GetDiskReadOnlyResponse struct {
	// IsReadOnly is true if the disk cannot be written to.
	IsReadOnly bool
}

// SetDiskReadOnlyRequest is the request of SetDiskReadOnly.
type SetDiskReadOnlyRequest struct {
	// DiskNumber is the Windows disk number.
	DiskNumber uint32
	// IsReadOnly is true to make the disk read-only, false to make it writable.
	IsReadOnly bool
	// Identity is that of PartitionDiskRequest.
	Identity *DiskIdentity
}

// SetDiskReadOnlyResponse is empty.
type SetDiskReadOnlyResponse struct{}
