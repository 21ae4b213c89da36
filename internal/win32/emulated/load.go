package emulated

import "errors"

// load restores the node from the state that was read.
func (n *Node) load() error {
	attached, err := n.ReadStates()
	if err != nil {
		return err
	}
	if err := errors.Join(n.Volumes.Load(), n.Services.Load(), n.Initiator.Load(), n.Network.Load()); err != nil {
		return err
	}
	if err := n.Disks.Load(attached); err != nil {
		return err
	}
	if err := n.Resume(); err != nil {
		return err
	}
	n.Settle()
	return nil
}
