// Package gcepd uses the identifiers that the GCE PD CSI driver uses
// (kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pkg/mount-manager): v1.go
// those of safe-mounter-v1_windows.go at 08a69a91ec4f, v1beta.go those of
// safe-mounter-v1beta_windows.go at 8aed19b16fd6, hostprocess.go those of the version
// of safe-mounter_windows.go that uses the library in HostProcess containers.
// safe-mounter_windows.go at 348848fd8727 tries v1, then v1beta.
package gcepd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// V1 is the driver's mounter for the stable versions.
type V1 struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
}

// NewV1 connects to the proxy.
func NewV1() (*V1, error) {
	var m V1
	var errs [3]error
	m.FsClient, errs[0] = fsclient.NewClient()
	m.DiskClient, errs[1] = diskclient.NewClient()
	m.VolumeClient, errs[2] = volumeclient.NewClient()
	return &m, errors.Join(errs[:]...)
}

func (m *V1) versions() string {
	return fmt.Sprintf("%s %s %s", diskclient.Version, fsclient.Version, volumeclient.Version)
}

func (m *V1) publish(ctx context.Context, staging, target string) error {
	_, err := m.FsClient.CreateSymlink(ctx, &fsapi.CreateSymlinkRequest{SourcePath: staging, TargetPath: target})
	return err
}

func (m *V1) look(ctx context.Context, path string) (exists, link bool, err error) {
	there, err := m.FsClient.PathExists(ctx, &fsapi.PathExistsRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	is, err := m.FsClient.IsSymlink(ctx, &fsapi.IsSymlinkRequest{Path: path})
	if err != nil {
		return false, false, err
	}
	return there.Exists, is.IsSymlink, nil
}

// name reads a disk's identifiers as the driver does: it passes them by pointer and
// prints them.
func name(ids *diskapi.DiskIDs) string {
	if words := strings.Fields(ids.Page83); len(words) > 0 {
		return words[len(words)-1]
	}
	return fmt.Sprintf("%s %v", ids.SerialNumber, ids)
}

func (m *V1) find(ctx context.Context, device string) (uint32, error) {
	out, err := m.DiskClient.ListDiskIDs(ctx, &diskapi.ListDiskIDsRequest{})
	if err != nil {
		return 0, err
	}
	for number, ids := range out.GetDiskIDs() {
		if name(ids) == device {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no disk %s", device)
}

func (m *V1) stage(ctx context.Context, number uint32, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &diskapi.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if _, err := m.DiskClient.SetDiskState(ctx, &diskapi.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	volumes, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volumeapi.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	id := volumes.VolumeIds[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &volumeapi.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volumeapi.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volumeapi.MountVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

func (m *V1) unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volumeapi.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	id := mounted.GetVolumeId()
	if _, err := m.VolumeClient.UnmountVolume(ctx, &volumeapi.UnmountVolumeRequest{TargetPath: target, VolumeId: id}); err != nil {
		return err
	}
	if _, err := m.FsClient.Rmdir(ctx, &fsapi.RmdirRequest{Path: target, Force: true}); err != nil {
		return err
	}
	disk, err := m.VolumeClient.GetDiskNumberFromVolumeID(ctx, &volumeapi.GetDiskNumberFromVolumeIDRequest{VolumeId: id})
	if err != nil {
		return err
	}
	_, err = m.DiskClient.SetDiskState(ctx, &diskapi.SetDiskStateRequest{DiskNumber: disk.GetDiskNumber(), IsOnline: false})
	return err
}

func (m *V1) size(ctx context.Context, number uint32) (int64, error) {
	out, err := m.DiskClient.GetDiskStats(ctx, &diskapi.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, err
	}
	return out.TotalBytes, nil
}

// Mounter is implemented for both versions.
type Mounter interface {
	versions() string
	publish(ctx context.Context, staging, target string) error
	look(ctx context.Context, path string) (exists, link bool, err error)
	unstage(ctx context.Context, target string) error
}

var (
	_ Mounter = (*V1)(nil)
	_ Mounter = (*V1Beta)(nil)
	_         = (*V1).find
	_         = (*V1).stage
	_         = (*V1).size
)

// New tries the newer versions first.
func New() (Mounter, error) {
	if m, err := NewV1(); err == nil {
		return m, nil
	}
	return NewV1Beta()
}
