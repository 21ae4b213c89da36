package winfs

import (
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// maxWaiting is how long one operation waits in total for files that virus scanners
// and exiting processes have open, regardless of the number of files.
const maxWaiting = 2 * time.Second

// inUse reports whether err may be temporary because another process has the file
// open. A file whose deletion waits for its last handle fails with these, too.
func inUse(err error) bool {
	return win32.IsCode(err, win32.ERROR_SHARING_VIOLATION, win32.ERROR_ACCESS_DENIED, win32.ERROR_DELETE_PENDING, win32.ERROR_DIR_NOT_EMPTY)
}

// poll is [node.Poll] limited to the rest of the operation's [maxWaiting].
func (o *op) poll(look func() (done bool, err error)) error {
	pace := node.Pace{Pause: 10 * time.Millisecond, Longest: 250 * time.Millisecond, Left: &o.waiting}
	return node.Poll(o.ctx, o.n.Clock, pace, look)
}

// retry calls f until it succeeds or fails with an error that is not [inUse].
func (o *op) retry(f func() error) error {
	return o.poll(func() (bool, error) {
		err := f()
		return !inUse(err), err
	})
}
