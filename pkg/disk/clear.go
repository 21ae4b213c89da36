package disk

import (
	"context"
	"strconv"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/service"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Clear destroys the content of a disk, of a partition, or of the space behind one, for which
// PartitionDisk, FormatVolume or ResizeVolume refuses it. No pipe of a driver serves it: administrators call it with csi-proxyctl disk clear.
// See [diskapi.DiskAPI.ClearDisk] for what it refuses.
func (d *Disk) Clear(ctx context.Context, number uint32, c diskapi.Clearing) (diskapi.Cleared, error) {
	target := strconv.FormatUint(uint64(number), 10)
	lock := service.Exclusive(&d.base.Node.Locks.Disks, target)
	out, err := service.Get(ctx, d.base, []service.Lock{lock}, func(host diskapi.HostAPI) (diskapi.Cleared, error) {
		h, err := service.Optional[interface {
			ClearDisk(number uint32, c diskapi.Clearing) (diskapi.Cleared, error)
		}](host, "ClearDisk")
		if err != nil {
			return diskapi.Cleared{}, err
		}
		return h.ClearDisk(number, c)
	})
	return out, hosterr.Wrap("clear disk", target, err)
}

// Node returns the node that the service works on.
func (d *Disk) Node() *node.Node { return d.base.Node }
