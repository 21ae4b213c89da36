package emulated

import (
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// Reboot restarts the node's Windows. All handles are closed, disks get their
// persistent attributes, growth and newly attached disks become visible, the
// services that Windows starts at boot run, SMB mappings are disconnected, and
// iSCSI sessions have ended. nodespec.Windows.DiskNumbers says which numbers disks
// get.
func (n *Node) Reboot() error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	return n.reboot()
}

// rebootKey exists during a restart of Windows. A restart takes several
// transactions; an interrupted one starts again when the node is opened.
const rebootKey = "reboot"

type rebootRecord struct {
	Numbered bool `json:"numbered,omitempty"` // the disks have their new numbers
}

func (n *Node) reboot() error {
	var record rebootRecord
	if _, interrupted := n.Store.Get(rebootKey); interrupted {
		if err := n.Store.Read(rebootKey, &record); err != nil {
			return fmt.Errorf("reboot: %w", err)
		}
	}
	if err := n.CloseAll(func(t *kernel.Tx) {
		t.Put(rebootKey, record)
		n.CutOff(t, true)
	}); err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
	err := n.Transact(func(t *kernel.Tx) error {
		n.GrowAll(t)
		n.Services.Boot(t)
		n.Network.Boot(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
	if err := n.Initiator.Boot(); err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
	if !record.Numbered {
		err := n.Transact(func(t *kernel.Tx) error {
			n.Renumber(t)
			t.Put(rebootKey, rebootRecord{Numbered: true})
			return nil
		})
		if err != nil {
			return fmt.Errorf("reboot: %w", n.Cause(err))
		}
	}
	if err := n.Disks.Restart(); err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
	n.Volumes.Restart()
	if err := n.Transact(func(t *kernel.Tx) error { t.Delete(rebootKey); return nil }); err != nil {
		return fmt.Errorf("reboot: %w", n.Cause(err))
	}
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
