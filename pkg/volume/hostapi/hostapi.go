// Package api is what is done to the volumes of a Windows node: which calls of
// Windows, in which order, with which bytes. Package volume decides when;
// drivers that need one step alone call it here.
//
// Methods that change something may be repeated. They hold no locks: two at once
// on one volume or path are for
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/volume] to keep apart. A volume
// that the node does not have, and an ID that is not of the form of one, are
// errors that are not-found. What Windows needs for itself, and content that is
// not known to be free, is refused with a failed precondition.
//
// What has been verified, and on what: docs/evidence/verification.md.
package api

import (
	"context"
	"regexp"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// VolumeRegexp finds the name of a volume in a text.
var VolumeRegexp = regexp.MustCompile(`Volume\{[\w-]*\}`)

// HostAPI is what the volume service asks of a node. Volumes are named by their
// ID, `\\?\Volume{…}\`; sizes are bytes.
type HostAPI interface {
	// ListVolumesOnDisk returns the volumes on a disk, or with a partition
	// number other than 0 on that partition, in the order in which they begin.
	ListVolumesOnDisk(diskNumber uint32, partitionNumber uint32) (volumeIDs []string, err error)
	// MountVolume mounts the volume on an existing empty directory. If it is
	// mounted there, that is success.
	MountVolume(volumeID, targetPath string) error
	// UnmountVolume writes the volume's cache out, if the volume is there, and
	// removes its mount point. A path at which nothing is mounted is success.
	UnmountVolume(volumeID, targetPath string) error
	// IsVolumeFormatted tells whether the volume has a file system of Windows.
	IsVolumeFormatted(volumeID string) (bool, error)
	// FormatVolume makes an NTFS file system on a volume that has nothing known
	// on it. An empty NTFS file system is success.
	FormatVolume(volumeID string) error
	// ResizeVolume grows partition and file system to sizeBytes, or with 0 as
	// far as there is room. It never shrinks.
	ResizeVolume(volumeID string, sizeBytes int64) error
	// GetVolumeStats returns size and use of the file system, both -1 with an
	// error, both 0 if there is none.
	GetVolumeStats(volumeID string) (totalBytes, usedBytes int64, err error)
	// GetDiskNumberFromVolumeID returns the disk on which the volume begins.
	GetDiskNumberFromVolumeID(volumeID string) (uint32, error)
	// GetVolumeIDFromTargetPath returns the volume mounted at a path.
	GetVolumeIDFromTargetPath(targetPath string) (string, error)
	// WriteVolumeCache writes what Windows holds in memory for the volume.
	WriteVolumeCache(volumeID string) error
	// GetClosestVolumeIDFromTargetPath returns the volume on which a path lies.
	GetClosestVolumeIDFromTargetPath(targetPath string) (string, error)
}

// volumeAPI is the HostAPI of a node.
type volumeAPI struct{ host node.Host }

var _ HostAPI = volumeAPI{}

// New is the HostAPI of the Windows node that the process runs on. Off Windows
// every method answers that there is none.
func New() HostAPI { return volumeAPI{host: node.NativeHost()} }

// On is the HostAPI of a node.
func On(n *node.Node) HostAPI { return volumeAPI{host: node.HostOf(n)} }

// WithContext is the same HostAPI, whose methods end early, between two calls
// of Windows, when ctx ends.
func (v volumeAPI) WithContext(ctx context.Context) HostAPI {
	return volumeAPI{host: v.host.WithContext(ctx)}
}

// Node is the node that the methods work on; nil where there is none.
func (v volumeAPI) Node() *node.Node { return v.host.Node }

// known is ready, and refuses what cannot be the ID of a volume.
func (v volumeAPI) known(volumeID string) error {
	if err := v.host.Ready(); err != nil {
		return err
	}
	if !storage.IsVolumeID(volumeID) {
		return hosterr.WithHint("look up the volume ID", "", hosterr.ErrNotFound,
			`a volume ID has the form \\?\Volume{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}\, with the backslash at its end`)
	}
	return nil
}
