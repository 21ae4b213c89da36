// Package vsphere uses the identifiers that the vSphere CSI driver uses
// (kubernetes-sigs/vsphere-csi-driver, pkg/csi/service/mounter/mounter_windows.go):
// hostprocess.go those at ca8fd0f99f1f, with library v2.0.0-alpha.1 in go.mod at
// 003e1e814be2; pipes.go those of the client, which the driver used before.
//
// We do not have one identifier that it uses: RunPowershellCmd of package utils, with
// which it makes a disk writable and takes it online. hostprocess.go calls
// SetDiskReadOnly and SetDiskState instead, as docs/migrating/pkg-utils.md describes.
package vsphere

import (
	"context"
	"errors"
	"fmt"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	fs "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	systemApi "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	systemClient "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volumeclient "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

// Pipes is the driver's mounter with the proxy.
type Pipes struct {
	FsClient     *fsclient.Client
	DiskClient   *diskclient.Client
	VolumeClient *volumeclient.Client
	SystemClient *systemClient.Client
}

// NewPipes connects to the proxy.
func NewPipes() (*Pipes, error) {
	var m Pipes
	var errs [4]error
	m.FsClient, errs[0] = fsclient.NewClient()
	m.DiskClient, errs[1] = diskclient.NewClient()
	m.VolumeClient, errs[2] = volumeclient.NewClient()
	m.SystemClient, errs[3] = systemClient.NewClient()
	return &m, errors.Join(errs[:]...)
}

// Versions returns the versions of the clients.
func (m *Pipes) Versions() string {
	return fmt.Sprintf("%s %s %s %s", fsclient.Version, diskclient.Version, volumeclient.Version, systemClient.Version)
}

// Node returns the serial number of the virtual machine.
func (m *Pipes) Node(ctx context.Context) (string, error) {
	out, err := m.SystemClient.GetBIOSSerialNumber(ctx, &systemApi.GetBIOSSerialNumberRequest{})
	if err != nil {
		return "", err
	}
	return out.GetSerialNumber(), nil
}

// Paths makes directories and links, checks and removes them.
func (m *Pipes) Paths(ctx context.Context, source, target string) (bool, error) {
	_, made := m.FsClient.Mkdir(ctx, &fs.MkdirRequest{Path: source})
	_, linked := m.FsClient.CreateSymlink(ctx, &fs.CreateSymlinkRequest{SourcePath: source, TargetPath: target})
	if err := errors.Join(made, linked); err != nil {
		return false, err
	}
	there, err := m.FsClient.PathExists(ctx, &fs.PathExistsRequest{Path: target})
	if err != nil || !there.Exists {
		return false, err
	}
	is, err := m.FsClient.IsSymlink(ctx, &fs.IsSymlinkRequest{Path: target})
	if err != nil || !is.IsSymlink {
		return false, err
	}
	_, err = m.FsClient.Rmdir(ctx, &fs.RmdirRequest{Path: target, Force: true})
	return err == nil, err
}

// Stage finds a disk by its identifier and mounts its first volume.
func (m *Pipes) Stage(ctx context.Context, page83, target string) error {
	if _, err := m.DiskClient.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return err
	}
	ids, err := m.DiskClient.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return err
	}
	for number, of := range ids.GetDiskIDs() {
		if of.Page83 == page83 {
			return m.mount(ctx, number, target)
		}
	}
	return fmt.Errorf("no disk %s", page83)
}

func (m *Pipes) mount(ctx context.Context, number uint32, target string) error {
	if _, err := m.DiskClient.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	if _, err := m.DiskClient.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true}); err != nil {
		return err
	}
	volumes, err := m.VolumeClient.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	id := volumes.VolumeIds[0]
	formatted, err := m.VolumeClient.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeId: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := m.VolumeClient.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeId: id}); err != nil {
			return err
		}
	}
	_, err = m.VolumeClient.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

// Unstage unmounts a volume and takes its disk offline.
func (m *Pipes) Unstage(ctx context.Context, target string) error {
	mounted, err := m.VolumeClient.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		return err
	}
	if _, err := m.VolumeClient.UnmountVolume(ctx, &volume.UnmountVolumeRequest{TargetPath: target, VolumeId: mounted.GetVolumeId()}); err != nil {
		return err
	}
	on, err := m.VolumeClient.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeId: mounted.VolumeId})
	if err != nil {
		return err
	}
	_, err = m.DiskClient.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: on.GetDiskNumber(), IsOnline: false})
	return err
}

// Grow grows a volume and returns the sizes of its disk and the volume.
func (m *Pipes) Grow(ctx context.Context, number uint32, id string) (whole, total, used int64, err error) {
	if _, err := m.VolumeClient.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id, SizeBytes: 0}); err != nil {
		return 0, 0, 0, err
	}
	disks, err := m.DiskClient.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, 0, 0, err
	}
	out, err := m.VolumeClient.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	if err != nil {
		return 0, 0, 0, err
	}
	return disks.TotalBytes, max(out.TotalBytes, out.GetTotalBytes()), out.GetUsedBytes(), nil
}
