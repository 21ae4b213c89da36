package storage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

var volumeID = regexp.MustCompile(`^(?i)\\\\\?\\Volume\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}\\$`)

// IsVolumeID reports whether s is the name of a volume in Windows' form,
// `\\?\Volume{…}\` with the final backslash, in any case.
func IsVolumeID(s string) bool { return volumeID.MatchString(s) }

// SameVolume compares two volume names as Windows does, ignoring case.
func SameVolume(a, b string) bool { return strings.EqualFold(a, b) }

// Volume is an open volume: the device, not the root directory of its file
// system.
type Volume struct{ device }

// OpenVolume opens a volume by its ID. It returns hosterr.ErrNotFound for a
// malformed ID and for a volume that the node does not have.
func OpenVolume(ctx context.Context, n *node.Node, id string, access uint32) (*Volume, error) {
	if !IsVolumeID(id) {
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

// Volumes returns every volume of the node that lies on disks. It skips others
// (such as a CD drive), and volumes that appear or disappear meanwhile.
func Volumes(ctx context.Context, n *node.Node) ([]Located, error) {
	ids, err := n.API.VolumeNames()
	if err != nil {
		return nil, hosterr.Wrap("list volumes", "", err)
	}
	var all []Located
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		es, err := Locate(ctx, n, id)
		if err != nil {
			if !transient(err) && !win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_FILE_NOT_FOUND) {
				n.Log.Warn("Skipped a volume that does not report its location", "volume", id, "err", err)
			}
			continue
		}
		all = append(all, Located{id, es})
	}
	return all, nil
}

// Locate returns where one volume lies. It does not retry: the next listing finds a
// volume that was not ready.
func Locate(ctx context.Context, n *node.Node, id string) ([]win32.Extent, error) {
	h, err := openOnce(n, devicePath(id), Query)
	if err != nil {
		return nil, err
	}
	v := Volume{device{node: n, h: h, noRetry: true}}
	defer v.Close()
	return v.Extents(ctx)
}

// OnDisk returns the volumes that lie on a disk, in the order of their first
// extent there.
func OnDisk(all []Located, disk uint32) []Located {
	type begin struct {
		Located
		at uint64
	}
	var on []begin
	for _, v := range all {
		b, found := begin{Located: v}, false
		for _, e := range v.Extents {
			if e.Disk == disk && (!found || e.Offset < b.at) {
				b.at, found = e.Offset, true
			}
		}
		if found {
			on = append(on, b)
		}
	}
	slices.SortStableFunc(on, func(a, b begin) int {
		if a.at < b.at {
			return -1
		} else if a.at > b.at {
			return 1
		}
		return 0
	})
	out := make([]Located, len(on))
	for i, b := range on {
		out[i] = b.Located
	}
	return out
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
	reassert     = 10 * time.Second
)

// ErrLate is the cause of the error of [AwaitVolume] for a volume that does not appear.
var ErrLate = errors.New("did not appear within " + arrivalLimit.String())

// AwaitVolume waits until the volume of the partition at offset exists, brings it
// online and returns its ID. Windows creates the volume some time after the call
// that wrote the partition table has returned. If there is no volume after a
// minute, AwaitVolume returns hosterr.ErrUnavailable, with [ErrLate].
//
// A volume that is offline may not say where it lies. So while the volume is not found,
// AwaitVolume looks for an offline one by the number of its partition. It brings none
// online on a disk that [Guard] refuses.
//
// Windows may take an arriving disk offline again, because another disk has the
// same identity, so every ten seconds AwaitVolume makes the disk usable again, upon
// which Windows may write a new identity. The disk may also be removed: AwaitVolume
// stops if no disk has its number any more, or if the disk with its number has a table
// other than l.
func AwaitVolume(ctx context.Context, n *node.Node, disk uint32, l win32.Layout, offset uint64) (string, error) {
	late := hosterr.Text(hosterr.ErrUnavailable, "the volume of the partition at byte %d %w", offset, ErrLate)
	asserted := n.Clock.Now()
	var id string
	pace := node.Pace{Pause: firstPause, Longest: longestPause, Limit: arrivalLimit}
	err := node.Poll(ctx, n.Clock, pace, func() (bool, error) {
		all, err := Volumes(ctx, n)
		if err != nil {
			return true, err
		}
		for _, v := range all {
			if slices.ContainsFunc(v.Extents, func(e win32.Extent) bool { return e.Disk == disk && e.Offset == offset }) {
				id = v.ID
				return true, EnsureOnline(ctx, n, id)
			}
		}
		now := n.Clock.Now()
		assert := now.Sub(asserted) >= reassert
		if assert {
			asserted = now
		}
		if l, err = checkDisk(ctx, n, disk, l, offset, assert); err != nil {
			return true, err
		}
		return false, late
	})
	return id, err
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
	path := fmt.Sprintf(`\\?\Harddisk%dPartition%d`, number, partition)
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
	if err := guard(ctx, d, l, true); err != nil {
		return false, err
	}
	d.node.Log.Info("Bringing an offline volume online", "disk", number, "partition", partition)
	return true, online(ctx, d.node, path)
}

// OnlineVolumes brings the offline volumes of a disk's data partitions online, and reports
// whether there were any. all are the volumes that say where they lie; an offline one may
// not. Volumes of a disk that [Guard] refuses stay as they are.
func OnlineVolumes(ctx context.Context, n *node.Node, number uint32, all []Located) (bool, error) {
	d, err := OpenDisk(ctx, n, number, Query)
	if errors.Is(err, hosterr.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close()
	l, err := d.Layout(ctx)
	if err != nil {
		return false, err
	}
	found := false
	for _, p := range l.Partitions {
		if !IsBasicData(l, p) || slices.ContainsFunc(all, func(v Located) bool { return v.Within(number, p) }) {
			continue
		}
		brought, err := onlinePartition(ctx, d, l, number, p.Number)
		if err != nil && ctx.Err() != nil {
			return found, ctx.Err()
		}
		if err != nil {
			n.Log.Warn("Left a volume offline", "disk", number, "partition", p.Number, "err", err)
		}
		found = found || brought && err == nil
	}
	return found, nil
}

// checkDisk returns the table of the disk with this number, or an error if that is another
// disk than the one with table l. If assert is set, it first makes the disk usable, and
// returns the table that the disk has after that. It brings the volume of the partition at
// offset online if it is offline. All of this is on one handle.
func checkDisk(ctx context.Context, n *node.Node, number uint32, l win32.Layout, offset uint64, assert bool) (win32.Layout, error) {
	access := Query
	if assert {
		access = ReadWrite
	}
	d, err := OpenDisk(ctx, n, number, access)
	if err != nil {
		return l, hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close()
	now, err := d.Layout(ctx)
	if err != nil {
		return l, err
	}
	if now.Style != l.Style || now.DiskID != l.DiskID || now.Signature != l.Signature {
		return l, hosterr.Text(hosterr.ErrUnavailable, "disk number %d went to another disk while waiting for the volume; try again", number)
	}
	if assert {
		if err := d.MakeUsable(ctx); err != nil {
			return l, err
		}
		if now, err = d.Layout(ctx); err != nil {
			return l, err
		}
	}
	if p, ok := At(now, offset); ok {
		_, err = onlinePartition(ctx, d, now, number, p.Number)
	}
	return now, err
}
