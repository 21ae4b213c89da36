package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	vol "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Keys of the publish context of an attached disk, by which the node finds it: Page83,
// or SerialNumber, or LUN. Disks on several adapters can have the same LUN, so that
// one has Adapter, too.
const (
	Page83       = "page83"       // the SCSI identifier, as in disk.DiskIDs
	SerialNumber = "serialNumber" // the serial number, as in disk.DiskIDs
	LUN          = "lun"          // as in disk.DiskLocation
	Adapter      = "adapter"      // as in disk.DiskLocation
)

// diskVolume is a volume on an attached disk.
type diskVolume struct{ name string }

func (diskVolume) shared() bool { return false }

func (v diskVolume) stage(ctx context.Context, d *Driver, in *csi.NodeStageVolumeRequest) error {
	number, err := d.awaitDisk(ctx, in.GetPublishContext())
	if err != nil {
		return err
	}
	return d.stageDisk(ctx, number, in.GetStagingTargetPath())
}

func (diskVolume) unstage(ctx context.Context, d *Driver, path string) error {
	return d.unmount(ctx, path)
}

func (diskVolume) stats(ctx context.Context, d *Driver, path string) (total, free int64, err error) {
	return d.volumeStats(ctx, path)
}

func (diskVolume) expand(ctx context.Context, d *Driver, path string, atLeast int64) (int64, error) {
	return d.expandDisk(ctx, path, atLeast)
}

// awaitDisk is findDisk for a disk that was just attached: Windows may see it some time
// after a scan. If that takes longer, the kubelet calls again.
func (d *Driver) awaitDisk(ctx context.Context, publish map[string]string) (uint32, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		number, err := d.findDisk(ctx, publish)
		if status.Code(err) != codes.Unavailable || time.Now().After(deadline) {
			return number, err
		}
	}
}

// findDisk returns the number of the disk that a publish context describes. The number
// is valid while the disk is attached, so it is looked up each time.
func (d *Driver) findDisk(ctx context.Context, publish map[string]string) (uint32, error) {
	disks := d.config.Host.Disk
	if _, err := disks.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return 0, err
	}
	var found []uint32
	page83, serial, lun, adapter := publish[Page83], publish[SerialNumber], publish[LUN], publish[Adapter]
	switch {
	case page83 != "" || serial != "":
		ids, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
		if err != nil {
			return 0, err
		}
		for number, id := range ids.DiskIDs {
			if (page83 == "" || id.Page83 == page83) && (serial == "" || id.SerialNumber == serial) {
				found = append(found, number)
			}
		}
	case lun != "":
		locations, err := disks.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
		if err != nil {
			return 0, err
		}
		for number, at := range locations.DiskLocations {
			if at.LUNID == lun && (adapter == "" || at.Adapter == adapter) {
				found = append(found, number)
			}
		}
	default:
		return 0, status.Errorf(codes.InvalidArgument, "the publish context has none of %s, %s and %s", Page83, SerialNumber, LUN)
	}
	what := fmt.Sprintf("%s %q, %s %q, %s %q, %s %q", Page83, page83, SerialNumber, serial, LUN, lun, Adapter, adapter)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, status.Errorf(codes.Unavailable, "the node has no disk with %s yet", what)
	}
	// Never guess: the wrong disk would be formatted.
	return 0, status.Errorf(codes.FailedPrecondition, "the node has %d disks with %s", len(found), what)
}

// stageDisk formats the volume of a disk, unless that is done, and mounts it.
func (d *Driver) stageDisk(ctx context.Context, number uint32, path string) error {
	h := d.config.Host
	if err := d.online(ctx, number); err != nil {
		return err
	}
	if _, err := h.Disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		return err
	}
	list, err := h.Volume.ListVolumesOnDisk(ctx, &vol.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		return err
	}
	switch {
	case len(list.VolumeIDs) == 0:
		return status.Errorf(codes.Unavailable, "disk %d has no volume yet", number)
	case len(list.VolumeIDs) > 1:
		return status.Errorf(codes.FailedPrecondition, "disk %d has %d volumes, want one", number, len(list.VolumeIDs))
	}
	id := list.VolumeIDs[0]
	formatted, err := h.Volume.IsVolumeFormatted(ctx, &vol.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return err
	}
	if !formatted.Formatted {
		if _, err := h.Volume.FormatVolume(ctx, &vol.FormatVolumeRequest{VolumeID: id}); err != nil {
			return err
		}
	}
	if _, err := h.Filesystem.Mkdir(ctx, &filesystem.MkdirRequest{Path: path}); err != nil {
		return err
	}
	_, err = h.Volume.MountVolume(ctx, &vol.MountVolumeRequest{VolumeID: id, TargetPath: path})
	return err
}

// online makes a disk usable. By Windows' SAN policy, disks may arrive offline and
// read-only. Methods that the proxy's version does not have are skipped: the disk may
// be usable as it is.
func (d *Driver) online(ctx context.Context, number uint32) error {
	disks := d.config.Host.Disk
	state, err := disks.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: number})
	if err == nil && !state.IsOnline {
		_, err = disks.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true})
	}
	if err != nil && !errors.Is(err, hosterr.ErrUnimplemented) {
		return err
	}
	// No version of the API through pipes has these two.
	readOnly, err := disks.GetDiskReadOnly(ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: number})
	if err == nil && readOnly.IsReadOnly {
		_, err = disks.SetDiskReadOnly(ctx, &disk.SetDiskReadOnlyRequest{DiskNumber: number})
	}
	if err != nil && !errors.Is(err, hosterr.ErrUnimplemented) {
		return err
	}
	return nil
}

// unmount unmounts the volume at a path, if there is one.
func (d *Driver) unmount(ctx context.Context, path string) error {
	mounted, err := d.config.Host.Volume.GetVolumeIDFromTargetPath(ctx, &vol.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if errors.Is(err, hosterr.ErrNotFound) || errors.Is(err, hosterr.ErrFailedPrecondition) {
		return nil // no such path, or nothing is mounted there
	}
	if err != nil {
		return err
	}
	_, err = d.config.Host.Volume.UnmountVolume(ctx, &vol.UnmountVolumeRequest{VolumeID: mounted.VolumeID, TargetPath: path})
	return err
}

// volumeStats returns the size and the free bytes of the volume that is mounted at a
// path, or that a link at the path leads to.
func (d *Driver) volumeStats(ctx context.Context, path string) (total, free int64, err error) {
	mounted, err := d.config.Host.Volume.GetVolumeIDFromTargetPath(ctx, &vol.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return 0, 0, err
	}
	stats, err := d.config.Host.Volume.GetVolumeStats(ctx, &vol.GetVolumeStatsRequest{VolumeID: mounted.VolumeID})
	if err != nil {
		return 0, 0, err
	}
	return stats.TotalBytes, stats.TotalBytes - stats.UsedBytes, nil
}

// expandDisk grows the volume at a path to the end of its disk, which the storage
// system has grown before.
func (d *Driver) expandDisk(ctx context.Context, path string, atLeast int64) (int64, error) {
	h := d.config.Host
	mounted, err := h.Volume.GetVolumeIDFromTargetPath(ctx, &vol.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return 0, err
	}
	if _, err := h.Disk.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return 0, err
	}
	number, err := h.Volume.GetDiskNumberFromVolumeID(ctx, &vol.GetDiskNumberFromVolumeIDRequest{VolumeID: mounted.VolumeID})
	if err != nil {
		return 0, err
	}
	size, err := h.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number.DiskNumber})
	if err != nil {
		return 0, err
	}
	if size.TotalBytes < atLeast {
		return 0, status.Errorf(codes.OutOfRange, "disk %d has %d bytes, want at least %d: the storage system has not grown it", number.DiskNumber, size.TotalBytes, atLeast)
	}
	if _, err := h.Volume.ResizeVolume(ctx, &vol.ResizeVolumeRequest{VolumeID: mounted.VolumeID}); err != nil {
		return 0, err
	}
	return size.TotalBytes, nil
}
