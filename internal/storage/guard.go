package storage

import (
	"context"
	"fmt"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Guard refuses a disk that Windows itself needs. A host calls it before it
// initializes, partitions or takes a disk offline, and before it formats or grows
// a volume, on the handle that it will write through. Published requests make
// this necessary: one without a disk number means disk 0.
//
// A disk is needed if the volume of the Windows directory lies on it, or if its
// partition table l has an entry that only system disks have: an EFI system,
// recovery, dynamic-disk or Storage Spaces partition, or an active MBR partition.
// If Guard cannot find the disk of the Windows directory, it refuses every disk.
//
// Refusals are hosterr.ErrFailedPrecondition.
func Guard(ctx context.Context, d *Disk, l win32.Layout) error {
	number, err := d.Number(ctx)
	if err != nil {
		return hosterr.Wrap("get the disk's number", "", err)
	}
	for _, p := range Used(l) {
		if why := systemEntry(l, p); why != "" {
			return hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d has %s, so it is not changed", number.DeviceNumber, why)
		}
	}
	system, err := windowsExtents(ctx, d.node)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		// The kind of err, such as not found, is not the kind of this error.
		return hosterr.Text(hosterr.ErrFailedPrecondition, "cannot find the disk that holds Windows, so no disk is changed: %v", err)
	}
	for _, e := range system {
		if e.Disk == number.DeviceNumber {
			return hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d holds Windows, so it is not changed", e.Disk)
		}
	}
	return nil
}

// GuardVolume refuses to mount the volume with these extents if Windows needs it:
// the volume of the Windows directory, and those that start or repair Windows.
// Mounted below a container's directory, it would be open to the container. A
// data volume may be mounted, even from the disk that holds Windows.
func GuardVolume(ctx context.Context, n *node.Node, extents []win32.Extent) error {
	system, err := windowsExtents(ctx, n)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		return hosterr.Text(hosterr.ErrFailedPrecondition, "cannot find the volume that holds Windows, so no volume is mounted: %v", err)
	}
	for _, e := range extents {
		for _, s := range system {
			if e.Disk == s.Disk && e.Offset < s.Offset+s.Length && s.Offset < e.Offset+e.Length {
				return hosterr.Text(hosterr.ErrFailedPrecondition, "it holds Windows, so it is not mounted")
			}
		}
		l, err := layoutOf(ctx, n, e.Disk)
		if err != nil {
			return err
		}
		if p, ok := At(l, e.Offset); ok {
			if why := bootEntry(l, p); why != "" {
				return hosterr.Text(hosterr.ErrFailedPrecondition, "it is %s, so it is not mounted", why)
			}
		}
	}
	return nil
}

func layoutOf(ctx context.Context, n *node.Node, number uint32) (win32.Layout, error) {
	d, err := OpenDisk(ctx, n, number, Query)
	if err != nil {
		return win32.Layout{}, hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close()
	return d.Layout(ctx)
}

// bootEntry names what makes p a partition that starts or repairs Windows. It
// returns "" for other partitions.
func bootEntry(l win32.Layout, p win32.Partition) string {
	switch {
	case l.Style == win32.PARTITION_STYLE_MBR && p.Active:
		return "an active partition"
	case l.Style != win32.PARTITION_STYLE_GPT:
		return ""
	case p.Type == win32.PARTITION_SYSTEM_GUID:
		return "an EFI system partition"
	case p.Type == win32.PARTITION_MSFT_RECOVERY_GUID:
		return "a recovery partition"
	}
	return ""
}

func systemEntry(l win32.Layout, p win32.Partition) string {
	if why := bootEntry(l, p); why != "" {
		return why
	}
	if l.Style == win32.PARTITION_STYLE_MBR {
		if p.MBRType == mbrLDM {
			return "a dynamic-disk partition"
		}
		return ""
	}
	switch p.Type {
	case win32.PARTITION_LDM_DATA_GUID, win32.PARTITION_LDM_METADATA_GUID:
		return "a dynamic-disk partition"
	case win32.PARTITION_SPACES_GUID:
		return "a Storage Spaces partition"
	}
	return ""
}

// mbrLDM is the MBR type of a dynamic disk (PARTITION_LDM).
const mbrLDM = 0x42

// windowsExtents returns the extents of the volume with the Windows directory.
func windowsExtents(ctx context.Context, n *node.Node) ([]win32.Extent, error) {
	dir, err := n.API.WindowsDirectory()
	if err != nil {
		return nil, fmt.Errorf("find the Windows directory: %w", err)
	}
	root, err := n.API.VolumePathName(dir)
	if err != nil {
		return nil, fmt.Errorf("find the volume of %q: %w", dir, err)
	}
	id, err := n.API.VolumeNameForMountPoint(root)
	if err != nil {
		return nil, fmt.Errorf("find the volume of %q: %w", root, err)
	}
	v, err := OpenVolume(ctx, n, id, Query)
	if err != nil {
		return nil, fmt.Errorf("open volume %q: %w", id, err)
	}
	defer v.Close()
	es, err := v.Extents(ctx)
	if err == nil && len(es) == 0 {
		err = fmt.Errorf("volume %q has no extents", id)
	}
	return es, err
}
