// Package api is the published surface of the volume host.
package api

import "regexp"

type HostAPI interface {
	ListVolumesOnDisk(diskNumber uint32, partitionNumber uint32) (volumeIDs []string, err error)
	MountVolume(volumeID, targetPath string) error
	UnmountVolume(volumeID, targetPath string) error
	IsVolumeFormatted(volumeID string) (bool, error)
	FormatVolume(volumeID string) error
	ResizeVolume(volumeID string, sizeBytes int64) error
	GetVolumeStats(volumeID string) (int64, int64, error)
	GetDiskNumberFromVolumeID(volumeID string) (uint32, error)
	GetVolumeIDFromTargetPath(targetPath string) (string, error)
	WriteVolumeCache(volumeID string) error
	GetClosestVolumeIDFromTargetPath(targetPath string) (string, error)
}

func New() HostAPI

var VolumeRegexp *regexp.Regexp
