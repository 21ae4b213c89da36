package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// partitionPath returns the name of a partition's device. Partition 0 is the whole disk.
func partitionPath(disk, partition uint32) string {
	return fmt.Sprintf(`\\?\Harddisk%dPartition%d`, disk, partition)
}

// OnDisk returns the volumes that lie on a disk, or on one of its partitions, in the order
// of their first extent there. It returns hosterr.ErrUnavailable if a volume that does not say
// where it lies may be one of them.
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
	// Those of other systems may have no volume, so they are waited for only if there are no others.
	expected := slices.DeleteFunc(slices.Clone(ps), func(p win32.Partition) bool { return !IsBasicData(l, p) && systemEntry(l, p) == "" })
	if len(expected) == 0 {
		expected = ps
	}
	all, err := d.search(ctx, number, l, expected, unread == nil, online)
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
		return false, unknown[i].mayLieOn(number)
	})
	if err != nil {
		return nil, err
	}
	return Sorted(all, number), nil
}

// mayLieOn is the error of a volume that may lie on a disk.
func (s silent) mayLieOn(number uint32) error {
	// The number and the kind of its error are not those of this one.
	return hosterr.TextWithHint(hosterr.ErrUnavailable, "end the programs that keep the volume busy, or detach its disk if that is broken, and try again",
		"volume %s does not say where it lies, and may be one of disk %d: %v", hosterr.Quote(s.id), number, s.err)
}

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
		reserved := l.Style == win32.PARTITION_STYLE_GPT && p.Type == win32.PARTITION_MSFT_RESERVED_GUID
		return !reserved && (poolEntry(l, p) != "" || !slices.ContainsFunc(all, func(v Located) bool { return v.Within(number, p) }))
	})
}
