package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// partitionPath returns the name of a partition's device. Partition 0 is the whole disk.
func partitionPath(disk, partition uint32) string {
	return fmt.Sprintf(`\\?\Harddisk%dPartition%d`, disk, partition)
}

// errElsewhere is the cause of an error about a partition's device that is not a volume in
// the place of the partition.
var errElsewhere = errors.New("its volume lies elsewhere")

// volumeAt returns the volume of a partition by the device of the partition, so the number
// of calls does not depend on how many volumes the node has. found is false for a partition
// without a volume. With an error, only a search of all volumes can find it.
func volumeAt(ctx context.Context, n *node.Node, disk uint32, p win32.Partition) (at Located, found bool, err error) {
	h, err := openOnce(n, partitionPath(disk, p.Number), Query)
	if err != nil {
		return at, false, unlessAbsent(err)
	}
	v := Volume{device{node: n, h: h, noRetry: true}}
	defer v.Close() // the name of the device stays that of this volume as long as it is open
	if at.Extents, err = v.extentIn(ctx, disk, p); err != nil {
		return at, false, unlessAbsent(err)
	}
	device, err := v.query(ctx, win32.IOCTL_MOUNTDEV_QUERY_DEVICE_NAME, nil, 256)
	if err != nil {
		return at, false, unlessAbsent(hosterr.Wrap("get the volume's device name", "", err))
	}
	name, err := win32.DecodeDeviceName(device)
	if err != nil {
		return at, false, err
	}
	if at.ID, err = volumeName(ctx, n, name); err != nil {
		return at, false, unlessAbsent(err)
	}
	return at, true, nil
}

// unlessAbsent returns nil for the errors of a volume that does not exist.
func unlessAbsent(err error) error {
	if errors.Is(err, hosterr.ErrNotFound) || win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND) {
		return nil
	}
	return err
}

// extentIn returns the only extent of a volume that begins where a partition does.
func (v *Volume) extentIn(ctx context.Context, disk uint32, p win32.Partition) ([]win32.Extent, error) {
	extents, err := v.Extents(ctx)
	if err == nil && (len(extents) != 1 || extents[0].Disk != disk || extents[0].Offset != p.Offset) {
		err = fmt.Errorf("partition %d of disk %d: %w: %v", p.Number, disk, errElsewhere, extents)
	}
	return extents, err
}

// volumeName asks the mount manager for the name of a volume, `\\?\Volume{…}\`. A volume
// with two of them is an error: which one Windows lists is not known.
func volumeName(ctx context.Context, n *node.Node, deviceName string) (string, error) {
	h, err := openOnce(n, win32.MountManager, Query)
	if err != nil {
		// Its number says nothing about the volume.
		return "", hosterr.Text(hosterr.ErrUnavailable, "open the mount manager: %v", err)
	}
	d := device{node: n, h: h, noRetry: true}
	defer d.Close()
	out, err := d.query(ctx, win32.IOCTL_MOUNTMGR_QUERY_POINTS, win32.MountPoint{Device: deviceName}.Encode(), 1024)
	if err != nil {
		return "", hosterr.Wrap("get the volume's names", "", err)
	}
	points, err := win32.DecodeMountPoints(out)
	if err != nil {
		return "", err
	}
	return onlyName(points)
}

// onlyName returns the one volume name among mount points. It returns hosterr.ErrNotFound for
// a volume that has none yet.
func onlyName(points []win32.MountPoint) (string, error) {
	var ids []string
	for _, p := range points {
		if rest, ok := strings.CutPrefix(p.Link, `\??\`); ok && winpath.IsVolumeRoot(`\\?\`+rest+`\`) {
			ids = append(ids, `\\?\`+rest+`\`)
		}
	}
	switch len(ids) {
	case 0:
		return "", hosterr.ErrNotFound
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("a volume has %d names: %q", len(ids), ids)
}

// OnDisk returns the volumes that lie on a disk, or on one of its partitions, in the order
// of their first extent there. It asks the disk and its partitions. Only if these do not
// say, it asks all volumes of the node: if the disk has no partition table that can be read or is a dynamic
// one, if a partition that should have a volume has none, or if Windows answers unexpectedly.
// It returns hosterr.ErrUnavailable if a volume that does not say where it lies may be one of them.
//
// The caller names the disk whose volumes it will use, so with online, the offline volumes
// of data partitions are brought online, except on a disk that [Guard] refuses.
func OnDisk(ctx context.Context, n *node.Node, number, partition uint32, online bool) ([]Located, error) {
	d, err := OpenDisk(ctx, n, number, Query)
	if errors.Is(err, hosterr.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close() // the number stays that of this disk as long as it is open
	l, unread := d.Layout(ctx)
	if unread != nil && (online || partition != 0 || ctx.Err() != nil) {
		return nil, unread
	}
	ps := Used(l)
	if partition != 0 {
		if ps = slices.DeleteFunc(ps, func(p win32.Partition) bool { return p.Number != partition }); len(ps) == 0 {
			return nil, nil
		}
	}
	why := unread
	if why == nil {
		var all []Located
		if all, why = d.volumes(ctx, number, l, ps, online); why == nil {
			return all, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	Searching(n, number, why)
	all, err := d.search(ctx, number, l, ps, unread == nil, online)
	if err != nil {
		return nil, err
	}
	if partition != 0 {
		all = slices.DeleteFunc(all, func(v Located) bool { return !v.Within(number, ps[0]) })
	}
	return all, nil
}

// search returns the volumes of the disk, of all volumes of the node, in the order of their
// first extent there. l is the table of the disk if readable is set, and ps are the
// partitions that the caller asks for. With online, it brings the offline volumes of data
// partitions online.
//
// A volume that does not say where it lies is asked again if it may lie in one of ps. If it
// is still silent after that, search returns hosterr.ErrUnavailable. Where each partition has
// its volume, it does not matter that another disk has a broken one.
func (d *Disk) search(ctx context.Context, number uint32, l win32.Layout, ps []win32.Partition, readable, online bool) ([]Located, error) {
	n := d.node
	all, unknown, err := volumes(ctx, n)
	if err == nil && online {
		var brought bool
		if brought, err = d.onlineVolumes(ctx, number, l, all); err == nil && brought {
			all, unknown, err = volumes(ctx, n)
		}
	}
	if err != nil || len(unknown) == 0 {
		return Sorted(all, number), err
	}
	if attrs, err := d.Attributes(ctx); err == nil && attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
		return Sorted(all, number), nil // a disk that is offline has no volumes
	}
	begun, first := n.Clock.Now(), true
	err = node.Poll(ctx, n.Clock, tryFor(retryFor), func() (bool, error) {
		if !first {
			var ids []string
			for _, s := range unknown {
				ids = append(ids, s.id)
			}
			var more []Located
			if more, unknown, err = locate(ctx, n, ids); err != nil {
				return true, err
			}
			all = append(all, more...)
		}
		first = false
		if len(unknown) == 0 || readable && complete(number, l, ps, all) {
			return true, ctx.Err()
		}
		i := slices.IndexFunc(unknown, func(s silent) bool { return !unready(s.err) })
		if i < 0 { // a drive without a medium, too, is not ready
			return n.Clock.Now().Sub(begun) >= unreadyFor, nil
		}
		// The number and the kind of its error are not those of this one.
		return false, hosterr.TextWithHint(hosterr.ErrUnavailable, hintSilent,
			"volume %s does not say where it lies, and may be one of disk %d: %v", hosterr.Quote(unknown[i].id), number, unknown[i].err)
	})
	if err != nil {
		return nil, err
	}
	return Sorted(all, number), nil
}

const hintSilent = "end the programs that keep the volume busy, or detach its disk if that is broken, and try again"

// unreadyFor is how long a search waits for volumes that are not ready.
const unreadyFor = time.Second

// unready reports whether err is that of a volume that may never say where it lies: it has no
// medium, or its disk was removed.
func unready(err error) bool {
	return win32.IsCode(err, win32.ERROR_NOT_READY) || errors.Is(Gone(err), hosterr.ErrNotFound)
}

// complete reports whether no other volume than all can lie in partitions ps of a disk.
func complete(number uint32, l win32.Layout, ps []win32.Partition, all []Located) bool {
	if Uninitialized(l) || superfloppy(l) {
		return len(Sorted(all, number)) > 0 // a file system on the whole disk
	}
	return !slices.ContainsFunc(ps, func(p win32.Partition) bool {
		return hasVolume(l, p) && (poolEntry(l, p) != "" || !slices.ContainsFunc(all, func(v Located) bool { return v.Within(number, p) }))
	})
}

// hasVolume reports whether a partition may have a volume.
func hasVolume(l win32.Layout, p win32.Partition) bool {
	return l.Style != win32.PARTITION_STYLE_GPT || p.Type != win32.PARTITION_MSFT_RESERVED_GUID
}

// Searching counts and logs that all volumes of the node are asked for those of a disk.
func Searching(n *node.Node, disk uint32, why error) {
	n.Searches.Add(1)
	n.Log.Info("Searching all volumes of the node for those of a disk", "disk", disk, "reason", why)
}

// volumes returns the volumes of partitions ps. An error says why they have to be searched for.
func (d *Disk) volumes(ctx context.Context, number uint32, l win32.Layout, ps []win32.Partition, online bool) ([]Located, error) {
	switch {
	case Uninitialized(l) || superfloppy(l):
		return nil, errors.New("the disk has no partition table")
	case slices.ContainsFunc(ps, func(p win32.Partition) bool { return p.Number == 0 }):
		return nil, errors.New("a partition has no number")
	}
	var all []Located
	var missing []uint32
	for _, p := range ps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !hasVolume(l, p) {
			continue
		}
		if why := poolEntry(l, p); why != "" {
			return nil, fmt.Errorf("the disk has %s", why)
		}
		v, found, err := volumeAt(ctx, d.node, number, p)
		if !found && (err == nil || transient(err)) && online && IsBasicData(l, p) {
			if d.broughtOnline(ctx, l, number, p.Number) {
				v, found, err = volumeAt(ctx, d.node, number, p)
			}
		}
		switch {
		case err != nil:
			return nil, err
		case found:
			all = append(all, v)
		case IsBasicData(l, p) || bootEntry(l, p) != "":
			missing = append(missing, p.Number)
		}
	}
	switch {
	case len(all)+len(missing) == 0:
		return nil, errors.New("no partition of the disk is of a kind that has a volume")
	case len(missing) > 0:
		attrs, err := d.Attributes(ctx)
		if err != nil {
			return nil, err
		}
		// A disk that is offline has no volumes.
		if attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0 {
			return nil, fmt.Errorf("partitions %v have no volumes by their own devices", missing)
		}
	}
	return Sorted(all, number), nil
}
