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
	disks map[uint32]kind
}

// kind is what a disk says of itself. Azure's disks have no serial numbers, only page 83h.
type kind struct {
	descriptor win32.DeviceDescriptor
	page83     string
}

// kind asks the disk. One that does not say what it is is known by its number.
func (d *Disk) kind(ctx context.Context) (k kind) {
	k.descriptor, _ = d.Descriptor(ctx)
	ids, _ := d.Property(ctx, win32.StorageDeviceIdProperty, 4096)
	k.page83 = string(ids)
	return k
}

func protectedOn(n *node.Node) *protected {
	return node.Shared(n, "protected", func() *protected { return &protected{disks: map[uint32]kind{}} })
}

// Protect notes whether SetDiskReadOnly has made the disk read-only.
func (d *Disk) Protect(ctx context.Context, number uint32, readOnly bool) {
	is := d.kind(ctx)
	p := protectedOn(d.node)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.disks, number)
	if readOnly {
		p.disks[number] = is
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
	return d.kind(ctx) == was
}
