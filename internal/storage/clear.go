package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ClearHint says how to get rid of a volume's content that is not needed.
const ClearHint = "if the data is not needed, clear the volume with csi-proxyctl disk clear NUMBER --partition NUMBER --serial SERIAL, and try again"

// EmptyTable is listed for a disk whose partition table has no partitions.
const EmptyTable = "partition table without partitions"

// Contents names what is in the scope of the look: the partitions, and what else would keep
// the disk from being used.
func (d *Disk) Contents(ctx context.Context, k Look) ([]Found, error) {
	all, _, err := d.look(ctx, k)
	if err != nil {
		return nil, err
	}
	var listed []Found
	named := map[string]bool{}
	if k.of != ofSpace {
		for _, p := range Used(k.Table) {
			a, ok := Area{p.Offset, p.Length}.common(k.scope[0])
			if !ok {
				continue
			}
			f := Found{Area: a, Kind: fmt.Sprintf("partition %d", p.Number)}
			if i := slices.IndexFunc(all, func(f Found) bool { return f.Offset == a.Offset }); i >= 0 {
				named[all[i].Kind] = all[i].Kind != ""
				f.Kind += ", " + cmp.Or(all[i].Kind, UnknownContent)
			}
			listed = append(listed, f)
		}
	}
	inPartition := func(at uint64) bool {
		return slices.ContainsFunc(listed, func(f Found) bool { return at >= f.Offset && at < f.end() })
	}
	for _, known := range []bool{true, false} {
		for _, f := range all {
			if known != (f.Kind != "") || named[f.Kind] || !known && inPartition(f.At) {
				continue
			}
			named[f.Kind] = known
			f.Kind = f.Name()
			listed = append(listed, f)
		}
	}
	if k.of == ofDisk && len(Used(k.Table)) == 0 && !Uninitialized(k.Table) {
		listed = append(listed, Found{Area: k.scope[0], Kind: EmptyTable})
	}
	return listed, nil
}

// Clear overwrites all content that the look sees, so that the next one sees none. A look at
// the whole disk also sees its partition table, which is overwritten last, so that a clearing
// that was cut off finds the same partitions again; otherwise the table stays. It returns how
// many bytes it wrote. The caller holds the volumes in the scope ([Disk.Hold]).
func (d *Disk) Clear(ctx context.Context, k Look) (written uint64, err error) {
	whole := k.of == ofDisk
	ends := []Area{{0, min(Edge, k.Size)}, {k.Size - min(Edge, k.Size), min(Edge, k.Size)}}
	zero := func(a Area) error {
		err := d.Zero(ctx, a.Offset, a.Length)
		if err == nil {
			written += a.Length
		}
		return err
	}
	var last []Area
	err = d.each(ctx, k, !whole, func(_ Area, s *seen) error {
		for _, a := range s.runs(uint64(k.Sector)) {
			_, first := a.common(ends[0])
			_, end := a.common(ends[1])
			if whole && (first || end) {
				last = append(last, a)
				continue
			}
			if err := zero(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !whole {
		return written, err
	}
	slices.SortFunc(last, func(a, b Area) int { return cmp.Compare(b.Offset, a.Offset) })
	for _, a := range slices.Compact(last) {
		if err := zero(a); err != nil {
			return written, err
		}
	}
	return written, d.UpdateProperties(ctx)
}

// GuardClear is [Guard] for a disk that is to be cleared. An EFI system partition is no reason to
// refuse it, if Windows says from which partition it starts, and that is on another disk: every
// disk that macOS has partitioned has one.
func GuardClear(ctx context.Context, d *Disk, l win32.Layout) error {
	number, err := d.Number(ctx)
	if err != nil {
		return hosterr.Wrap("get the disk's number", "", err)
	}
	entry := systemEntry
	if slices.ContainsFunc(Used(l), func(p win32.Partition) bool { return isEFI(l, p) }) {
		start, err := startExtents(ctx, d.node)
		if err != nil {
			d.node.Log.Warn("Cannot find out from which partition Windows starts", "err", err)
		} else if !slices.ContainsFunc(start, func(e win32.Extent) bool { return e.Disk == number.DeviceNumber }) {
			entry = func(l win32.Layout, p win32.Partition) string {
				if isEFI(l, p) {
					return ""
				}
				return systemEntry(l, p)
			}
		}
	}
	return guard(ctx, d, l, noPartitions(l), entry)
}

func isEFI(l win32.Layout, p win32.Partition) bool {
	return l.Style == win32.PARTITION_STYLE_GPT && p.Type == win32.PARTITION_SYSTEM_GUID
}

// startExtents returns where the partition lies from which Windows starts: Setup keeps the name of
// its device (docs/develop/contract/disks.md#disks-that-windows-needs).
func startExtents(ctx context.Context, n *node.Node) ([]win32.Extent, error) {
	text, err := n.API.RegistryText(`SYSTEM\Setup`, "SystemPartition")
	if err == nil && len(text) != 1 {
		err = fmt.Errorf("the value is %q", text)
	}
	if err != nil {
		return nil, fmt.Errorf(`read SystemPartition of SYSTEM\Setup: %w`, err)
	}
	d, err := open(ctx, n, `\\?\GLOBALROOT`+text[0], Query)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", text[0], err)
	}
	v := Volume{d}
	defer v.Close()
	es, err := v.Extents(ctx)
	if err == nil && len(es) == 0 {
		err = fmt.Errorf("%s has no extents", text[0])
	}
	return es, err
}

// scoped returns the volumes of the disk that have a part in the scope of the look.
func (d *Disk) scoped(ctx context.Context, k Look, online bool) ([]Located, error) {
	all, err := d.search(ctx, k.Number, k.Table, Used(k.Table), true, online)
	return slices.DeleteFunc(all, func(v Located) bool {
		return !slices.ContainsFunc(v.Extents, func(e win32.Extent) bool {
			_, ok := (Area{e.Offset, e.Length}).common(k.scope[0])
			return ok && e.Disk == k.Number
		})
	}), err
}

// Mounted returns the drive letters and folders at which volumes in the scope of the look are
// mounted.
func (d *Disk) Mounted(ctx context.Context, k Look) ([]string, error) {
	all, err := d.scoped(ctx, k, false)
	if err != nil {
		return nil, err
	}
	var at []string
	for _, v := range all {
		paths, err := d.node.API.VolumePathNames(v.ID)
		if err != nil {
			return nil, hosterr.Wrap("list the mount points of volume", hosterr.Quote(v.ID), err)
		}
		at = append(at, paths...)
	}
	return at, nil
}

// Hold locks and dismounts all volumes in the scope of the look. They
// stay locked until the caller calls done. A volume that is in use is an error.
func (d *Disk) Hold(ctx context.Context, k Look) (done func(), err error) {
	// A volume that is offline does not say where it lies, and cannot be locked.
	all, err := d.scoped(ctx, k, true)
	if err != nil {
		return nil, err
	}
	var held []*Volume
	done = func() {
		for _, v := range held {
			v.Close()
		}
	}
	for _, at := range all {
		v, err := OpenVolume(ctx, d.node, at.ID, ReadWrite)
		if win32.IsCode(err, win32.ERROR_WRITE_PROTECT) { // Windows may refuse that of a read-only disk
			v, err = OpenVolume(ctx, d.node, at.ID, Read)
		}
		if err == nil {
			held = append(held, v)
			err = v.lock(ctx)
		}
		switch {
		case err == nil, noCache(err), errors.Is(err, hosterr.ErrNotFound):
		case win32.IsCode(err, win32.ERROR_ACCESS_DENIED):
			done()
			return nil, hosterr.WithHint("lock volume", hosterr.Quote(at.ID),
				hosterr.Text(hosterr.ErrFailedPrecondition, "it is in use"), "end the programs that use it, and try again")
		default:
			done()
			return nil, hosterr.Wrap("lock volume", hosterr.Quote(at.ID), err)
		}
	}
	return done, nil
}

// MountedError is the error for a disk with mounted volumes.
func MountedError(at []string) error {
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "unmount them, or remove the drive letters (mountvol PATH /D), and try again",
		"volumes of the disk are mounted at %s", strings.Join(at, ", "))
}
