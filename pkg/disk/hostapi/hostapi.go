// Package api is what is done to the disks of a Windows node: which calls of
// Windows, in which order, with which bytes. Package disk decides when; drivers
// that need one step alone call it here.
//
// Methods identify a disk by its Windows number and open it for the length of
// one method. They check and write through that one handle, because a number
// can pass to another disk at any time, but never to what is open.
//
// Methods that change a disk may be repeated. They hold no locks: two at once
// on one disk are for [github.com/kubernetes-csi/csi-proxy/v2/pkg/disk] to keep
// apart. A disk that the node does not have is an error that is not-found. What
// Windows needs for itself, and content that is not known to be free, is
// refused with a failed precondition.
//
// What has been verified, and on what: docs/evidence/verification.md.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// HostAPI is what the disk service asks of a node.
type HostAPI interface {
	// ListDiskLocations returns where each disk is attached. Disks of which
	// Windows does not say it are left out.
	ListDiskLocations() (map[uint32]DiskLocation, error)
	// IsDiskInitialized tells whether the disk has a partition table.
	IsDiskInitialized(diskNumber uint32) (bool, error)
	// InitializeDisk gives a disk without a partition table a GPT, and makes it
	// online and writable for that. A disk that has a table is left as it is.
	InitializeDisk(diskNumber uint32) error
	// BasicPartitionsExist tells whether the disk has a partition, of whatever
	// kind, other than the Microsoft reserved one.
	BasicPartitionsExist(diskNumber uint32) (bool, error)
	// CreateBasicPartition adds one data partition of the largest size to an
	// initialised disk that has none, and returns when its volume is there. A
	// disk that has a partition is left as it is.
	CreateBasicPartition(diskNumber uint32) error
	// Rescan makes the node look again at its disks and their sizes.
	Rescan() error
	// ListDiskIDs returns the identifiers of every disk; a disk that has none,
	// or does not answer, has empty ones.
	ListDiskIDs() (map[uint32]DiskIDs, error)
	// GetDiskStats returns the size of the disk in bytes, -1 with an error.
	GetDiskStats(diskNumber uint32) (int64, error)
	// SetDiskState takes the disk online or offline, for good. A disk that is in
	// that state is left as it is; read-only stays read-only.
	SetDiskState(diskNumber uint32, isOnline bool) error
	// GetDiskState tells whether the disk is online; true with an error.
	GetDiskState(diskNumber uint32) (bool, error)
	// SetDiskReadOnly makes the disk read-only or writable, for good. A disk that
	// is in that state is left as it is. An online disk that is not writable
	// after it was made so is an error that is a failed precondition.
	SetDiskReadOnly(diskNumber uint32, isReadOnly bool) error
	// GetDiskReadOnly returns whether the disk refuses to be written: because
	// Windows holds it read-only, or, if it is online, because it refuses by
	// itself; true with an error.
	GetDiskReadOnly(diskNumber uint32) (bool, error)
}

// DiskLocation says where a disk is attached, in decimal texts; what is not
// known is empty.
type DiskLocation struct {
	Adapter string
	Bus     string
	Target  string
	LUNID   string
}

// DiskIDs are the identifiers of one disk.
type DiskIDs struct {
	// Page83 is the first identifier of the device itself in the SCSI vital
	// product data page 83h: text if it is ASCII, else lower-case hexadecimal.
	Page83 string
	// SerialNumber is without blanks and control characters at its ends.
	SerialNumber string
}

// DiskAPI is the HostAPI of a node. The zero DiskAPI answers every call with an
// error. It may be used by several goroutines at once.
type DiskAPI struct{ host node.Host }

var _ HostAPI = DiskAPI{}

// New is the HostAPI of the Windows node that the process runs on. Off Windows
// every method answers that there is none.
func New() DiskAPI { return DiskAPI{host: node.NativeHost()} }

// On is the HostAPI of a node.
func On(n *node.Node) DiskAPI { return DiskAPI{host: node.HostOf(n)} }

// WithContext is the same HostAPI, whose methods end early, between two calls
// of Windows, when ctx ends.
func (d DiskAPI) WithContext(ctx context.Context) HostAPI {
	return DiskAPI{host: d.host.WithContext(ctx)}
}

// Node is the node that the methods work on; nil where there is none.
func (d DiskAPI) Node() *node.Node { return d.host.Node }
