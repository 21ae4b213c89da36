// Package node is one Windows node as the hosts see it: its Win32 calls, its
// clock and randomness, and the state that the disk, volume, filesystem and SMB
// services share (locks, work that outlives its caller, the working directories).
//
// The daemon and pkg/simnode create their own nodes. A driver in process uses the
// process-wide native node, which is opened once.
package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	winapi "github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/fmifs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
)

// Node is one Windows node. Its fields are set before first use and do not change
// afterwards. It is safe for concurrent use.
type Node struct {
	API   win32.API
	Clock Clock
	Rand  io.Reader // identifiers of disks and partitions
	Log   *slog.Logger

	// Counts are the calls of API, if they are counted.
	Counts *win32.Counts

	// Steps has what the calls of API did, if that is kept.
	Steps *inflight.Steps

	// Rules are what the services of this process may do on the node.
	rules.Rules

	Locks Locks

	mu      sync.Mutex
	work    map[string]*work[struct{}] // of Join, by key, while it runs
	shared  map[string]any
	removed map[string]func(context.Context, string) // of OnRemoved, by key
}

// Locks are taken in this order: path, share, volume, iSCSI target, disk. A
// holder of the lock of a service or an iSCSI portal takes no other lock. Several disks are
// locked in the order of their keys.
type Locks struct {
	Paths, Shares, Volumes, Disks, Services, Portals, Targets keymutex.Set
}

// Clock is the time source of a node.
type Clock interface {
	Now() time.Time
	// Sleep waits for d. If ctx ends first, it returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// New returns a node over api with the system's clock and randomness and the
// default logger.
func New(api win32.API) *Node {
	return &Node{API: api, Clock: SystemClock{}, Rand: rand.Reader, Log: slog.Default(), Locks: Locks{
		Paths: keymutex.Set{Kind: "path"}, Shares: keymutex.Set{Kind: "share"}, Volumes: keymutex.Set{Kind: "volume"}, Disks: keymutex.Set{Kind: "disk"},
		Services: keymutex.Set{Kind: "service"}, Portals: keymutex.Set{Kind: "portal"}, Targets: keymutex.Set{Kind: "target"},
	}}
}

// Trace makes a node of a server trace the calls of its API in Log, count them in counts, if
// that is not nil, keep those that fail, and mark the requests that change the node. It must be called before the node is used.
func (n *Node) Trace(counts *win32.Counts) {
	n.Counts, n.Steps = counts, new(inflight.Steps)
	n.API = win32.Trace(n.API, n.Log, counts, func(c *win32.Call, err error) {
		if c.Changed(err) {
			n.Steps.Change()
		}
		if win32.Failed(err) {
			n.Steps.Add(inflight.Step{Call: c.Name, Code: c.Code, Object: c.Path, Err: err})
		}
	})
}

// SystemClock is the time of the system.
type SystemClock struct{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shared returns the value that all services of one kind share on a node, such as
// the state of its SMB mappings. The first call for key creates it with make;
// later calls return the same value.
func Shared[T any](n *Node, key string, make func() T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shared == nil {
		n.shared = map[string]any{}
	}
	if _, ok := n.shared[key]; !ok {
		n.shared[key] = make()
	}
	return n.shared[key].(T)
}

// OnRemoved makes [Node.Removed] call f. There is one function for each key: a later
// one replaces it.
func (n *Node) OnRemoved(key string, f func(ctx context.Context, path string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed == nil {
		n.removed = map[string]func(context.Context, string){}
	}
	n.removed[key] = f
}

// Removed reports to the other services of the node that path, or what was in it, was
// removed. What they do about it does not change the result of the removal.
func (n *Node) Removed(ctx context.Context, path string) {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.removed))
	n.mu.Unlock()
	for _, f := range all {
		f(ctx, path)
	}
}

// ErrNoWindows is returned by [Native] and [OpenNative] on other systems than
// Windows.
var ErrNoWindows = fmt.Errorf("the native node needs Windows; elsewhere use the simulated one of pkg/simnode: %w", hosterr.ErrUnimplemented)

// Native returns the node that this process runs on, for drivers in process. The
// first call opens it.
func Native() (*Node, error) {
	native.once.Do(func() { native.node, native.err = openNative(NativeOptions{}) })
	return native.node, native.err
}

// native is no sync.OnceValues: a program that never calls [Native] then links no native calls.
var native struct {
	once sync.Once
	node *Node
	err  error
}

// NativeOptions choose how the native node does what Windows offers several ways
// for.
type NativeOptions = winapi.Options

// Backend is a way in which the native node formats volumes or maps shares.
type Backend = backend.Name

// ParseBackend returns the backend with that name: "wmi" or "native".
func ParseBackend(s string) (Backend, error) { return backend.Parse(s) }

// OpenNative opens the node that this process runs on, with options. The daemon
// uses it, once per process; drivers use [Native].
func OpenNative(o NativeOptions) (*Node, error) { return openNative(o) }

// FormatHelper is the first argument with which the daemon starts itself to format
// a volume. Such a process runs [RunFormatHelper] and nothing else.
const FormatHelper = fmifs.Command

// RunFormatHelper runs the format helper with the arguments that follow
// [FormatHelper], and returns the exit code.
func RunFormatHelper(args []string, stdin io.Reader, stdout io.Writer) int {
	return fmifs.Main(args, stdin, stdout)
}
