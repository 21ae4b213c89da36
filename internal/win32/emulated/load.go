package emulated

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// load restores the node from the state that was read. pending are image writes
// that the last process may not have made.
func (n *Node) load(pending []journal.ImageWrite) error {
	attached, err := n.ReadStates()
	if err != nil {
		return err
	}
	if err := errors.Join(n.loadVolumes(), n.loadMounts(), n.loadTrees(), n.Services.Load(), n.Initiator.Load(), n.loadSMB()); err != nil {
		return err
	}
	if err := n.Disks.Load(attached, pending); err != nil {
		return err
	}
	if err := n.Transact(n.finishDeletions); err != nil {
		return n.Cause(err)
	}
	if err := n.loadFormats(); err != nil {
		return err
	}
	if _, interrupted := n.Store.Get(rebootKey); interrupted {
		if err := n.reboot(); err != nil {
			return err
		}
	}
	n.settle()
	return nil
}

// settle makes every volume arrive at once, as they have all arrived when a node
// starts. WMI knows them too.
func (n *Node) settle() {
	for _, v := range n.volumes {
		v.arrives, v.cached = n.Now(), n.Now()
	}
}

// loadTrees loads the file trees from their records.
func (n *Node) loadTrees() error {
	records := map[string]map[string][]byte{}
	for _, k := range n.Store.Keys("file/") {
		fsid, key, ok := strings.Cut(strings.TrimPrefix(k, "file/"), "/")
		if !ok {
			return fmt.Errorf("%s: not the key of a file", k)
		}
		if records[fsid] == nil {
			records[fsid] = map[string][]byte{}
		}
		records[fsid][key], _ = n.Store.Get(k)
	}
	for fsid, r := range records {
		tree, err := filetree.Load(r)
		if err != nil {
			return fmt.Errorf("file system %s: %w", fsid, err)
		}
		n.trees[fsid] = tree
	}
	return nil
}
