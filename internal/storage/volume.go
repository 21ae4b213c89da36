package storage

import (
	"context"
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

// IsVolumeID tells whether s is the name of a volume as Windows gives it,
// `\\?\Volume{…}\` with the backslash at its end; letters in any case.
func IsVolumeID(s string) bool { return volumeID.MatchString(s) }

// SameVolume compares two volume names as Windows does, without regard to case.
func SameVolume(a, b string) bool { return strings.EqualFold(a, b) }

// Volume is an open volume: the device, not the root directory of its file
// system.
type Volume struct{ device }

// OpenVolume opens a volume by its ID. An ID that is not of the form, and a
// volume that the node does not have, are hosterr.ErrNotFound.
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

// devicePath is the volume's name without the backslash: with it, Windows
// opens the root directory.
func devicePath(id string) string { return strings.TrimSuffix(id, `\`) }

// Extents say where the volume lies. A basic volume has one, a volume of
// dynamic disks may have more.
func (v *Volume) Extents(ctx context.Context) ([]win32.Extent, error) {
	out, err := v.ask(ctx, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 32)
	if err != nil {
		return nil, hosterr.Wrap("get the volume's extents", "", err)
	}
	return win32.DecodeExtents(out)
}

// Online brings the volume online, which matters where automount is off. It
// needs [ReadWrite].
func (v *Volume) Online(ctx context.Context) error {
	_, err := v.control(ctx, win32.IOCTL_VOLUME_ONLINE, nil, nil)
	if win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED) {
		return nil // the volume's driver knows no such state
	}
	return hosterr.Wrap("bring the volume online", "", err)
}

// NTFS tells the size of the volume's file system, if that is NTFS. It needs
// [Read]: with no access, Windows opens the device past its file system.
func (v *Volume) NTFS(ctx context.Context) (win32.NTFSVolumeData, error) {
	out, err := v.ask(ctx, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, win32.SizeofNTFSVolumeData)
	if err != nil {
		return win32.NTFSVolumeData{}, hosterr.Wrap("get the size of the file system", "", err)
	}
	return win32.DecodeNTFSVolumeData(out)
}

// Extend grows the file system to so many sectors in total. It needs [ReadWrite].
func (v *Volume) Extend(ctx context.Context, sectors int64) error {
	_, err := v.control(ctx, win32.FSCTL_EXTEND_VOLUME, win32.EncodeSectors(sectors), nil)
	return hosterr.Wrap("extend the file system", "", err)
}

// Flush writes what Windows holds in memory for the volume. On a volume that
// cannot be written there is nothing to write.
func (v *Volume) Flush(ctx context.Context) error {
	err := Retry(ctx, v.node, func() error { return v.node.API.FlushFileBuffers(v.h) })
	if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
		return nil
	}
	return hosterr.Wrap("flush", "", err)
}

// Located is a volume and where it lies.
type Located struct {
	ID      string
	Extents []win32.Extent
}

// Volumes finds every volume of the node that lies on disks. Others (a CD
// drive), and those that come or go meanwhile, are passed over.
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
		es, err := locate(ctx, n, id)
		if err != nil {
			if !passing(err) && !win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_FILE_NOT_FOUND) {
				n.Log.Warn("a volume does not say where it lies and is passed over", "volume", id, "error", err)
			}
			continue
		}
		all = append(all, Located{id, es})
	}
	return all, nil
}

// locate asks one volume of a list: one that is not ready is found at the next look.
func locate(ctx context.Context, n *node.Node, id string) ([]win32.Extent, error) {
	h, err := openOnce(n, devicePath(id), Query)
	if err != nil {
		return nil, err
	}
	v := Volume{device{node: n, h: h, once: true}}
	defer v.Close()
	return v.Extents(ctx)
}

// OnDisk keeps the volumes that lie on a disk, in the order in which they
// begin there.
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

// Within tells whether a part of the volume lies in a partition of a disk.
func (v Located) Within(disk uint32, p win32.Partition) bool {
	return slices.ContainsFunc(v.Extents, func(e win32.Extent) bool {
		return e.Disk == disk && e.Offset >= p.Offset && e.Offset-p.Offset < p.Length
	})
}

// How AwaitVolume waits.
const (
	firstLook    = 50 * time.Millisecond
	longestLook  = 500 * time.Millisecond
	arrivalLimit = 60 * time.Second
	reassert     = 10 * time.Second
)

// AwaitVolume waits until the volume of the partition at offset exists, brings
// it online and returns its ID. Windows makes the volume of a new partition
// soon after the table was written, not before the call returns. After a minute
// without it the error is hosterr.ErrUnavailable.
//
// Windows may take a disk offline again as it arrives (another disk has the
// same identity), so every ten seconds the disk is made usable anew. And the disk
// may be pulled out: once no disk has its number, or one with another table than l
// has, the wait is over.
func AwaitVolume(ctx context.Context, n *node.Node, disk uint32, l win32.Layout, offset uint64) (string, error) {
	begin := n.Clock.Now()
	asserted := begin
	for wait := firstLook; ; wait = min(2*wait, longestLook) {
		all, err := Volumes(ctx, n)
		if err != nil {
			return "", err
		}
		for _, v := range all {
			if slices.ContainsFunc(v.Extents, func(e win32.Extent) bool { return e.Disk == disk && e.Offset == offset }) {
				return v.ID, bringOnline(ctx, n, v.ID)
			}
		}
		now := n.Clock.Now()
		assert := now.Sub(asserted) >= reassert
		if assert {
			asserted = now
		}
		if err := waitable(ctx, n, disk, l, assert); err != nil {
			return "", err
		}
		if now.Sub(begin) >= arrivalLimit {
			return "", hosterr.Text(hosterr.ErrUnavailable, "the volume of the partition at byte %d did not appear within %s", offset, arrivalLimit)
		}
		if err := n.Clock.Sleep(ctx, wait); err != nil {
			return "", err
		}
	}
}

func bringOnline(ctx context.Context, n *node.Node, id string) error {
	v, err := OpenVolume(ctx, n, id, ReadWrite)
	if err != nil {
		return hosterr.Wrap("open volume", hosterr.Quote(id), err)
	}
	defer v.Close()
	return v.Online(ctx)
}

// waitable is nil while the disk with a number is still the one with table l. If
// it is, and assert is set, it is made usable on the handle that was looked through.
func waitable(ctx context.Context, n *node.Node, number uint32, l win32.Layout, assert bool) error {
	access := Query
	if assert {
		access = ReadWrite
	}
	d, err := OpenDisk(ctx, n, number, access)
	if err != nil {
		return hosterr.Wrap("open disk", strconv.FormatUint(uint64(number), 10), err)
	}
	defer d.Close()
	now, err := d.Layout(ctx)
	if err != nil {
		return err
	}
	if now.Style != l.Style || now.DiskID != l.DiskID || now.Signature != l.Signature {
		return hosterr.Text(hosterr.ErrUnavailable, "another disk has taken the number %d while the volume of the first was awaited; try again", number)
	}
	if !assert {
		return nil
	}
	return d.Usable(ctx)
}
