package winfs

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The pauses between attempts.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 250 * time.Millisecond
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
// (docs/develop/contract/calls.md). Devices come back after a moment, as when their driver or their
// path is replaced, so operations of this package have waited for five seconds.
func IsAway(err error) bool {
	return win32.IsCode(err, win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DEVICE_NOT_CONNECTED, win32.ERROR_DEVICE_REMOVED)
}

// whileTemporary calls f until it succeeds, fails with an error that does not pass, or has
// failed for as long as an operation waits, and not again after it has changed something. If the
// context ends, the error wraps that of the context and the last one of f.
func (o *op) whileTemporary(f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f()
		left := o.patience(err)
		if left == nil || *left <= 0 || o.modified {
			return err
		}
		d := min(pause, *left)
		*left -= d
		if ended := o.n.Clock.Sleep(o.ctx, d); ended != nil {
			return fmt.Errorf("%w while retrying after: %w", ended, err)
		}
	}
}

// patience returns how long the operation still waits for the cause of err to pass, or nil if it
// does not pass. A name that another request removes exists until the last handle is closed.
func (o *op) patience(err error) *time.Duration {
	switch {
	case IsAway(err):
		return &o.away
	case errors.Is(err, win32.STATUS_DELETE_PENDING):
		return &o.waiting
	}
	return nil
}

// poll is [node.Poll] limited to the rest of the operation's [maxWaiting].
func (o *op) poll(look func() (done bool, err error)) error {
	pace := node.Pace{Pause: firstPause, Longest: longestPause, Left: &o.waiting}
	return node.Poll(o.ctx, o.n.Clock, pace, look)
}

// retry calls f until it succeeds or fails with an error that is not [inUse].
func (o *op) retry(f func() error) error {
	return o.poll(func() (bool, error) {
		err := f()
		return !inUse(err), err
	})
}
