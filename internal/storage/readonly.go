package storage

import (
	"context"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// protected are the disks that this process was asked to make read-only, by their numbers, and
// what they are, because another disk may get the number.
type protected struct {
	mu    sync.Mutex
	disks map[uint32]win32.DeviceDescriptor
}

func protectedOn(n *node.Node) *protected {
	return node.Shared(n, "protected", func() *protected { return &protected{disks: map[uint32]win32.DeviceDescriptor{}} })
}

// Protect notes whether SetDiskReadOnly has made the disk read-only.
func (d *Disk) Protect(ctx context.Context, number uint32, readOnly bool) {
	desc, _ := d.Descriptor(ctx) // a disk that does not say what it is is known by its number
	p := protectedOn(d.node)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.disks, number)
	if readOnly {
		p.disks[number] = desc
	}
}

// Protected reports whether SetDiskReadOnly made the disk read-only, as far as this process knows.
func (d *Disk) Protected(ctx context.Context, number uint32) bool {
	p := protectedOn(d.node)
	p.mu.Lock()
	was, noted := p.disks[number]
	p.mu.Unlock()
	if !noted {
		return false
	}
	desc, _ := d.Descriptor(ctx)
	return desc == was
}
