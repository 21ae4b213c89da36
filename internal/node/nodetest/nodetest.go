// Package nodetest is a node for tests of hosts and services: an emulated node, with
// a clock that advances only when something sleeps and a hook around its Win32 calls.
package nodetest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Clock is a clock that advances only by calls of Sleep and Advance, and then at
// once. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now implements [node.Clock].
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep implements [node.Clock].
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}

// Advance lets d pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Node is a node over an emulated one.
type Node struct {
	*node.Node
	Windows *emulated.Node
	Clock   *Clock // of both
	// During, unless it is nil, is called when the emulated node takes its time, such as in
	// the middle of a format.
	During func()

	seen func(*win32.Call)
	hook atomic.Pointer[func(*win32.Call) error]
}

// New opens a node, which logs to cfg.Log or not at all. seen, unless it is nil, is
// called with every Win32 call before it is made; calls may come from several
// goroutines at once. The test fails if handles are open when it ends.
func New(t testing.TB, cfg nodespec.Config, seen func(*win32.Call)) *Node {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{Clock: NewClock(time.Unix(1e9, 0)), seen: seen}
	n.Windows = Open(t, cfg, emulated.Machine{Now: n.Clock.Now, Sleep: func(d time.Duration) {
		n.Clock.Advance(d)
		if n.During != nil {
			n.During()
		}
	}})
	n.Node = node.New(win32.Observe(n.Windows, n.call))
	n.Node.Clock, n.Node.Log = n.Clock, cfg.Log
	return n
}

// Open opens an emulated node until the test ends, which fails if handles are open
// then.
func Open(t testing.TB, cfg nodespec.Config, m emulated.Machine) *emulated.Node {
	t.Helper()
	n, err := emulated.Open(cfg, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if open := n.OpenHandles(); len(open) > 0 {
			t.Errorf("handles left open: %q", open)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *Node) call(c *win32.Call) error {
	if n.seen != nil {
		n.seen(c)
	}
	if hook := n.hook.Load(); hook != nil {
		return (*hook)(c)
	}
	return c.Do()
}

// Observe puts hook around every call, in place of the last one; nil removes it.
func (n *Node) Observe(hook func(*win32.Call) error) {
	if hook == nil {
		n.hook.Store(nil)
		return
	}
	n.hook.Store(&hook)
}
