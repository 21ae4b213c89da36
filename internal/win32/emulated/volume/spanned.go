package volume

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Span creates a volume from ranges of several disks.
func (n *Volumes) Span(t *kernel.Tx, c nodespec.SpannedVolume, index int) error {
	r := Record{Partition: fmt.Sprintf("span-%d", index), Device: n.lastDevice() + 1}
	guid, err := n.NewGUID()
	if err != nil {
		return err
	}
	r.GUID = guidText(guid)
	v := &Volume{n: n}
	for i, e := range c.Extents {
		d := n.disks.ByNumber(e.Disk)
		if d == nil {
			return fmt.Errorf("extent %d: no disk %d", i, e.Disk)
		}
		from, length := uint64(e.Offset), uint64(e.Length)
		if length == 0 || from%uint64(d.Sector) != 0 || length%uint64(d.Sector) != 0 || from > d.Size || length > d.Size-from {
			return fmt.Errorf("extent %d: %d bytes at %d are not whole sectors of disk %d", i, length, from, e.Disk)
		}
		for _, p := range d.Table.Partitions {
			if disk.PartitionKey(d.Table, p) != "" && from < p.Offset+p.Length && p.Offset < from+length {
				return fmt.Errorf("extent %d: overlaps partition %d of disk %d", i, p.Number, e.Disk)
			}
		}
		r.Extents = append(r.Extents, extentRecord{d.ID, from, length})
		v.Ranges = append(v.Ranges, extent{d, from, length})
	}
	if v.Ranges[0].Disk == v.Ranges[1].Disk {
		return errors.New("the first two extents are on one disk")
	}
	r.Disk = r.Extents[0].Disk
	v.Record = r
	t.Put(volumeKey(guid), r)
	t.OnCommit(func() {
		n.known[r.identity()] = r
		n.spanned = append(n.spanned, r)
		n.List = append(n.List, v)
	})
	return nil
}

// spannedExtents returns the extents of a volume on several disks. complete is
// false unless all of its disks are attached and online.
func (n *Volumes) spannedExtents(r Record, a disk.Arrangement, online bool) (extents []extent, complete bool) {
	for _, e := range r.Extents {
		d := a.Disk
		if e.Disk != a.State.ID {
			i := slices.IndexFunc(n.disks.List, func(d *disk.Disk) bool { return d.ID == e.Disk && !d.Offline() })
			if i < 0 {
				return nil, false
			}
			d = n.disks.List[i]
		} else if !online {
			return nil, false
		}
		extents = append(extents, extent{d, e.Offset, e.Length})
	}
	return extents, true
}
