// Package api implements operations on the disks of a Windows node: which Windows
// calls are made, in which order, with which bytes. Package disk calls them. Drivers
// that need a single step can call it here.
//
// Each method opens the disk with a given number and closes it at the end. It checks
// and writes through the same handle, because another disk can get the number at any
// time, while the handle stays with its disk.
//
// Methods that change a disk may be repeated. They take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/disk] prevents concurrent changes of one
// disk. Methods fail with hosterr.ErrNotFound if there is no such disk. They fail with
// hosterr.ErrFailedPrecondition rather than change a disk that Windows needs, or
// content that may belong to someone else.
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// HostAPI is what the disk service needs from a node.
type HostAPI interface {
	// ListDiskLocations returns where each disk is attached. It skips disks whose
	// location Windows does not report.
	ListDiskLocations() (map[uint32]DiskLocation, error)
	// IsDiskInitialized reports whether the disk has a partition table.
	IsDiskInitialized(diskNumber uint32) (bool, error)
	// InitializeDisk makes a disk without a partition table online and writable, and
	// gives it a GPT. A disk that has a table is not changed.
	InitializeDisk(diskNumber uint32) error
	// BasicPartitionsExist reports whether the disk has a partition of any kind
	// except the Microsoft reserved partition.
	BasicPartitionsExist(diskNumber uint32) (bool, error)
	// CreateBasicPartition adds one data partition of the largest possible size to
	// an initialized disk without partitions, and waits for its volume. A disk that
	// has a partition is not changed.
	CreateBasicPartition(diskNumber uint32) error
	// Rescan updates the node's disks and their sizes.
	Rescan() error
	// ListDiskIDs returns the identifiers of all disks. They are empty for a disk
	// that has none or does not return them.
	ListDiskIDs() (map[uint32]DiskIDs, error)
	// GetDiskStats returns the size of the disk in bytes, or -1 with an error.
	GetDiskStats(diskNumber uint32) (int64, error)
	// SetDiskState takes the disk online or offline, also after a reboot. A read-only
	// disk becomes writable by online if its storage can be written and it is not in use.
	// Otherwise it does nothing if the disk already has that state.
	SetDiskState(diskNumber uint32, isOnline bool) error
	// GetDiskState reports whether the disk is online. With an error it returns true.
	GetDiskState(diskNumber uint32) (bool, error)
	// SetDiskReadOnly makes the disk read-only or writable, also after a reboot. It
	// does nothing if the disk already has that state. It fails with
	// hosterr.ErrFailedPrecondition if an online disk stays read-only.
	SetDiskReadOnly(diskNumber uint32, isReadOnly bool) error
	// GetDiskReadOnly reports whether the disk is read-only, because of its Windows
	// attribute or, if it is online, because the device refuses writes. With an error
	// it returns true.
	GetDiskReadOnly(diskNumber uint32) (bool, error)
}

// DiskLocation is where a disk is attached, in decimal numbers. Unknown fields are
// empty.
type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

// DiskIDs are the identifiers of one disk.
type DiskIDs struct {
	// Page83 is the first identifier of the device itself in the SCSI vital product
	// data page 83h: text if it is ASCII, otherwise lower-case hexadecimal digits.
	Page83 string
	// SerialNumber has no leading and trailing blanks and control characters.
	SerialNumber string
}

// DiskAPI is the HostAPI of a node. Its methods may be called concurrently. The methods
// of the zero DiskAPI return errors.
type DiskAPI struct {
	host   node.Host
	expect *[]string // identifiers, see Expect; a pointer, because the published type is comparable
}

var _ HostAPI = DiskAPI{}

// New returns the HostAPI of the Windows node that the process runs on. On other
// systems all methods fail with [errors.ErrUnsupported].
func New() DiskAPI { return DiskAPI{host: node.NativeHost()} }

// On returns the HostAPI of a node.
func On(n *node.Node) DiskAPI { return DiskAPI{host: node.HostOf(n)} }

// WithContext returns the same HostAPI for one context. When ctx ends, its methods
// stop before their next Windows call.
func (d DiskAPI) WithContext(ctx context.Context) HostAPI {
	d.host = d.host.WithContext(ctx)
	return d
}

// Node returns the node that the methods work on, or nil if there is none.
func (d DiskAPI) Node() *node.Node { return d.host.Node }
