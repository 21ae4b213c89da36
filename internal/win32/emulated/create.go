package emulated

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

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
	disks := n.Config.Disks
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
		if _, err := n.Add(c, disk.Attached); err != nil {
			return fmt.Errorf("disk %d of the configuration: %w", i, err)
		}
	}
	for i, c := range n.Config.SpannedVolumes {
		if err := n.Transact(func(t *kernel.Tx) error { return n.span(t, c, i) }); err != nil {
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
	if err := errors.Join(n.Services.Make(), n.Initiator.Make()); err != nil {
		return err
	}
	return n.FinishMaking()
}

// clear removes what a process that was killed while creating the node has left.
func (n *Node) clear() error {
	if err := n.Transact(func(t *kernel.Tx) error { t.DeletePrefix(""); return nil }); err != nil {
		return n.Cause(err)
	}
	return n.RemoveImages(func(string) bool { return false })
}

// makeDirectories creates the node's directories on C:, if it has a C:.
func (n *Node) makeDirectories() error {
	for _, dir := range append(slices.Clone(directories), n.Config.Directories...) {
		path := dir
		if strings.HasPrefix(path, `\`) {
			path = `C:` + path
		}
		name, device, err := ntName(path)
		if err != nil || device {
			return fmt.Errorf("directory %q: want an absolute path such as C:\\var\\lib", dir)
		}
		err = n.Transact(func(t *kernel.Tx) error {
			vol, rest, ok := n.volumeForNT(name)
			if !ok || vol.tree == nil {
				if _, wanted := n.letters['C']; !wanted && len(n.Config.Directories) == 0 {
					return nil // a node without C: has no directories of its own
				}
				return fmt.Errorf("directory %q: the node has no such file system", dir)
			}
			at := vol.tree.Root()
			for _, part := range strings.Split(strings.Trim(rest, `\`), `\`) {
				next := at.Lookup(part)
				if next == nil {
					var err error
					if next, err = vol.tree.Create(vol.files(t), at, part, win32.FILE_ATTRIBUTE_DIRECTORY); err != nil {
						return fmt.Errorf("directory %q: %w", dir, err)
					}
				}
				at = next
			}
			return nil
		})
		if err != nil {
			return n.Cause(err)
		}
	}
	return nil
}
