// Package nodetest is a node for tests of hosts and services: an emulated node, with
// a clock that advances only when something sleeps and a hook around its Win32 calls.
package nodetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
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

// Fail makes the Win32 calls of a name, of a control code, or of both fail, until [Node.Observe]. A
// nil error is success without an effect.
func (n *Node) Fail(name string, code uint32, err error) {
	n.Observe(func(c *win32.Call) error {
		if (name == "" || c.Name == name) && (code == 0 || c.Code == code) {
			return err
		}
		return c.Do()
	})
}

// Unchanged fails the test if do changes a disk, a volume or a mount point.
func (n *Node) Unchanged(t testing.TB, do func()) {
	t.Helper()
	n.Observe(func(c *win32.Call) error {
		if Changes(c) {
			t.Errorf("unexpected change: %v", c)
		}
		return c.Do()
	})
	do()
	n.Observe(nil)
}

// Changes reports whether a call changes a disk, a volume or a mount point.
func Changes(c *win32.Call) bool {
	return slices.Contains([]string{"WriteAt", "Format", "SetMountPoint", "DeleteMountPoint", "SetInformation"}, c.Name) ||
		c.Name == "DeviceIoControl" && slices.Contains([]uint32{win32.IOCTL_DISK_CREATE_DISK, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX,
			win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.IOCTL_DISK_GROW_PARTITION, win32.FSCTL_EXTEND_VOLUME, win32.FSCTL_SET_REPARSE_POINT}, c.Code)
}

// Raw runs a function on an open disk, without the services and the hosts.
func (n *Node) Raw(t testing.TB, disk uint32, do func(h win32.Handle)) {
	t.Helper()
	h, err := n.Windows.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, disk), win32.GENERIC_READ|win32.GENERIC_WRITE, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Windows.CloseHandle(h)
	do(h)
}

// Control makes a control code of a disk, without the services and the hosts.
func (n *Node) Control(t testing.TB, disk, code uint32, in, out []byte) (got int) {
	t.Helper()
	n.Raw(t, disk, func(h win32.Handle) {
		var err error
		if got, err = n.Windows.DeviceIoControl(h, code, in, out); err != nil {
			t.Fatal(err)
		}
	})
	return got
}

// Layout returns the partition table of a disk.
func (n *Node) Layout(t testing.TB, disk uint32) win32.Layout {
	t.Helper()
	out := make([]byte, 32<<10)
	l, err := win32.DecodeLayout(out[:n.Control(t, disk, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, out)])
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// BringOnline makes a disk online and writable, as a driver has to. The service would also bring
// its volumes online.
func (n *Node) BringOnline(t testing.TB, disk uint32) {
	t.Helper()
	in := win32.SetDiskAttributes{Persist: true, Mask: win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY}.Encode()
	n.Control(t, disk, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil)
}

// Write writes text to a disk, and makes Windows read its table again.
func (n *Node) Write(t testing.TB, disk uint32, at int64, text string) {
	t.Helper()
	n.Raw(t, disk, func(h win32.Handle) {
		sector := at / 4096 * 4096
		b := make([]byte, (at-sector+int64(len(text))+4095)/4096*4096)
		if _, err := n.Windows.ReadAt(h, b, sector); err != nil {
			t.Fatal(err)
		}
		copy(b[at-sector:], text)
		if _, err := n.Windows.WriteAt(h, b, sector); err != nil {
			t.Fatal(err)
		}
	})
	n.Control(t, disk, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, nil)
}

// WantKind stops the test unless err has that kind, and fails it unless its message contains the
// texts.
func WantKind(t testing.TB, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || hosterr.KindOf(err) != kind {
		t.Fatalf("error %v of kind %v, want kind %v", err, hosterr.KindOf(err), kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}
