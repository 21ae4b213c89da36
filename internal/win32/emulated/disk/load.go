package disk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// ReadStates reads the states of the disks, and returns those of the attached ones. It removes
// the images that belong to no disk.
func (n *Disks) ReadStates() ([]Record, error) {
	var attached []Record
	known := map[string]bool{}
	for _, k := range n.Store.Keys("disk/") {
		var s Record
		if err := n.Store.Read(k, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		if diskKey(s.ID) != k || s.Sector != 512 && s.Sector != 4096 || s.Size > MaxSize || s.SeenSize > s.Size || s.TableSize > s.SeenSize || s.TableSize < MinSize {
			return nil, fmt.Errorf("%s: not a disk: %+v", k, s)
		}
		if err := n.CheckImage(s.ID, s.Size); err != nil {
			return nil, err
		}
		known[s.ID] = true
		if s.State != Detached {
			attached = append(attached, s)
		}
	}
	if err := n.RemoveImages(func(id string) bool { return known[id] }); err != nil {
		return nil, err
	}
	return attached, nil
}

// Load opens the images of disks, and adds the disks.
func (n *Disks) Load(attached []Record) error {
	slices.SortFunc(attached, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	for _, s := range attached {
		if _, err := n.OpenImage(s.ID, s.Size); err != nil {
			return err
		}
	}
	for _, s := range attached {
		d := &Disk{Record: s, n: n, Image: n.Image(s.ID)}
		if s.State == Waiting {
			var err error
			if d.Table, err = ptable.Read(d.Image, s.Geometry()); err != nil {
				return err
			}
			n.waiting = append(n.waiting, d)
			continue
		}
		see := func(t *kernel.Tx) error { return n.arrive(t, d, s) }
		if s.State == Arriving {
			see = func(t *kernel.Tx) error { return n.see(t, d) }
		}
		if err := n.Transact(see); err != nil {
			return n.Cause(err)
		}
	}
	return nil
}

// Restart gives every disk the state that it has after a restart of Windows.
func (n *Disks) Restart() error {
	for _, list := range [][]*Disk{slices.Clone(n.List), slices.Clone(n.waiting)} {
		for _, d := range list {
			err := n.Transact(func(t *kernel.Tx) error {
				waiting := d.State != Attached
				state := d.Record
				state.State = Attached
				remembered, _, err := n.remembered(&state)
				if err != nil {
					return n.BreakDown("read the state of a slot", err)
				}
				state.Attributes, state.Collision = remembered, false
				state.SeenSize, state.TableSize = state.Size, state.Size
				d.change(t, state)
				if waiting {
					return n.arrive(t, d, state)
				}
				table, err := ptable.Read(d.Image, state.Geometry())
				if err != nil {
					return n.BreakDown("read a disk image", err)
				}
				if n.keepOffline(d, &state, table) {
					d.change(t, state)
				}
				return n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: table})
			})
			if err != nil {
				return err
			}
		}
	}
	n.waiting = nil
	return nil
}

// Renumber gives each disk the number of the next one, and the last disk that of the first,
// if nodespec.Windows.DiskNumbers says so.
func (n *Disks) Renumber(t *kernel.Tx) {
	disks := slices.Concat(n.List, n.waiting)
	if n.Windows.DiskNumbers == nodespec.DiskNumbersKept || len(disks) < 2 {
		return
	}
	slices.SortFunc(disks, func(a, b *Disk) int { return cmp.Compare(a.Number, b.Number) })
	for i, d := range disks {
		state := d.Record
		state.Number = disks[(i+1)%len(disks)].Number
		n.Chosen("diskNumbers", fmt.Sprintf("disk %d gets the number %d", d.Number, state.Number), d.ID)
		d.change(t, state)
	}
	t.OnCommit(func() {
		slices.SortFunc(n.List, func(a, b *Disk) int { return cmp.Compare(a.Number, b.Number) })
	})
}

// Show returns the attached disks, and the identities of the detached ones.
func (n *Disks) Show() (disks []nodespec.DiskInfo, detached []string) {
	for _, d := range slices.Concat(n.List, n.waiting) {
		disks = append(disks, d.info())
	}
	for _, k := range n.Store.Keys(diskKey("")) {
		if id := strings.TrimPrefix(k, diskKey("")); n.Image(id) == nil {
			detached = append(detached, id)
		}
	}
	return disks, detached
}

// info returns the disk in the form of Show.
func (d *Disk) info() nodespec.DiskInfo {
	info := nodespec.DiskInfo{
		Number: d.Number, ID: d.ID, Image: d.Image.Name(), Size: nodespec.Size(d.Size), SeenSize: nodespec.Size(d.SeenSize), SectorSize: d.Sector,
		Style:   map[uint32]string{win32.PARTITION_STYLE_MBR: "MBR", win32.PARTITION_STYLE_GPT: "GPT", win32.PARTITION_STYLE_RAW: "RAW"}[d.Table.Style],
		Waiting: d.State != Attached, System: d.System, Online: !d.Offline(), ReadOnly: d.Attributes&win32.DISK_ATTRIBUTE_READ_ONLY != 0,
	}
	switch l := d.Table; {
	case l.Style == win32.PARTITION_STYLE_GPT:
		info.Identity = l.DiskID.String()
	case l.Style == win32.PARTITION_STYLE_MBR && l.Signature != 0:
		info.Identity = fmt.Sprintf("%#08x", l.Signature)
	}
	for _, p := range d.Table.Partitions {
		if !ptable.InUse(p) {
			continue
		}
		part := nodespec.PartitionInfo{Number: p.Number, Type: fmt.Sprintf("%#02x", p.MBRType), Offset: nodespec.Size(p.Offset), Length: nodespec.Size(p.Length)}
		if p.Style == win32.PARTITION_STYLE_GPT {
			part.Type, part.ID, part.Name = p.Type.String(), p.ID.String(), p.Name
		}
		info.Partitions = append(info.Partitions, part)
	}
	return info
}
