package storage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Volume is an open volume: the device, not the root directory of its file
// system.
type Volume struct{ device }

// OpenVolume opens a volume by its ID. It returns hosterr.ErrNotFound for a
// malformed ID and for a volume that the node does not have.
func OpenVolume(ctx context.Context, n *node.Node, id string, access uint32) (*Volume, error) {
	if !winpath.IsVolumeRoot(id) {
		return nil, hosterr.ErrNotFound
	}
	d, err := open(ctx, n, devicePath(id), access)
	if err != nil {
		return nil, err
	}
	return &Volume{d}, nil
}

// devicePath returns the volume's name without the final backslash. With it,
// Windows opens the root directory.
func devicePath(id string) string { return strings.TrimSuffix(id, `\`) }

// Extents returns where the volume lies. A basic volume has one extent; a volume
// on dynamic disks may have several.
func (v *Volume) Extents(ctx context.Context) ([]win32.Extent, error) {
	out, err := v.query(ctx, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 32)
	if err != nil {
		return nil, hosterr.Wrap("get the volume's extents", "", err)
	}
	return win32.DecodeExtents(out)
}

// Offline reports whether the volume is offline: where automatic mounting is off, a
// volume that is new to the node is. It needs no access.
func (v *Volume) Offline(ctx context.Context) (bool, error) {
	_, err := v.control(ctx, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil)
	switch {
	case err == nil:
		return true, nil
	case win32.IsCode(err, win32.ERROR_GEN_FAILURE, // it is online
		win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED): // the volume's driver has no such state
		return false, nil
	}
	return false, hosterr.Wrap("check whether the volume is offline", "", err)
}

// Online brings the volume online. It needs [ReadWrite].
func (v *Volume) Online(ctx context.Context) error {
	_, err := v.control(ctx, win32.IOCTL_VOLUME_ONLINE, nil, nil)
	if win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
		return nil // the volume's driver has no such state
	}
	return hosterr.Wrap("bring the volume online", "", err)
}

// UpdateProperties makes the volume look at its partition again, which may have grown.
func (v *Volume) UpdateProperties(ctx context.Context) error {
	_, err := v.control(ctx, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, nil, nil)
	if win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_INVALID_PARAMETER) {
		return nil // it follows its partition without this request
	}
	return hosterr.Wrap("update the volume's properties", "", err)
}

// NTFS returns the size of the volume's file system, if it is NTFS. It needs
// [Read]: without access, Windows opens the device, not its file system.
func (v *Volume) NTFS(ctx context.Context) (win32.NTFSVolumeData, error) {
	out, err := v.query(ctx, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, win32.SizeofNTFSVolumeData)
	if err != nil {
		return win32.NTFSVolumeData{}, hosterr.Wrap("get the size of the file system", "", err)
	}
	return win32.DecodeNTFSVolumeData(out)
}

// Extend grows the file system to the given total of sectors. It needs [ReadWrite].
func (v *Volume) Extend(ctx context.Context, sectors int64) error {
	_, err := v.control(ctx, win32.FSCTL_EXTEND_VOLUME, win32.EncodeSectors(sectors), nil)
	return hosterr.Wrap("extend the file system", "", err)
}

// Flush writes the volume's cached data to disk. On a write-protected volume it
// does nothing.
func (v *Volume) Flush(ctx context.Context) error {
	err := Retry(ctx, v.node, func() error { return v.node.API.FlushFileBuffers(v.h) })
	if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
		return nil
	}
	return hosterr.Wrap("flush", "", err)
}

// FlushVolume opens the volume and flushes it. One that cannot be opened for writing
// because its medium is write-protected needs no flush.
func FlushVolume(ctx context.Context, n *node.Node, id string) error {
	vol, err := OpenVolume(ctx, n, id, ReadWrite)
	if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer vol.Close()
	return vol.Flush(ctx)
}

// FlushBeforeUnmount is [FlushVolume] for a volume that loses a mount point now. A
// failure does not keep it mounted, since its disk may be gone; it is logged.
func FlushBeforeUnmount(ctx context.Context, n *node.Node, id string) {
	if err := FlushVolume(ctx, n, id); err != nil && !errors.Is(err, hosterr.ErrNotFound) {
		n.Log.Warn("Unmounting a volume whose cache could not be flushed", "volume", id, "err", err)
	}
}

// Located is a volume and where it lies.
type Located struct {
	ID      string
	Extents []win32.Extent
}

// silent is a volume that does not say where it lies.
type silent struct {
	id  string
	err error
}

// volumes returns every volume of the node that lies on disks, and those that do not say
// where they lie. It leaves out the others: those that are offline or on no disk, such as a CD
// drive, and those that disappear meanwhile.
func volumes(ctx context.Context, n *node.Node) (all []Located, unknown []silent, err error) {
	ids, err := n.API.VolumeNames()
	if err != nil {
		return nil, nil, hosterr.Wrap("list volumes", "", err)
	}
	return locate(ctx, n, ids)
}

// locate is [volumes] for some of them.
func locate(ctx context.Context, n *node.Node, ids []string) (all []Located, unknown []silent, err error) {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		es, offline, err := Locate(ctx, n, id)
		if ctx.Err() == nil && win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
			es, offline, err = Locate(ctx, n, id) // one that lies on no disk, such as that of a CD-ROM, says so twice
		}
		switch {
		case err == nil:
			all = append(all, Located{id, es})
		case !offline && !win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND):
			unknown = append(unknown, silent{id, err})
		}
	}
	return all, unknown, nil
}

// Locate returns where a volume lies. offline is set if it does not say that because it is
// offline. It does not retry.
func Locate(ctx context.Context, n *node.Node, id string) (es []win32.Extent, offline bool, err error) {
	h, err := openOnce(n, devicePath(id), Query)
	if err != nil {
		return nil, false, err
	}
	v := Volume{device{node: n, h: h, noRetry: true}}
	defer v.Close()
	es, err = v.Extents(ctx)
	if win32.IsCode(err, win32.ERROR_NOT_READY) {
		known, failed := v.Offline(ctx)
		offline = known && failed == nil
	}
	return es, offline, err
}

// Sorted returns those of the volumes that lie on a disk, in the order of their first
// extent there.
func Sorted(all []Located, disk uint32) []Located {
	first := func(v Located) (at uint64, found bool) {
		for _, e := range v.Extents {
			if e.Disk == disk && (!found || e.Offset < at) {
				at, found = e.Offset, true
			}
		}
		return at, found
	}
	on := slices.DeleteFunc(slices.Clone(all), func(v Located) bool { _, found := first(v); return !found })
	slices.SortStableFunc(on, func(a, b Located) int {
		x, _ := first(a)
		y, _ := first(b)
		return cmp.Compare(x, y)
	})
	return on
}

// Within reports whether part of the volume lies in a partition of a disk.
func (v Located) Within(disk uint32, p win32.Partition) bool {
	return slices.ContainsFunc(v.Extents, func(e win32.Extent) bool {
		return e.Disk == disk && e.Offset >= p.Offset && e.Offset-p.Offset < p.Length
	})
}

// Intervals and limit of AwaitVolume.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
	arrivalLimit = 60 * time.Second
)

// ErrLate is the cause of the error of [AwaitVolume] for a volume that does not appear.
var ErrLate = errors.New("did not appear within " + arrivalLimit.String())

// AwaitVolume waits until the volume of the partition at offset of a disk with table l exists, and
// brings it online. Windows creates the volume some time after the call that wrote the
// partition table has returned. If there is no volume after a minute, AwaitVolume returns
// hosterr.ErrUnavailable, with [ErrLate].
//
// A volume that is offline may not say where it lies. So while the volume is not found,
// AwaitVolume looks for an offline one by the number of its partition. It brings none
// online on a disk that [Guard] refuses.
//
// AwaitVolume stops if no disk has the number any more, if the disk with the number has a table
// other than l, or if the disk is taken offline.
func AwaitVolume(ctx context.Context, n *node.Node, disk uint32, l win32.Layout, offset uint64) error {
	late := hosterr.Text(hosterr.ErrUnavailable, "the volume of the partition at byte %d %w", offset, ErrLate)
	pace := node.Pace{Pause: firstPause, Longest: longestPause, Limit: arrivalLimit}
	return node.Poll(ctx, n.Clock, pace, func() (bool, error) {
		if there, err := arrived(ctx, n, disk, l, offset); there || err != nil {
			return true, err
		}
		return false, late
	})
}

// arrived is one look of [AwaitVolume].
func arrived(ctx context.Context, n *node.Node, number uint32, l win32.Layout, offset uint64) (bool, error) {
	d, err := OpenDisk(ctx, n, number, Query)
	if err != nil {
		return false, hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close() // the number stays that of this disk as long as it is open
	now, err := d.Layout(ctx)
	if err != nil {
		return false, err
	}
	if now.Style != l.Style || now.DiskID != l.DiskID || now.Signature != l.Signature {
		return false, hosterr.Text(hosterr.ErrUnavailable, "disk number %d went to another disk while waiting for the volume; try again", number)
	}
	attrs, err := d.Attributes(ctx)
	if err != nil {
		return false, err
	}
	if attrs&win32.DISK_ATTRIBUTE_OFFLINE != 0 {
		return false, hosterr.TextWithHint(hosterr.ErrUnavailable, "find out which program takes it offline, such as a cluster or diskpart; SetDiskState, or Set-Disk -IsOffline $false, takes it online",
			"another program took disk %d offline during the operation; try again", number)
	}
	all, _, err := volumes(ctx, n)
	if err != nil {
		return false, err
	}
	for _, v := range all {
		if slices.ContainsFunc(v.Extents, func(e win32.Extent) bool { return e.Disk == number && e.Offset == offset }) {
			return true, EnsureOnline(ctx, n, v.ID)
		}
	}
	if p, ok := At(now, offset); ok {
		_, err = onlinePartition(ctx, d, now, number, p.Number)
	}
	return false, err
}

// EnsureOnline brings a volume online if it is offline. It opens the volume for writing
// only then, because a volume on a write-protected disk may refuse that.
func EnsureOnline(ctx context.Context, n *node.Node, id string) error {
	v, err := OpenVolume(ctx, n, id, Query)
	if err != nil {
		return hosterr.Wrap("open volume", hosterr.Quote(id), err)
	}
	offline, err := v.Offline(ctx)
	v.Close()
	if err != nil || !offline {
		return err
	}
	n.Log.Info("Bringing an offline volume online", "volume", id)
	return online(ctx, n, devicePath(id))
}

func online(ctx context.Context, n *node.Node, path string) error {
	d, err := open(ctx, n, path, ReadWrite)
	if err != nil {
		return hosterr.Wrap("open volume", hosterr.Quote(path), err)
	}
	v := Volume{d}
	defer v.Close()
	return v.Online(ctx)
}

// onlinePartition brings the volume of a partition online, if it exists and is offline,
// and reports whether it did. d is the open disk of the partition, which keeps its number
// for this disk.
func onlinePartition(ctx context.Context, d *Disk, l win32.Layout, number, partition uint32) (bool, error) {
	path := partitionPath(number, partition)
	h, err := openOnce(d.node, path, Query)
	if err != nil {
		return false, nil // not there yet
	}
	v := Volume{device{node: d.node, h: h, noRetry: true}}
	offline, err := v.Offline(ctx)
	v.Close()
	if err != nil || !offline {
		return false, nil // the next look sees it
	}
	// To bring a data volume online loses nothing, so it needs no more than what is known.
	if err := guard(ctx, d, l, true, systemEntry); err != nil {
		return false, err
	}
	d.node.Log.Info("Bringing an offline volume online", "disk", number, "partition", partition)
	return true, online(ctx, d.node, path)
}

// onlineVolumes brings the offline volumes of the disk's data partitions online, and reports
// whether there were any. all are the volumes that say where they lie; an offline one may
// not. Volumes of a disk that [Guard] refuses stay as they are.
func (d *Disk) onlineVolumes(ctx context.Context, number uint32, l win32.Layout, all []Located) (bool, error) {
	found := false
	for _, p := range l.Partitions {
		if !IsBasicData(l, p) || slices.ContainsFunc(all, func(v Located) bool { return v.Within(number, p) }) {
			continue
		}
		found = d.broughtOnline(ctx, l, number, p.Number) || found
		if err := ctx.Err(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// broughtOnline is [onlinePartition], which logs an error.
func (d *Disk) broughtOnline(ctx context.Context, l win32.Layout, number, partition uint32) bool {
	brought, err := onlinePartition(ctx, d, l, number, partition)
	if err != nil && ctx.Err() == nil {
		d.node.Log.Warn("Left a volume offline", "disk", number, "partition", partition, "err", err)
	}
	return brought && err == nil
}
