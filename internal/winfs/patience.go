package winfs

import (
	"context"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// patience is how long one operation goes on retrying what virus scanners and
// dying processes get in the way of: two seconds in all, however many
// files it touches.
type patience struct {
	clock node.Clock
	left  time.Duration
	next  time.Duration
}

func newPatience(n *node.Node) patience {
	return patience{clock: n.Clock, left: 2 * time.Second, next: 10 * time.Millisecond}
}

// again waits a little and tells whether to try once more after err.
func (p *patience) again(ctx context.Context, err error) bool {
	// Also what a file answers whose deletion waits for its last handle.
	if !win32.IsCode(err, win32.ERROR_SHARING_VIOLATION, win32.ERROR_ACCESS_DENIED, win32.ERROR_DELETE_PENDING, win32.ERROR_DIR_NOT_EMPTY) {
		return false
	}
	d := min(p.next, p.left)
	if d <= 0 || p.clock.Sleep(ctx, d) != nil {
		return false
	}
	p.left -= d
	p.next = min(2*p.next, 250*time.Millisecond)
	return true
}
