package storage

import (
	"context"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// cacheLimit is how long a caller waits for an update of the cache. It continues after that.
const cacheLimit = 15 * time.Second

// UpdateCache updates the cache of WMI's storage provider, which formats and other programs
// read. It logs an error. Only one update runs at a time; a caller that arrives during one
// shares it.
func UpdateCache(ctx context.Context, n *node.Node) {
	ctx, cancel := context.WithTimeout(ctx, cacheLimit)
	defer cancel()
	if err := n.Join(ctx, "update the storage cache", n.API.UpdateStorageCache); err != nil {
		n.Log.Warn("Failed to update the cache of the storage provider", "err", err)
	}
}
