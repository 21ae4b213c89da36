package simnode

// SetISCSITarget adds a target, or replaces the one with that IQN. Existing sessions and
// disks do not change.
func (n *Node) SetISCSITarget(t ISCSITarget) error {
	return refused(n.emulated.SetISCSITarget(t))
}

// RemoveISCSITarget removes a target with its sessions and disks, and their content.
func (n *Node) RemoveISCSITarget(iqn string) error { return refused(n.emulated.RemoveISCSITarget(iqn)) }
