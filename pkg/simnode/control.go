package simnode

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Show returns the state of the node.
func (n *Node) Show() (State, error) {
	state, err := n.emulated.Show()
	if err != nil {
		return State{}, fmt.Errorf("simulated node: show: %w", err)
	}
	ids, err := n.bare.ListDiskIDs()
	if err != nil {
		return State{}, err
	}
	for i := range state.Disks {
		d := &state.Disks[i]
		d.Serial, d.Page83 = ids[d.Number].SerialNumber, ids[d.Number].Page83
	}
	if err := n.addLinks(state.SMBMappings); err != nil {
		return State{}, err
	}
	state.Faults = n.faults.All()
	return state, nil
}

// diskInfo returns the disk with a number.
func (n *Node) diskInfo(op string, number uint32) (DiskInfo, error) {
	state, err := n.Show()
	if err != nil {
		return DiskInfo{}, err
	}
	i := slices.IndexFunc(state.Disks, func(d DiskInfo) bool { return d.Number == number })
	if i < 0 {
		return DiskInfo{}, hosterr.Wrap(op, fmt.Sprintf("disk %d", number), hosterr.ErrNotFound)
	}
	return state.Disks[i], nil
}

// refused adds the kind ErrInvalid to an error of the emulated node's own methods.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return hosterr.Text(hosterr.ErrInvalid, "%w", err)
}

// AttachDisk attaches a new disk, or a detached disk if d.ID is the ID of one.
func (n *Node) AttachDisk(d Disk) (DiskInfo, error) {
	number, err := n.emulated.Attach(d)
	if err != nil {
		return DiskInfo{}, refused(err)
	}
	return n.diskInfo("attach", number)
}

// AwaitDisk does what a driver does with Rescan: Windows scans for devices. It returns when
// Windows has the attached disk and its volumes, and no other program holds the disk. It is
// for tests that are not about how a driver finds disks.
func (n *Node) AwaitDisk(number uint32) error { return n.emulated.AwaitDisk(number) }

// DetachDisk removes a disk even if it is in use. The disk keeps its content and can be
// attached again by its ID, until DiscardDisk.
func (n *Node) DetachDisk(number uint32) error {
	if _, err := n.diskInfo("detach", number); err != nil {
		return err
	}
	return refused(n.emulated.Detach(number))
}

// DiscardDisk deletes a detached disk with its content. A disk that is attached again by
// its ID afterwards is a new one.
func (n *Node) DiscardDisk(id string) error { return refused(n.emulated.Discard(id)) }

// GrowDisk gives a disk a larger size. Windows finds it with the next rescan.
func (n *Node) GrowDisk(number uint32, size Size) error {
	if _, err := n.diskInfo("grow", number); err != nil {
		return err
	}
	return refused(n.emulated.Grow(number, uint64(size)))
}

// SetService adds a Windows service, or replaces the one with that name.
func (n *Node) SetService(s Service) error {
	return refused(n.emulated.SetService(s))
}

// Reboot restarts the node's Windows: handles become invalid, disks return to their last
// online and read-only state, services with automatic start run, and grown and attached
// disks are found. Files, volumes and mounts are kept. If the process is killed meanwhile, a
// part of that is done: reboot again.
func (n *Node) Reboot() error { return refused(n.emulated.Reboot()) }
