package disk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	defaultSystemDisk = 64 << 30
	defaultDisk       = 10 << 30
	mib               = 1 << 20
)

// Attach attaches a disk and returns its number. If c.ID is that of a detached
// disk, it attaches that disk again. Config.Attach is when Windows sees it.
func (n *Disks) Attach(c nodespec.Disk) (number uint32, err error) {
	if err := n.Lock(); err != nil {
		return 0, err
	}
	defer n.Unlock()
	if err := Validate(c); err != nil {
		return 0, fmt.Errorf("attach: %w", err)
	}
	status := map[string]Status{
		nodespec.AttachRescan: Waiting, nodespec.AttachPlugAndPlay: Arriving, nodespec.AttachSeen: Attached,
	}[n.Windows.Attach]
	number, err = n.Add(c, status)
	if err != nil {
		return 0, fmt.Errorf("attach: %w", n.Cause(err))
	}
	return number, nil
}

// AddArrived adds the disks that Windows has found and whose time has come. The caller
// holds the node's lock.
func (n *Disks) AddArrived() {
	for _, d := range slices.Clone(n.waiting) {
		if d.State != Arriving || n.Now().Before(d.arrives) {
			continue
		}
		if err := n.Transact(func(t *kernel.Tx) error { return n.see(t, d) }); err != nil {
			n.Log.Error("Failed to add a disk that arrived", "disk", d.ID, "err", n.Cause(err))
		}
	}
}

// AwaitDisk scans for devices and returns when Windows has the attached disk and its
// volumes, and no other program holds it.
func (n *Disks) AwaitDisk(number uint32) error {
	look := func(scan bool) (bool, error) {
		if err := n.Lock(); err != nil {
			return false, err
		}
		defer n.Unlock()
		if scan {
			err := n.Transact(func(t *kernel.Tx) error {
				t.Privilege = win32.SE_LOAD_DRIVER_NAME
				return n.Scan(t)
			})
			if err != nil {
				return false, fmt.Errorf("await disk %d: %w", number, n.Cause(err))
			}
		}
		n.AddArrived()
		d, err := n.numbered("await", number)
		return err == nil && d.State == Attached && !d.held() && !n.above.Arriving(d), err
	}
	for seen, err := look(true); !seen; seen, err = look(false) {
		if err != nil {
			return err
		}
		n.Sleep(kernel.ArrivalDelay)
	}
	return nil
}

// see makes a waiting disk visible.
func (n *Disks) see(t *kernel.Tx, d *Disk) error {
	state := d.Record
	state.State = Attached
	d.change(t, state)
	t.OnCommit(func() { n.waiting = slices.DeleteFunc(n.waiting, func(o *Disk) bool { return o == d }) })
	return n.arrive(t, d, state)
}

// Find returns an attached disk, visible or not, or nil.
func (n *Disks) Find(match func(*Disk) bool) *Disk {
	for _, list := range [][]*Disk{n.List, n.waiting} {
		if i := slices.IndexFunc(list, match); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// Add attaches the disk that c describes. The caller holds the node's lock and
// has checked c.
func (n *Disks) Add(c nodespec.Disk, status Status) (uint32, error) {
	_, known := n.Store.Get(diskKey(c.ID))
	number, err := n.attachDisk(c, status)
	if err != nil || known || len(c.Bytes) == 0 {
		return number, err
	}
	// A disk is read when it is attached, so attach it again after replacing its
	// bytes.
	d := n.Find(func(d *Disk) bool { return d.Number == number })
	err = n.Transact(func(t *kernel.Tx) error {
		for _, b := range c.Bytes {
			t.WriteImage(d.ID, uint64(b.At), b.Data)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := n.Remove(d); err != nil {
		return 0, err
	}
	return n.attachDisk(nodespec.Disk{ID: d.ID, Number: &number}, status)
}

// attachDisk attaches a disk without changing its bytes.
func (n *Disks) attachDisk(c nodespec.Disk, status Status) (uint32, error) {
	if c.Content == "" && c.Image != "" {
		c.Content = nodespec.ContentImage
	}
	taken := func(number uint32) bool { return n.Find(func(d *Disk) bool { return d.Number == number }) != nil }
	number := uint32(0)
	if c.Number != nil {
		if number = *c.Number; taken(number) {
			return 0, fmt.Errorf("disk number %d is already in use", number)
		}
	}
	for c.Number == nil && taken(number) {
		number++
	}
	if c.ID == "" {
		guid, err := n.NewGUID()
		if err != nil {
			return 0, err
		}
		c.ID = strings.Trim(guid.String(), "{}")
	}
	if n.Find(func(d *Disk) bool { return strings.EqualFold(d.ID, c.ID) }) != nil {
		return 0, fmt.Errorf("disk %q is already attached", c.ID)
	}
	var state Record
	raw, back := n.Store.Get(diskKey(c.ID))
	if back {
		if err := json.Unmarshal(raw, &state); err != nil {
			return 0, err
		}
		state.Collision = false
		state.SeenSize, state.TableSize = state.Size, state.Size
	} else {
		var err error
		if state, err = n.newState(c, number); err != nil {
			return 0, err
		}
	}
	state.Number, state.State = number, status
	if err := n.arrivalAttributes(c, &state); err != nil {
		return 0, err
	}
	arrived := state.Attributes // without what an identity does to them

	// If anything fails from here on, remove a new image.
	makeImage := n.CreateImage
	if back {
		makeImage = n.OpenImage
	} else if err := n.RemoveImage(state.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err // a leftover of a Discard that was killed
	}
	image, err := makeImage(state.ID, state.Size)
	if err != nil {
		return 0, err
	}
	d := &Disk{Record: state, n: n, Image: image, arrives: n.Now().Add(kernel.ArrivalDelay)}
	undo := func() {
		n.CloseImage(state.ID)
		if !back {
			n.RemoveImage(state.ID)
		}
	}
	if !back && c.Content == nodespec.ContentImage {
		if err := kernel.CopyImage(image, c.Image); err != nil {
			undo()
			return 0, err
		}
	}
	err = n.Transact(func(t *kernel.Tx) error {
		var table win32.Layout
		letters := map[string]string{}
		if back || c.Content == nodespec.ContentImage {
			if table, err = ptable.Read(image, state.Geometry()); err != nil {
				return err
			}
		} else if table, err = n.content(t, d, c, letters); err != nil {
			return err
		}
		if status == Attached && n.keepOffline(d, &state, table) {
			d.Record = state
		}
		t.Put(diskKey(state.ID), state)
		t.Put(state.slotKey(), slotState{arrived})
		if status != Attached {
			n.Chosen("attach", "do not see an attached disk yet", state.ID)
			t.OnCommit(func() { n.waiting = append(n.waiting, d) })
		} else {
			t.OnCommit(func() { n.addDisk(d) })
		}
		return n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: table, Letters: letters})
	})
	if err != nil {
		undo()
		return 0, err
	}
	return number, nil
}

// newState returns the state of a new disk.
func (n *Disks) newState(c nodespec.Disk, number uint32) (Record, error) {
	size := uint64(c.Size)
	if c.Content == nodespec.ContentImage {
		info, err := os.Stat(c.Image)
		if err != nil {
			return Record{}, err
		}
		if size == 0 {
			size = uint64(info.Size())
		}
		if size < uint64(info.Size()) {
			return Record{}, fmt.Errorf("image %q has %d bytes, but the disk only %d", c.Image, info.Size(), size)
		}
	}
	sector := cmp.Or(c.SectorSize, 512)
	if size == 0 {
		size = defaultDisk
		if c.Content == nodespec.ContentSystem {
			size = defaultSystemDisk
		}
	}
	size = size / uint64(sector) * uint64(sector)
	if size < MinSize || size > MaxSize {
		return Record{}, fmt.Errorf("disk of %d bytes, want %d to %d", size, uint64(MinSize), uint64(MaxSize))
	}
	for _, b := range c.Bytes {
		if uint64(b.At) > size || uint64(len(b.Data)) > size-uint64(b.At) {
			return Record{}, fmt.Errorf("%d bytes at %d do not fit a disk of %d bytes", len(b.Data), b.At, size)
		}
	}
	bus, err := busType(c.Bus)
	if err != nil {
		return Record{}, err
	}
	s := Record{
		ID: c.ID, Size: size, SeenSize: size, TableSize: size, Sector: sector, System: c.Content == nodespec.ContentSystem,
		Protected: c.WriteProtected, Clustered: c.Clustered, Bus: bus,
		Vendor: cmp.Or(c.Vendor, "EMULATED"), Product: cmp.Or(c.Product, "Virtual Disk"), Revision: cmp.Or(c.Revision, "1.0"),
		Serial: c.Serial, Location: c.Location, Address: (*win32.SCSIAddress)(c.Address), Namespace: c.Namespace, Removable: c.Removable,
	}
	for _, id := range c.Identifiers {
		v, err := identifier(id)
		if err != nil {
			return s, err
		}
		s.Identifiers = append(s.Identifiers, v)
	}
	// A disk without any configured identity gets a usual one.
	if s.Serial == "" && s.Location == "" && s.Address == nil && len(s.Identifiers) == 0 {
		guid, err := n.NewGUID()
		if err != nil {
			return s, err
		}
		naa := guid.AppendTo(nil)
		naa[0] = naa[0]&0x0F | 0x60 // NAA 6: locally assigned, 16 bytes
		s.Serial = fmt.Sprintf("EMU%X", naa[10:])
		s.Identifiers = []win32.Identifier{{CodeSet: win32.StorageIdCodeSetBinary, Type: win32.StorageIdTypeFCPHName, ID: naa}}
		s.Address = &win32.SCSIAddress{Port: 3, Target: uint8(number >> 8), Lun: uint8(number)}
		s.Location = fmt.Sprintf("Integrated : Adapter %d : Port %d : Target %d : LUN %d", s.Address.Port, s.Address.Path, s.Address.Target, s.Address.Lun)
	}
	return s, nil
}

// arrivalAttributes determines whether a disk arrives offline or read-only: as c
// says, or as Windows remembers of the slot, or else by the SAN policy, which sets both
// (Microsoft: diskpart, san).
func (n *Disks) arrivalAttributes(c nodespec.Disk, s *Record) error {
	held := false
	switch n.Windows.SANPolicy {
	case nodespec.SANOfflineAll:
		held = true
	case nodespec.SANOfflineShared:
		held = sharedBus(s.Bus)
	}
	// The policy is about new disks; a disk that the node was made with is not new to it.
	made := n.Made()
	remembered, known, err := n.remembered(s)
	if err != nil {
		return err
	}
	s.Attributes = remembered
	if held && made && !known && !s.System {
		n.Chosen("sanPolicy", "a disk arrives offline and read-only", s.ID)
		s.Attributes |= win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	}
	set := func(want *bool, bit uint64) {
		if want != nil && *want {
			s.Attributes |= bit
		} else if want != nil {
			s.Attributes &^= bit
		}
	}
	set(c.Offline, win32.DISK_ATTRIBUTE_OFFLINE)
	set(c.ReadOnly, win32.DISK_ATTRIBUTE_READ_ONLY)
	return nil
}

// arrive makes d, which has this state after t, visible to the node.
func (n *Disks) arrive(t *kernel.Tx, d *Disk, state Record) error {
	table, err := ptable.Read(d.Image, state.Geometry())
	if err != nil {
		return n.BreakDown("read a disk image", err)
	}
	if n.keepOffline(d, &state, table) {
		d.change(t, state)
	}
	if err := n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: table}); err != nil {
		return err
	}
	t.OnCommit(func() { n.addDisk(d) })
	return nil
}

func (n *Disks) addDisk(d *Disk) {
	if n.Made() && n.Windows.NewDisks == behavior.NewDisksHeld {
		d.released = n.Now().Add(kernel.ArrivalDelay)
	}
	n.List = append(n.List, d)
	slices.SortFunc(n.List, func(a, b *Disk) int { return cmp.Compare(a.Number, b.Number) })
}

// held reports whether another program has the disk open.
func (d *Disk) held() bool { return d.n.Now().Before(d.released) }

// numbered returns the attached disk with a number.
func (n *Disks) numbered(what string, number uint32) (*Disk, error) {
	d := n.Find(func(d *Disk) bool { return d.Number == number })
	if d == nil {
		return nil, fmt.Errorf("%s: no disk %d", what, number)
	}
	return d, nil
}

// Detach detaches a disk. Its content stays until the disk is attached again by
// its ID or discarded.
func (n *Disks) Detach(number uint32) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	d, err := n.numbered("detach", number)
	if err != nil {
		return err
	}
	if d.System {
		return fmt.Errorf("detach: Windows runs from disk %d", number)
	}
	return n.Remove(d)
}

// Remove detaches a disk of the node.
func (n *Disks) Remove(d *Disk) error {
	err := n.Transact(func(t *kernel.Tx) error {
		state := d.Record
		state.State = Detached
		d.change(t, state)
		return n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: d.Table})
	})
	if err != nil {
		return fmt.Errorf("detach: %w", n.Cause(err))
	}
	d.gone = true
	n.List = slices.DeleteFunc(n.List, func(o *Disk) bool { return o == d })
	n.waiting = slices.DeleteFunc(n.waiting, func(o *Disk) bool { return o == d })
	return n.CloseImage(d.ID)
}

// Discard deletes a detached disk with all its content.
func (n *Disks) Discard(id string) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	if !n.IsDetached(id) {
		return fmt.Errorf("discard: no detached disk %q", id)
	}
	return n.Erase(id)
}

// IsDetached reports whether a disk is known and not attached.
func (n *Disks) IsDetached(id string) bool {
	_, known := n.Store.Get(diskKey(id))
	return known && n.Image(id) == nil
}

// Erase deletes a detached disk.
func (n *Disks) Erase(id string) error {
	err := n.Transact(func(t *kernel.Tx) error {
		t.Delete(diskKey(id))
		n.above.Forget(t, id)
		return nil
	})
	if err != nil {
		return fmt.Errorf("discard: %w", n.Cause(err))
	}
	return n.RemoveImage(id)
}

// Grow makes a disk larger, as its array would. Windows notices this only on
// request: see [Record].
func (n *Disks) Grow(number uint32, size uint64) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	d, err := n.numbered("grow", number)
	if err != nil {
		return err
	}
	requested := size
	size = size / uint64(d.Sector) * uint64(d.Sector)
	if size <= d.Size || size > MaxSize {
		return fmt.Errorf("grow: disk %d has %d bytes: cannot change that to %d, want more, and at most %d", number, d.Size, requested, uint64(MaxSize))
	}
	if err := kernel.FitImage(d.Image, size); err != nil {
		return fmt.Errorf("grow: %w", err)
	}
	err = n.Transact(func(t *kernel.Tx) error {
		state := d.Record
		state.Size = size
		d.change(t, state)
		return nil
	})
	if err != nil {
		return fmt.Errorf("grow: %w", n.Cause(err))
	}
	return nil
}

// Reenumerate implements [win32.Devices]. It finds the disks that wait for it, which arrive
// a moment later.
//
// Source: document, CM_Reenumerate_DevNode.
func (n *Disks) Reenumerate() error { return n.Do(n.Scan) }

// Scan is Reenumerate in the transaction of a call.
func (n *Disks) Scan(t *kernel.Tx) error {
	// CR_ACCESS_DENIED (Microsoft: CM_Reenumerate_DevNode, "the caller must have
	// SeLoadDriverPrivilege").
	if t.Privilege != win32.SE_LOAD_DRIVER_NAME {
		// Source: document, CM_Reenumerate_DevNode, "must have SeLoadDriverPrivilege"; the
		// number is inference.
		return win32.ERROR_ACCESS_DENIED
	}
	for _, d := range n.waiting {
		if d.State == Waiting {
			state := d.Record
			state.State = Arriving
			d.change(t, state)
			t.OnCommit(func() { d.arrives = n.Now().Add(kernel.ArrivalDelay) })
		}
	}
	return nil
}
