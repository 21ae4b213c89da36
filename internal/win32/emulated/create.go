package emulated

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

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
		if err := n.Transact(func(t *kernel.Tx) error { return n.Span(t, c, i) }); err != nil {
			return fmt.Errorf("spanned volume %d of the configuration: %w", i, err)
		}
	}
	n.Settle()
	if err := n.MakeDirectories(); err != nil {
		return err
	}
	if err := n.Network.Make(); err != nil {
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
