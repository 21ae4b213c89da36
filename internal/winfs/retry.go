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

// maxAway is how long one operation waits for a device that is missing.
const maxAway = 5 * time.Second

// IsAway reports whether err means that the device of an open volume is missing
// (docs/contract/calls.md). Devices come back after a moment, as when their driver or their
// path is replaced, so operations of this package have waited for five seconds.
func IsAway(err error) bool {
	return win32.IsCode(err, win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DEVICE_NOT_CONNECTED, win32.ERROR_DEVICE_REMOVED)
}

// whileAway calls f until it succeeds, fails with an error that is not [IsAway], or has
// failed for [maxAway], and not again after it has changed something.
func (o *op) whileAway(f func() error) error {
	err := f()
	if !IsAway(err) || o.modified {
		return err
	}
	left := maxAway
	pace := node.Pace{Pause: 10 * time.Millisecond, Longest: 250 * time.Millisecond, Left: &left}
	first := true
	return node.Poll(o.ctx, o.n.Clock, pace, func() (bool, error) {
		if !first {
			err = f()
		}
		first = false
		return !IsAway(err) || o.modified, err
	})
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
