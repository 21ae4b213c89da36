package emulated

import (
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// load restores the node from the state that was read. pending are image writes
// that the last process may not have made.
func (n *Node) load(pending []journal.ImageWrite) error {
	attached, err := n.ReadStates()
	if err != nil {
		return err
	}
	if err := errors.Join(n.Volumes.Load(), n.Services.Load(), n.Initiator.Load(), n.Network.Load()); err != nil {
		return err
	}
	if err := n.Disks.Load(attached, pending); err != nil {
		return err
	}
	if err := n.Resume(); err != nil {
		return err
	}
	if _, interrupted := n.Store.Get(rebootKey); interrupted {
		if err := n.reboot(); err != nil {
			return err
		}
	}
	n.Settle()
	return nil
}
