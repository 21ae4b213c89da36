package nodetest

import (
	"context"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// Eventually calls check at once, and then every few milliseconds until it returns nil.
// After limit it returns the last error. It is for what other goroutines and processes
// bring about.
func Eventually(limit time.Duration, check func() error) error {
	pace := node.Pace{Pause: 5 * time.Millisecond, Limit: limit}
	return node.Poll(context.Background(), node.SystemClock{}, pace, func() (bool, error) {
		err := check()
		return err == nil, err
	})
}
