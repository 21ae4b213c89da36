package emulated

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
)

// load restores the node from the state that was read. pending are image writes
// that the last process may not have made.
func (n *Node) load(pending []journal.ImageWrite) error {
	var attached []diskState
	known := map[string]bool{}
	for _, k := range n.Store.Keys("disk/") {
		var s diskState
		if err := n.Store.Read(k, &s); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if diskKey(s.ID) != k || s.Sector != 512 && s.Sector != 4096 || s.Size > maxDisk || s.SeenSize > s.Size || s.TableSize > s.SeenSize || s.TableSize < minDisk {
			return fmt.Errorf("%s: not a disk: %+v", k, s)
		}
		if err := n.CheckImage(s.ID, s.Size); err != nil {
			return err
		}
		known[s.ID] = true
		if s.State != statusDetached {
			attached = append(attached, s)
		}
	}
	if err := n.RemoveImages(func(id string) bool { return known[id] }); err != nil {
		return err
	}
	if err := errors.Join(n.loadVolumes(), n.loadMounts(), n.loadTrees(), n.Services.Load(), n.loadISCSI(), n.loadSMB()); err != nil {
		return err
	}
	slices.SortFunc(attached, func(a, b diskState) int { return cmp.Compare(a.Number, b.Number) })
	for _, s := range attached {
		if _, err := n.OpenImage(s.ID, s.Size); err != nil {
			return err
		}
	}
	for _, w := range pending {
		if err := n.ApplyWrite(w); err != nil {
			return err
		}
	}
	for _, s := range attached {
		d := &disk{diskState: s, n: n, image: n.Image(s.ID)}
		if s.State == statusWaiting {
			var err error
			if d.table, err = ptable.Read(d.image, s.geometry()); err != nil {
				return err
			}
			n.waiting = append(n.waiting, d)
			continue
		}
		see := func(t *kernel.Tx) error { return n.arrive(t, d, s) }
		if s.State == statusArriving {
			see = func(t *kernel.Tx) error { return n.see(t, d) }
		}
		if err := n.Transact(see); err != nil {
			return n.Cause(err)
		}
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
