// Package api implements operations on the volumes of a Windows node: which Windows calls
// are made, in which order, with which bytes. Package volume calls them. Drivers that
// need a single step can call it here.
//
// Methods that change something may be repeated. They take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/volume] prevents concurrent changes of one
// volume or path. Methods fail with hosterr.ErrNotFound if there is no such volume or the
// volume ID is malformed. They fail with hosterr.ErrFailedPrecondition rather than change
// a volume that Windows needs, or content that may belong to someone else.
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"context"
	"regexp"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// VolumeRegexp matches the name of a volume in a text.
var VolumeRegexp = regexp.MustCompile(`Volume\{[\w-]*\}`)

// HostAPI is what the volume service needs from a node. Volume IDs have the form
// `\\?\Volume{…}\`, and sizes are in bytes.
type HostAPI interface {
	// ListVolumesOnDisk returns the volumes on a disk, or on one partition if its number
	// is not 0, in the order of their offsets.
	ListVolumesOnDisk(diskNumber uint32, partitionNumber uint32) (volumeIDs []string, err error)
	// MountVolume mounts the volume on an existing empty directory. It succeeds without
	// a change if the volume is already mounted there.
	MountVolume(volumeID, targetPath string) error
	// UnmountVolume flushes the volume's cache, if the volume exists, and removes its
	// mount point. It succeeds if nothing is mounted at the path.
	UnmountVolume(volumeID, targetPath string) error
	// IsVolumeFormatted reports whether the volume has a file system that Windows
	// recognizes.
	IsVolumeFormatted(volumeID string) (bool, error)
	// FormatVolume makes an NTFS file system on a volume without known content. It
	// succeeds without a change if there is an empty NTFS file system.
	FormatVolume(volumeID string) error
	// ResizeVolume grows partition and file system to sizeBytes, or to the largest
	// possible size if sizeBytes is 0. It never shrinks them.
	ResizeVolume(volumeID string, sizeBytes int64) error
	// GetVolumeStats returns the size and the used bytes of the file system. Both are
	// -1 with an error, and 0 if there is no file system.
	GetVolumeStats(volumeID string) (totalBytes, usedBytes int64, err error)
	// GetDiskNumberFromVolumeID returns the disk that the volume begins on.
	GetDiskNumberFromVolumeID(volumeID string) (uint32, error)
	// GetVolumeIDFromTargetPath returns the volume that is mounted at a path.
	GetVolumeIDFromTargetPath(targetPath string) (string, error)
	// WriteVolumeCache flushes Windows' cache of the volume.
	WriteVolumeCache(volumeID string) error
	// GetClosestVolumeIDFromTargetPath returns the volume that a path is on.
	GetClosestVolumeIDFromTargetPath(targetPath string) (string, error)
}

// volumeAPI is the HostAPI of a node.
type volumeAPI struct{ host node.Host }

var _ HostAPI = volumeAPI{}

// New returns the HostAPI of the Windows node that the process runs on. On other systems
// all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return volumeAPI{host: node.NativeHost()} }

// On returns the HostAPI of a node.
func On(n *node.Node) HostAPI { return volumeAPI{host: node.HostOf(n)} }

// WithContext returns the same HostAPI for one context. When ctx ends, its methods stop
// before their next Windows call.
func (v volumeAPI) WithContext(ctx context.Context) HostAPI {
	return volumeAPI{host: v.host.WithContext(ctx)}
}

// Node returns the node that the methods work on, or nil if there is none.
func (v volumeAPI) Node() *node.Node { return v.host.Node }

// usable is known, and brings the volume online if it is offline.
func (v volumeAPI) usable(volumeID string) error {
	if err := v.known(volumeID); err != nil {
		return err
	}
	return storage.EnsureOnline(v.host.Ctx, v.host.Node, volumeID)
}

// known checks that there is a node, and that volumeID is well-formed.
func (v volumeAPI) known(volumeID string) error {
	if err := v.host.Ready(); err != nil {
		return err
	}
	if !winpath.IsVolumeRoot(volumeID) {
		return hosterr.WithHint("look up the volume ID", "", hosterr.ErrNotFound,
			`a volume ID has the form \\?\Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}\, with the backslash at its end`)
	}
	return nil
}
