package emulated

import (
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// Reboot restarts the node's Windows. All handles are closed, disks get their
// persistent attributes, growth and newly attached disks become visible, the
// services that Windows starts at boot run, SMB mappings are disconnected, and
// iSCSI sessions have ended. nodespec.Windows.DiskNumbers says which numbers disks
// get. It takes several transactions, and does not go on if the process is killed in between.
func (n *Node) Reboot() error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	err := n.CloseAll(func(t *kernel.Tx) { n.CutOff(t, true) })
	if err == nil {
		err = n.Transact(func(t *kernel.Tx) error {
			n.GrowAll(t)
			n.Services.Boot(t)
			n.Network.Boot(t)
			return nil
		})
	}
	if err == nil {
		err = n.Initiator.Boot()
	}
	if err == nil {
		err = n.Transact(func(t *kernel.Tx) error { n.Renumber(t); return nil })
	}
	if err == nil {
		err = n.Disks.Restart()
	}
	if err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
	n.Volumes.Restart()
	return nil
}

// EndProcess does what Windows does when the calling process ends: it closes all
// handles, which deletes the files marked for deletion, and cuts off a format without
// WMI. One through WMI goes on. The node keeps running for the next process. (If the node's own
// process is killed, opening the state directory again has the same result.)
func (n *Node) EndProcess() error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	if err := n.CloseAll(func(t *kernel.Tx) { n.CutOff(t, false) }); err != nil {
		return fmt.Errorf("end the process: %w", n.Cause(err))
	}
	return nil
}

// EndFormats ends the processes in which formats run, and nothing else: the helper that
// uses fmifs.dll, and the provider of WMI.
func (n *Node) EndFormats() error {
	return n.Do(func(t *kernel.Tx) error {
		n.CutOff(t, true)
		return nil
	})
}
