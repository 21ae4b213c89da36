package simnode

import ()

// SetISCSITarget makes a target, or replaces the one of that IQN. Sessions and
// disks that it has stay as they are.
func (n *Node) SetISCSITarget(t ISCSITarget) error {
	return refused(n.emulated.SetISCSITarget(t))
}

// RemoveISCSITarget makes a target vanish, with its sessions and disks.
func (n *Node) RemoveISCSITarget(iqn string) error { return refused(n.emulated.RemoveISCSITarget(iqn)) }
