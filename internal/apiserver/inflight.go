package apiserver

import (
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// inFlight counts running calls. Once closed it lets no new call start.
type inFlight struct {
	mu     sync.Mutex
	n      int
	closed bool
	none   chan struct{} // closed once closed is true and n is 0
}

func newInFlight() *inFlight { return &inFlight{none: make(chan struct{})} }

// start counts a call and returns the function that ends it; ok is false if the
// call must not start.
func (f *inFlight) start() (end func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false
	}
	f.n++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n--
		if f.closed && f.n == 0 {
			close(f.none)
		}
	}, true
}

// close lets no new call start. It returns the number of running calls and a
// channel that is closed when they have finished. It must be called only once.
func (f *inFlight) close() (running int, none <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.n == 0 {
		close(f.none)
	}
	return f.n, f.none
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// stopping is the error of a call that arrives while the server is stopping.
// gRPC accepts calls until it has notified every client, and a client that is
// halfway through its handshake can delay that for [handshakeLimit].
func stopping(method string) error {
	return hosterr.WithHint("call", method, stoppingError{}, "call again when csi-proxy is running again")
}

// stoppingError has its own type because it is logged as a warning: the node
// has not failed.
type stoppingError struct{}

func (stoppingError) Error() string { return "csi-proxy is stopping, and nothing was done" }
func (stoppingError) Unwrap() error { return hosterr.ErrUnavailable }
