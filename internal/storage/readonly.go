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
	disks map[uint32]identified
}

// identified is what a disk says it is. Not all have serial numbers or page 83h; then their partition
// tables differ.
type identified struct {
	device win32.DeviceDescriptor
	page83 string
	table  string
	read   bool // the table, which Windows may not do of a disk that is offline
}

func (d *Disk) identified(ctx context.Context) (i identified) {
	i.device, _ = d.Descriptor(ctx) // a disk that does not say what it is is known by its number
	ids, _ := d.Property(ctx, win32.StorageDeviceIdProperty, 4096)
	i.page83 = string(ids)
	if l, err := d.Layout(ctx); err == nil {
		i.table, i.read = Identity(l), true
	}
	return i
}

func protectedOn(n *node.Node) *protected {
	return node.Shared(n, "protected", func() *protected { return &protected{disks: map[uint32]identified{}} })
}

// Protect notes whether SetDiskReadOnly has made the disk read-only.
func (d *Disk) Protect(ctx context.Context, number uint32, readOnly bool) {
	var is identified
	if readOnly {
		is = d.identified(ctx)
	}
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
	is := d.identified(ctx)
	return is.device == was.device && is.page83 == was.page83 && (is.table == was.table || !is.read || !was.read)
}
