package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ClearHint says how to get rid of content that is not needed.
const ClearHint = "if the data is not needed, clear the disk with csi-proxyctl disk clear NUMBER --serial SERIAL, or with diskpart (select disk, clean all), and try again"

// Found is content of a disk.
type Found struct {
	Area
	What string
}

// Contents names what is on a disk with the partition table l: in its partitions, and at
// the places that must be blank before it gets a new table.
func (d *Disk) Contents(ctx context.Context, l win32.Layout, size uint64) ([]Found, error) {
	var all []Found
	kinds := map[string]bool{}
	for _, p := range Used(l) {
		if p.Offset >= size {
			continue
		}
		a := Area{p.Offset, min(p.Length, size-p.Offset)}
		c, err := d.Look(ctx, a)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("partition %d", p.Number)
		if name := c.Name(); name != "" {
			kinds[name] = true
			what += ", " + name
		}
		all = append(all, Found{a, what})
	}
	for _, a := range NewDiskAreas(size) {
		c, err := d.Look(ctx, a)
		if err != nil {
			return nil, err
		}
		if name := c.Name(); name != "" && !kinds[name] {
			kinds[name] = true
			if name == UnknownContent {
				name = fmt.Sprintf("%s at byte %d", name, c.At)
			}
			all = append(all, Found{a, name})
		}
	}
	return all, nil
}

// Clear overwrites what must be zero before the disk counts as blank, and its partition
// table, and makes Windows read the table again. It returns how many bytes it wrote. The
// caller holds the volumes of the disk ([Disk.Hold]).
func (d *Disk) Clear(ctx context.Context, l win32.Layout, size uint64) (written uint64, err error) {
	for _, a := range clearAreas(l, size) {
		if err := d.Zero(ctx, a.Offset, a.Length); err != nil {
			return written, err
		}
		written += a.Length
	}
	return written, d.UpdateProperties(ctx)
}

// Mounted returns the drive letters and folders at which volumes of the disk with this number
// and the partition table l are mounted.
func (d *Disk) Mounted(ctx context.Context, number uint32, l win32.Layout) ([]string, error) {
	all, err := d.search(ctx, number, l, Used(l), true, false)
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

// Hold locks and dismounts all volumes of the disk with this number and the partition table l,
// so that the disk can be written. They stay locked until the caller calls done. A volume that
// is in use is an error.
func (d *Disk) Hold(ctx context.Context, number uint32, l win32.Layout) (done func(), err error) {
	// A volume that is offline does not say where it lies, and cannot be locked.
	all, err := d.search(ctx, number, l, Used(l), true, true)
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
