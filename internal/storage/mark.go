package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// formatMark begins the name of a GPT partition from just before a format until just after
// it. A format that was cut off leaves the mark, and so proves that what is there is its
// own: the partition was empty when it was marked, and is not mounted before the mark is
// gone. The name is on the disk, so the mark goes with it to another node and to a copy.
//
// Partitions of an MBR have no names. There a format that was cut off looks like damage.
const formatMark = "csi-format:"

const (
	nameUnits  = 36 // UTF-16 units in the name of a GPT partition
	nameOffset = 72 // of the name in PARTITION_INFORMATION_EX
	rewrite    = 28 // of RewritePartition
)

// Marked reports whether p has the mark of a format that has not ended.
func Marked(p win32.Partition) bool {
	return p.Style == win32.PARTITION_STYLE_GPT && strings.HasPrefix(p.Name, formatMark)
}

// Mark marks partition p of a table that was just read. It returns the name that the
// partition had. Of a name that does not fit behind the mark, the end is lost if the process
// dies before [Disk.Unmark]. hosterr.ErrUnavailable means that another program changes the
// table at the same time.
func (d *Disk) Mark(ctx context.Context, number uint32, p win32.Partition) (name string, err error) {
	if p.Style != win32.PARTITION_STYLE_GPT || Marked(p) {
		return strings.TrimPrefix(p.Name, formatMark), nil
	}
	return p.Name, d.rename(ctx, number, p, func(name string) string { return formatMark + name })
}

// Unmark takes the mark off partition p, if it is marked, and gives it back its name: the
// given one, or if that is "" what stands behind the mark. It fails with
// ERROR_WRITE_PROTECT on storage that cannot be written.
func (d *Disk) Unmark(ctx context.Context, number uint32, p win32.Partition, name string) error {
	if !Marked(p) {
		return nil
	}
	err := d.rename(ctx, number, p, func(now string) string {
		rest, marked := strings.CutPrefix(now, formatMark)
		switch {
		case !marked:
			return now
		case name != "":
			return name
		}
		return rest
	})
	return hosterr.WithHint("remove the mark of a format", "", err,
		"try again; if it fails each time, look for errors of the disk in the System event log, copy its data to another disk, and replace it")
}

// rename changes the name of a partition of a GPT and nothing else: all other bytes of the
// table go back to Windows as it returned them. Each try reads the table again.
//
// The lock keeps other requests away, and not other programs. One that writes its own copy
// of the table at the same time undoes the new name, or its change was undone, so the table
// is read again afterwards.
func (d *Disk) rename(ctx context.Context, number uint32, p win32.Partition, change func(string) string) error {
	unlock, err := LockTable(ctx, d.node, number)
	if err != nil {
		return err
	}
	defer unlock()
	once := d.WithoutRetry()
	err = Retry(ctx, d.node, func() error {
		table, err := once.table(ctx)
		if err != nil {
			return err
		}
		l, err := win32.DecodeLayout(table)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(l.Partitions, func(q win32.Partition) bool { return q.Style == p.Style && q.ID == p.ID && q.Offset == p.Offset })
		if i < 0 {
			return hosterr.Text(hosterr.ErrUnavailable, "the partition table changed during the operation; try again")
		}
		units := win32.UTF16(change(l.Partitions[i].Name))
		units = append(units[:min(len(units), nameUnits)], make([]uint16, nameUnits-min(len(units), nameUnits))...)
		l.Partitions[i].Name, _, _ = strings.Cut(win32.FromUTF16(units), "\x00")
		entry := table[win32.SizeofLayout+i*win32.SizeofPartition:]
		for k, u := range units {
			binary.LittleEndian.PutUint16(entry[nameOffset+2*k:], u)
		}
		entry[rewrite] = 1
		if _, err = once.control(ctx, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, table, nil); err != nil {
			return err
		}
		now, err := once.Layout(ctx)
		if err != nil {
			return err
		}
		return renamed(l, now, l.Partitions[i])
	})
	return hosterr.Wrap("rename the partition", "", err)
}

// renamed returns an error unless the table that was written is there now, with the new name
// of partition p.
func renamed(written, now win32.Layout, p win32.Partition) error {
	same := func(a, b win32.Partition) bool {
		return a.Offset == b.Offset && a.Length == b.Length && a.ID == b.ID && a.Type == b.Type
	}
	was, is := Used(written), Used(now)
	kept := len(was) == len(is)
	for _, a := range was {
		kept = kept && slices.ContainsFunc(is, func(b win32.Partition) bool { return same(a, b) })
	}
	if !kept {
		return hosterr.Text(hosterr.ErrUnavailable, "another program changed the partition table at the same time; try again")
	}
	if !slices.ContainsFunc(is, func(b win32.Partition) bool { return same(p, b) && p.Name == b.Name }) {
		return errors.New("the new name was not kept")
	}
	return nil
}

// MoveEnd writes the GPT with the end of the disk, which has this number and size, if it has
// another one: Windows does not always do that when a disk grows. Each try reads the table again,
// because writing an old one would lose what another program has added.
func (d *Disk) MoveEnd(ctx context.Context, number uint32, size uint64, sector uint32) error {
	unlock, err := LockTable(ctx, d.node, number)
	if err != nil {
		return err
	}
	defer unlock()
	once, moved := d.WithoutRetry(), false
	err = Retry(ctx, d.node, func() error {
		l, err := once.Layout(ctx)
		if err != nil {
			return err
		}
		wider := WithEnd(l, size, sector)
		if wider.UsableLength == l.UsableLength {
			return nil
		}
		for i := range wider.Partitions {
			wider.Partitions[i].Rewrite = false
		}
		moved = true
		return once.SetLayout(ctx, wider)
	})
	if err != nil || !moved {
		return err
	}
	return d.UpdateProperties(ctx)
}

// LockTable waits until no other request reads the partition table of a disk in order to
// write it back changed. It is the last lock to take.
func LockTable(ctx context.Context, n *node.Node, number uint32) (unlock func(), err error) {
	return n.Locks.Tables.Lock(ctx, strconv.FormatUint(uint64(number), 10))
}
