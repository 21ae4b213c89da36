package emulated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// nodeKey is stored last when a node is created. A state directory without it is
// incomplete.
const nodeKey = "node"

type nodeRecord struct {
	Format int `json:"format"`
}

// directories exist on the C: of every node.
var directories = []string{
	`\Windows\System32`, `\Program Files`, `\ProgramData`, `\Users`,
	`\var\lib\kubelet\plugins`, `\var\lib\kubelet\pods`,
}

// create creates the node that the configuration describes.
func (n *Node) create() error {
	if err := n.clear(); err != nil {
		return err
	}
	disks := n.cfg.Disks
	if len(disks) == 0 {
		disks = []nodespec.Disk{{Content: nodespec.ContentSystem}, {}, {}}
	}
	var wanted []uint32 // numbers that the configuration gives to disks
	for _, c := range disks {
		if c.Number != nil {
			wanted = append(wanted, *c.Number)
		}
	}
	number := uint32(0)
	for i, c := range disks {
		if c.Number == nil {
			for slices.Contains(wanted, number) {
				number++
			}
			free := number
			c.Number = &free
			number++
		}
		if _, err := n.attach(c, statusAttached); err != nil {
			return fmt.Errorf("disk %d of the configuration: %w", i, err)
		}
	}
	for i, c := range n.cfg.SpannedVolumes {
		if err := n.transact(func(t *tx) error { return n.span(t, c, i) }); err != nil {
			return fmt.Errorf("spanned volume %d of the configuration: %w", i, err)
		}
	}
	n.settle()
	if err := n.makeDirectories(); err != nil {
		return err
	}
	if err := n.makeSMB(); err != nil {
		return err
	}
	if err := errors.Join(n.makeServices(), n.makeISCSI()); err != nil {
		return err
	}
	if err := n.transact(func(t *tx) error { t.Put(nodeKey, nodeRecord{journal.Format}); return nil }); err != nil {
		return n.cause(err)
	}
	return nil
}

// clear removes what a process that was killed while creating the node has left.
func (n *Node) clear() error {
	if err := n.transact(func(t *tx) error { t.deletePrefix(""); return nil }); err != nil {
		return n.cause(err)
	}
	return n.removeImages(func(string) bool { return false })
}

// removeImages removes the images in the state directory that belong to no known
// disk.
func (n *Node) removeImages(known func(id string) bool) error {
	names, err := filepath.Glob(n.imagePath("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "disk-"), ".img")
		if known(id) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// makeDirectories creates the node's directories on C:, if it has a C:.
func (n *Node) makeDirectories() error {
	for _, dir := range append(slices.Clone(directories), n.cfg.Directories...) {
		path := dir
		if strings.HasPrefix(path, `\`) {
			path = `C:` + path
		}
		name, device, err := ntName(path)
		if err != nil || device {
			return fmt.Errorf("directory %q: want an absolute path such as C:\\var\\lib", dir)
		}
		err = n.transact(func(t *tx) error {
			vol, rest, ok := n.volumeForNT(name)
			if !ok || vol.tree == nil {
				if _, wanted := n.letters['C']; !wanted && len(n.cfg.Directories) == 0 {
					return nil // a node without C: has no directories of its own
				}
				return fmt.Errorf("directory %q: the node has no such file system", dir)
			}
			at := vol.tree.Root()
			for _, part := range strings.Split(strings.Trim(rest, `\`), `\`) {
				next := at.Lookup(part)
				if next == nil {
					var err error
					if next, err = vol.tree.Create(t.files(vol), at, part, win32.FILE_ATTRIBUTE_DIRECTORY); err != nil {
						return fmt.Errorf("directory %q: %w", dir, err)
					}
				}
				at = next
			}
			return nil
		})
		if err != nil {
			return n.cause(err)
		}
	}
	return nil
}
