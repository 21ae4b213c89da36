package mounter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Format is when a disk may be partitioned and formatted.
type Format int

const (
	// IfBlank formats a blank disk. It fails with hosterr.ErrUnimplemented without
	// [Abilities.GuardsContent].
	IfBlank Format = iota
	// Never formats no disk: one without a volume, or with one that is not formatted, is
	// hosterr.ErrFailedPrecondition.
	Never
	// IfProxySaysUnformatted also formats what a proxy without [Abilities.GuardsContent] calls
	// unformatted. It destroys data of volumes that Windows cannot read, such as ext4, LUKS or a
	// damaged NTFS.
	IfProxySaysUnformatted
)

// StageOptions are how a disk is staged. The zero value is the whole disk, with NTFS.
type StageOptions struct {
	// FSType is the file system. No version of the API has another than NTFS: any other
	// fails with hosterr.ErrUnimplemented.
	FSType string
	// Partition is the number of a partition that exists. 0 means the only one with a volume,
	// which is made on a blank disk.
	Partition uint32
	// AllocationUnit is the size of an allocation unit in bytes, if the volume is formatted. 0 lets
	// Windows choose. Another fails with hosterr.ErrUnimplemented before volume/v3alpha1.
	AllocationUnit uint32
	Format         Format
	// Grow also grows the volume to the end of its disk, as after a snapshot was restored to
	// a larger one.
	Grow bool
}

// StageDisk takes a disk online, partitions and formats it if Format allows it, and mounts its
// volume at path, which it makes if it is missing. It returns the volume's ID. It fails with
// hosterr.ErrFailedPrecondition if another volume is mounted there, and if the disk has several
// volumes and none is chosen.
func (m *Mounter) StageDisk(ctx context.Context, d Disk, path string, o StageOptions) (volumeID string, err error) {
	volumeID, err = m.stage(ctx, d, path, o)
	if err != nil {
		return "", hosterr.Wrap("stage disk", d.String(), err)
	}
	return volumeID, nil
}

func (m *Mounter) stage(ctx context.Context, d Disk, path string, o StageOptions) (string, error) {
	if err := m.needs("disk", "volume", "filesystem"); err != nil {
		return "", err
	}
	if o.FSType != "" && !strings.EqualFold(o.FSType, "ntfs") {
		return "", hosterr.Text(hosterr.ErrUnimplemented, "file system %q, want ntfs", o.FSType)
	}
	path, err := clean(path)
	if err != nil {
		return "", err
	}
	volumeID, err := m.stagedAt(ctx, d, path)
	if err != nil {
		return "", err
	}
	if volumeID == "" {
		if volumeID, err = m.mount(ctx, d, path, o); err != nil {
			return "", err
		}
	}
	if o.Grow {
		_, err = m.Expand(ctx, path, 0)
	}
	return volumeID, err
}

// stagedAt returns the disk's volume if it is mounted at path, and "" if nothing is. What is left
// of a volume that is gone is removed.
func (m *Mounter) stagedAt(ctx context.Context, d Disk, path string) (string, error) {
	volumeID, err := m.volumeAt(ctx, path)
	if err != nil || volumeID == "" {
		return "", err
	}
	number, err := m.diskOf(ctx, volumeID)
	switch {
	case errors.Is(err, hosterr.ErrNotFound):
		return "", m.unmount(ctx, volumeID, path)
	case err != nil:
		return "", err
	case number != d.Number:
		return "", hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "unstage the other volume first", "volume %q of disk %d is mounted at %q", volumeID, number, path)
	}
	return volumeID, m.same(ctx, d)
}

// mount mounts the volume of a disk, which is made if it is missing.
func (m *Mounter) mount(ctx context.Context, d Disk, path string, o StageOptions) (string, error) {
	if err := m.same(ctx, d); err != nil {
		return "", err
	}
	// By Windows' SAN policy, a disk may arrive offline and read-only. Old versions of the API
	// cannot change that, and PartitionDisk does it for a blank disk.
	err := d.change(func(identity *disk.DiskIdentity) error {
		_, err := m.node.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: d.Number, IsOnline: true, Identity: identity})
		return err
	})
	if err != nil && !errors.Is(err, hosterr.ErrUnimplemented) {
		return "", hosterr.Wrap("take it online", "", err)
	}
	volumeID, err := m.onlyVolume(ctx, d, o)
	if err != nil {
		return "", err
	}
	formatted, err := m.node.Volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: volumeID})
	if err != nil {
		return "", err
	}
	if !formatted.Formatted {
		relying, err := m.mayFormat(ctx, o.Format, "its volume is not formatted")
		if err != nil {
			return "", err
		}
		if err := m.sameVolume(ctx, d, volumeID); err != nil {
			return "", err
		}
		if _, err := m.node.Volume.FormatVolume(relying, &volume.FormatVolumeRequest{VolumeID: volumeID, AllocationUnitBytes: o.AllocationUnit}); err != nil {
			return "", err
		}
	}
	if err := m.MakeDir(ctx, path); err != nil {
		return "", err
	}
	if err := m.sameVolume(ctx, d, volumeID); err != nil {
		return "", err
	}
	_, err = m.node.Volume.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: volumeID, TargetPath: path})
	return volumeID, err
}

// sameVolume returns an error if a volume is not on the disk any more.
func (m *Mounter) sameVolume(ctx context.Context, d Disk, volumeID string) error {
	if err := m.same(ctx, d); err != nil {
		return err
	}
	number, err := m.diskOf(ctx, volumeID)
	if err == nil && number != d.Number {
		err = hosterr.Text(hosterr.ErrUnavailable, "volume %q is on disk %d now", volumeID, number)
	}
	return err
}

// mayFormat returns the context of the call that formats, or an error if the content of a disk
// must stay.
func (m *Mounter) mayFormat(ctx context.Context, f Format, found string) (context.Context, error) {
	switch f {
	case IfBlank:
		relying, can, err := m.guaranteed(ctx)
		if err == nil && !can.GuardsContent {
			err = hosterr.TextWithHint(hosterr.ErrUnimplemented, "set StageOptions.Format to IfProxySaysUnformatted to take the risk, or upgrade the CSI Proxy of this node",
				"%s, and the CSI Proxy of this node cannot tell whether it is blank", found)
		}
		return relying, err
	case IfProxySaysUnformatted:
		return ctx, nil
	case Never:
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "%s, and it is not to be formatted", found)
	}
	return nil, hosterr.Text(hosterr.ErrInvalid, "format %d, want IfBlank, Never or IfProxySaysUnformatted", f)
}

// arrivals is how often the volume of a new partition is looked for.
const arrivals = 20

// onlyVolume returns the volume of the disk or partition. If the disk has none, it makes a
// partition.
func (m *Mounter) onlyVolume(ctx context.Context, d Disk, o StageOptions) (string, error) {
	for looks := 0; ; looks++ {
		list, err := m.node.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number, PartitionNumber: o.Partition})
		if err != nil {
			return "", hosterr.Wrap("list its volumes", "", err)
		}
		switch n := len(list.VolumeIDs); {
		case n == 1:
			return list.VolumeIDs[0], nil
		case n > 1:
			return "", hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "set StageOptions.Partition", "it has %d volumes, want one", n)
		case looks > arrivals:
			return "", hosterr.Text(hosterr.ErrUnavailable, "it has no volume yet")
		case looks > 0:
			if err := m.options.Clock.Sleep(ctx, pollEvery); err != nil {
				return "", err
			}
			continue
		case o.Partition != 0:
			return "", hosterr.Text(hosterr.ErrFailedPrecondition, "partition %d has no volume", o.Partition)
		}
		relying, err := m.mayFormat(ctx, o.Format, "it has no volume")
		if err != nil {
			return "", err
		}
		if err := m.same(ctx, d); err != nil {
			return "", err
		}
		if err := d.change(func(identity *disk.DiskIdentity) error {
			_, err := m.node.Disk.PartitionDisk(relying, &disk.PartitionDiskRequest{DiskNumber: d.Number, Identity: identity})
			return err
		}); err != nil {
			return "", err
		}
	}
}

// UnstageOptions are how a disk is unstaged.
type UnstageOptions struct {
	// Offline also takes the disk with this identity offline, unless it has other volumes, as
	// some systems want it before they detach it. It is an identity, because after a lost
	// answer nothing at the path says which disk it was.
	Offline *Identity
}

// UnstageDisk writes the cache of the volume at path to its disk, unmounts it, and removes the
// directory. It succeeds if there is nothing at path. A directory with content is not removed: the
// error comes after everything else is done.
func (m *Mounter) UnstageDisk(ctx context.Context, path string, o UnstageOptions) error {
	return hosterr.Wrap("unstage", hosterr.Quote(path), m.unstage(ctx, path, o))
}

func (m *Mounter) unstage(ctx context.Context, path string, o UnstageOptions) error {
	if err := m.needs("disk", "volume", "filesystem"); err != nil {
		return err
	}
	path, err := clean(path)
	if err != nil {
		return err
	}
	var off *Disk
	if o.Offline != nil {
		if off, err = m.attached(ctx, *o.Offline); err != nil {
			return err
		}
	}
	volumeID, err := m.volumeAt(ctx, path)
	if err != nil {
		return err
	}
	if volumeID != "" {
		if o.Offline != nil {
			number, gone := m.diskOf(ctx, volumeID)
			if gone == nil && (off == nil || number != off.Number) {
				return hosterr.Text(hosterr.ErrFailedPrecondition, "volume %q of disk %d is mounted, and not one of the disk with %s", volumeID, number, o.Offline)
			}
		}
		if err := m.unmount(ctx, volumeID, path); err != nil {
			return err
		}
	}
	if off != nil {
		if err := m.takeOffline(ctx, *off); err != nil {
			return err
		}
	}
	return m.Remove(ctx, path)
}

// attached returns the disk with an identity, or nil.
func (m *Mounter) attached(ctx context.Context, id Identity) (*Disk, error) {
	ctx, skip, err := m.prepare(ctx, id)
	if err != nil {
		return nil, err
	}
	found, _, err := m.look(ctx, id, skip)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if len(found) > 1 {
		return nil, hosterr.Text(hosterr.ErrFailedPrecondition, "%d disks have %s, want one: %v", len(found), id, found)
	}
	if found, err = m.known(ctx, found[0]); err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (m *Mounter) takeOffline(ctx context.Context, d Disk) error {
	list, err := m.node.Volume.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number})
	if err != nil {
		return hosterr.Wrap("list the volumes of disk", d.String(), err)
	}
	if len(list.VolumeIDs) > 1 {
		m.options.Log.Warn("Keeping a disk online that has other volumes", "disk", d, "volumes", len(list.VolumeIDs))
		return nil
	}
	if err := m.same(ctx, d); err != nil {
		return err
	}
	err = d.change(func(identity *disk.DiskIdentity) error {
		_, err := m.node.Disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: d.Number, Identity: identity})
		return err
	})
	return hosterr.Wrap("take offline disk", d.String(), err)
}

// unmount unmounts a volume.
func (m *Mounter) unmount(ctx context.Context, volumeID, path string) error {
	_, err := m.node.Volume.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: volumeID, TargetPath: path})
	if err == nil || ctx.Err() != nil || hosterr.KindOf(err) != nil {
		return err
	}
	// The existing proxy cannot unmount a volume that is gone.
	if _, gone := m.node.Volume.WriteVolumeCache(ctx, &volume.WriteVolumeCacheRequest{VolumeID: volumeID}); gone == nil || ctx.Err() != nil {
		return err
	}
	if removed := m.Remove(ctx, path); removed != nil {
		return err
	}
	return nil
}

// smallGrowth is the growth below which the existing proxy does nothing, in bytes.
const smallGrowth = 100 << 20

// reserved is how much of a disk the partition tables and Windows' reserved partition take at
// most, in bytes.
const reserved = 32 << 20

// Expand grows the volume at path, or at the end of a link there, to the end of its disk, which the
// storage system has grown before. It returns the size of the disk in bytes. It fails with
// hosterr.ErrOutOfRange if the disk has less than atLeast bytes.
//
// Without [Abilities.ReportsGrowth] it reads the volume's size before and after, and fails with
// hosterr.ErrFailedPrecondition if the proxy has skipped a small growth.
func (m *Mounter) Expand(ctx context.Context, path string, atLeast int64) (diskBytes int64, err error) {
	diskBytes, err = m.expand(ctx, path, atLeast)
	return diskBytes, hosterr.Wrap("expand the volume at", hosterr.Quote(path), err)
}

func (m *Mounter) expand(ctx context.Context, path string, atLeast int64) (int64, error) {
	if err := m.needs("disk", "volume", "filesystem"); err != nil {
		return 0, err
	}
	volumeID, err := m.mustBeAt(ctx, path)
	if err != nil {
		return 0, err
	}
	return m.expandVolume(ctx, volumeID, atLeast)
}

// ExpandVolume is [Mounter.Expand] for a volume by its ID.
func (m *Mounter) ExpandVolume(ctx context.Context, volumeID string, atLeast int64) (diskBytes int64, err error) {
	if err = m.needs("disk", "volume"); err == nil {
		diskBytes, err = m.expandVolume(ctx, volumeID, atLeast)
	}
	return diskBytes, hosterr.Wrap("expand volume", hosterr.Quote(volumeID), err)
}

func (m *Mounter) expandVolume(ctx context.Context, volumeID string, atLeast int64) (int64, error) {
	if atLeast < 0 {
		return 0, hosterr.Text(hosterr.ErrInvalid, "%d bytes, want a size", atLeast)
	}
	if err := m.Rescan(ctx); err != nil {
		return 0, err
	}
	number, err := m.diskOf(ctx, volumeID)
	if err != nil {
		return 0, err
	}
	size, err := m.sizeOf(ctx, number)
	if err != nil {
		return 0, err
	}
	if size < atLeast {
		return 0, hosterr.Text(hosterr.ErrOutOfRange, "disk %d has %d bytes, want at least %d: the storage system has not grown it", number, size, atLeast)
	}
	relying, can, err := m.guaranteed(ctx)
	if err != nil {
		return 0, err
	}
	before, err := m.statsOf(ctx, volumeID)
	if err != nil {
		return 0, err
	}
	if _, err := m.node.Volume.ResizeVolume(relying, &volume.ResizeVolumeRequest{VolumeID: volumeID}); err != nil {
		return 0, err
	}
	after, err := m.statsOf(ctx, volumeID)
	if err != nil {
		return 0, err
	}
	if left := size - after.TotalBytes; !can.ReportsGrowth && after.TotalBytes == before.TotalBytes && left > reserved {
		return 0, hosterr.TextWithHint(hosterr.ErrFailedPrecondition, fmt.Sprintf("grow the disk by at least %d bytes at a time, or upgrade the CSI Proxy of this node", smallGrowth),
			"the CSI Proxy of this node reported success and left %d bytes of disk %s unused", left, strconv.FormatUint(uint64(number), 10))
	}
	return size, nil
}
