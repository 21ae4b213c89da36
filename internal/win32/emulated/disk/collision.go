package disk

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
)

// Windows identifies a disk by the GUID in its GPT or the signature in its MBR. A disk that
// arrives with the identity of another one, such as a clone, stays offline with the reason
// "collision", whatever the SAN policy says. When it is made online, Windows writes a new
// identity, which fails if the disk is read-only (docs/develop/contract/disks.md#online-offline-read-only).

// sameIdentity reports whether two tables identify their disk alike.
func sameIdentity(a, b win32.Layout) bool {
	if a.Style != b.Style {
		return false
	}
	switch a.Style {
	case win32.PARTITION_STYLE_GPT:
		return a.DiskID == b.DiskID
	case win32.PARTITION_STYLE_MBR:
		return a.Signature != 0 && a.Signature == b.Signature
	}
	return false
}

// collides reports whether d, with this table, has the identity of another disk that is
// online.
func (n *Disks) collides(d *Disk, table win32.Layout) bool {
	for _, o := range n.List {
		if o != d && !o.Offline() && sameIdentity(o.Table, table) {
			n.Log.Info("Another disk has the same identity", "disk", d.Number, "other", o.Number)
			return true
		}
	}
	return false
}

// keepOffline changes the state of a disk that arrives with this table, if it has the identity
// of another disk, and reports whether it has.
func (n *Disks) keepOffline(d *Disk, state *Record, table win32.Layout) bool {
	if state.System || !n.collides(d, table) {
		return false
	}
	state.Attributes |= win32.DISK_ATTRIBUTE_OFFLINE
	state.Collision = true
	return true
}

// OfflineReasons implements [win32.Devices]. "Policy" is the SAN policy for VDS and the
// request of a user for WMI, so a disk that a program took offline has it as well.
//
// Source: document, MSFT_Disk, OfflineReason, and VDS_DISK_OFFLINE_REASON.
func (n *Disks) OfflineReasons() (reasons map[uint32]uint16, err error) {
	err = n.Do(func(*kernel.Tx) error {
		reasons = map[uint32]uint16{}
		if n.Windows.FormatKnows == behavior.FormatNever {
			n.Chosen("formatKnows", "no disks in WMI", "") // a provider that lists no volumes lists no disks
			return nil
		}
		for _, d := range n.List {
			switch {
			case d.State != Attached:
			case d.Collision:
				reasons[d.Number] = win32.VDSDiskOfflineReasonCollision
			case d.Offline():
				reasons[d.Number] = win32.VDSDiskOfflineReasonPolicy
			default:
				reasons[d.Number] = win32.VDSDiskOfflineReasonNone
			}
		}
		return nil
	})
	return reasons, err
}

// newIdentity writes a new identity to d, which gets this state: it is online again. The
// error is ERROR_INVALID_PARAMETER if that cannot be written (hpe-storage,
// common-host-libs issue 40).
func (d *Disk) newIdentity(t *kernel.Tx, state Record) error {
	if state.Writable() != nil {
		// Source: program, hpe-storage/common-host-libs issue 40; the number is inference.
		return win32.ERROR_INVALID_PARAMETER
	}
	id, err := d.n.NewGUID()
	if err != nil {
		return err
	}
	first := make([]byte, d.Sector)
	if _, err := d.Image.ReadAt(first, 0); err != nil {
		return d.n.BreakDown("read a disk image", err)
	}
	l := d.Table
	l.DiskID, l.Signature = id, id.Data1
	if l.Style == win32.PARTITION_STYLE_GPT {
		l.Signature = d.Table.Signature
	} else {
		l.DiskID = d.Table.DiskID
	}
	for _, w := range ptable.Encode(l, d.Geometry(), first) {
		t.WriteImage(d.ID, w.Offset, w.Data)
	}
	d.change(t, state)
	return d.n.above.Arrange(t, Arrangement{Disk: d, State: state, Table: ptable.Normal(l, d.Geometry())})
}
