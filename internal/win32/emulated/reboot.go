package emulated

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Reboot restarts the node's Windows. All handles are closed, disks get their
// persistent attributes, growth and newly attached disks become visible, the
// services that Windows starts at boot run, SMB mappings are disconnected, and
// iSCSI sessions have ended. nodespec.Windows.DiskNumbers says which numbers disks
// get.
func (n *Node) Reboot() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
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
	if _, interrupted := n.store.Get(rebootKey); interrupted {
		if err := n.store.Read(rebootKey, &record); err != nil {
			return fmt.Errorf("reboot: %w", err)
		}
	}
	if err := n.closeHandles(func(t *tx) {
		t.Put(rebootKey, record)
		t.deletePrefix("format/")
		n.abort(t, func(*formatting) bool { return true })
	}); err != nil {
		return fmt.Errorf("reboot: %w", n.cause(err))
	}
	err := n.transact(func(t *tx) error {
		for _, v := range n.volumes {
			v.grow(t)
		}
		n.bootServices(t)
		n.bootSMB(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reboot: %w", n.cause(err))
	}
	if err := n.bootISCSI(); err != nil {
		return fmt.Errorf("reboot: %w", n.cause(err))
	}
	if !record.Numbered {
		err := n.transact(func(t *tx) error {
			n.renumber(t)
			t.Put(rebootKey, rebootRecord{Numbered: true})
			return nil
		})
		if err != nil {
			return fmt.Errorf("reboot: %w", n.cause(err))
		}
	}
	for _, list := range [][]*disk{slices.Clone(n.disks), slices.Clone(n.waiting)} {
		for _, d := range list {
			err := n.transact(func(t *tx) error {
				waiting := d.State != statusAttached
				state := d.diskState
				state.State = statusAttached
				remembered, _, err := n.remembered(&state)
				if err != nil {
					return n.breakDown("read the state of a slot", err)
				}
				state.Attributes, state.Collision = remembered, false
				state.SeenSize, state.TableSize = state.Size, state.Size
				d.change(t, state)
				if waiting {
					return n.arrive(t, d, state)
				}
				table, err := ptable.Read(d.image, state.geometry())
				if err != nil {
					return n.breakDown("read a disk image", err)
				}
				if n.keepOffline(d, &state, table) {
					d.change(t, state)
				}
				return n.arrange(t, arrangement{disk: d, state: state, table: table})
			})
			if err != nil {
				return fmt.Errorf("reboot: %w", n.cause(err))
			}
		}
	}
	n.waiting = nil
	for _, v := range n.volumes {
		v.offline, v.unflushed = v.Offline, nil // an orderly restart flushes
	}
	n.settle()
	if err := n.transact(func(t *tx) error { t.Delete(rebootKey); return nil }); err != nil {
		return fmt.Errorf("reboot: %w", n.cause(err))
	}
	return nil
}

// renumber gives each disk the number of the next one, and the last disk that of the first,
// if nodespec.Windows.DiskNumbers says so.
func (n *Node) renumber(t *tx) {
	disks := slices.Concat(n.disks, n.waiting)
	if n.win.DiskNumbers == nodespec.DiskNumbersKept || len(disks) < 2 {
		return
	}
	slices.SortFunc(disks, func(a, b *disk) int { return cmp.Compare(a.Number, b.Number) })
	for i, d := range disks {
		state := d.diskState
		state.Number = disks[(i+1)%len(disks)].Number
		n.chosen("diskNumbers", fmt.Sprintf("disk %d gets the number %d", d.Number, state.Number), d.ID)
		d.change(t, state)
	}
	t.onCommit(func() {
		slices.SortFunc(n.disks, func(a, b *disk) int { return cmp.Compare(a.Number, b.Number) })
	})
}

// closeHandles closes all handles, and calls also in the same transaction.
func (n *Node) closeHandles(also func(*tx)) error {
	err := n.transact(func(t *tx) error {
		also(t)
		for _, h := range n.handles {
			if err := h.object.close(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(n.handles)
	return nil
}

// EndProcess does what Windows does when the calling process ends: it closes all
// handles, which deletes the files marked for deletion, and cuts off a format without
// WMI. One through WMI goes on. The node keeps running for the next process. (If the node's own
// process is killed, opening the state directory again has the same result.)
func (n *Node) EndProcess() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := n.closeHandles(func(t *tx) { n.abort(t, func(f *formatting) bool { return f.Options.Direct }) }); err != nil {
		return fmt.Errorf("end the process: %w", n.cause(err))
	}
	return nil
}

// EndFormats ends the processes in which formats run, and nothing else: the helper that
// uses fmifs.dll, and the provider of WMI.
func (n *Node) EndFormats() error {
	return n.do(func(t *tx) error {
		t.deletePrefix("format/")
		n.abort(t, func(*formatting) bool { return true })
		return nil
	})
}

// abort cuts formats off.
func (n *Node) abort(t *tx, which func(*formatting) bool) {
	for _, v := range n.volumes {
		if f := v.formatting; f != nil && which(f) {
			t.onCommit(func() { v.formatting = nil })
		}
	}
}
