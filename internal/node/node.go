// Package node is one Windows node as the hosts see it: the Win32 calls they
// may make, the clock and randomness they use, and the state that must be one
// per node because the disk, volume, filesystem and SMB services share it
// (locks, work that outlives its caller, the working directories).
//
// The daemon and pkg/simnode make nodes of their own. A driver in process gets
// the process-wide native node, opened once.
package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	winapi "github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/fmifs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Node is one Windows node. Its fields are set before first use and not changed
// after. It may be used by several goroutines at once.
type Node struct {
	API   win32.API
	Clock Clock
	Rand  io.Reader // identifiers of disks and partitions
	Log   *slog.Logger

	// WorkingDirs, when not empty, are the only directories below which paths
	// may resolve; winfs checks them on open handles. Empty means anywhere, as
	// for a driver in process.
	WorkingDirs []string

	// AllowedServices, when not nil, are the only services that may be started
	// or stopped, those included that have to stop because another does. nil
	// means all, as for a driver in process.
	AllowedServices []string

	Locks Locks

	mu     sync.Mutex
	work   map[string]*work // by key, while it runs
	shared map[string]any
}

// work is what [Node.Do] runs.
type work struct {
	done chan struct{} // closed when err says how it ended
	err  error
}

// Locks are taken in this order: path, share, volume, disk. Who holds one of a
// service, an iSCSI portal or target takes no other.
type Locks struct{ Paths, Shares, Volumes, Disks, Services, Portals, Targets keymutex.Set }

// Clock is time, as far as hosts need it.
type Clock interface {
	Now() time.Time
	// Sleep waits d or until ctx ends, and then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// New makes a node of api with the system's clock, randomness and the default
// logger.
func New(api win32.API) *Node {
	return &Node{API: api, Clock: systemClock{}, Rand: rand.Reader, Log: slog.Default()}
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shared is what several services of one kind must have in common on one node,
// such as what is known of its SMB mappings: made at the first call for key, the
// same at every other.
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

// PanicError is a panic that a worker goroutine survived.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Do runs f on a goroutine of its own, because a Win32 call cannot be cancelled,
// and waits for it or for ctx. An f that outlives its caller goes on; whoever asks
// again for the same key joins it and gets its result. A panic in f becomes a
// [PanicError].
//
// f is not begun for a ctx that has ended. Who begins it makes it part of his turn
// ([WithTurn]) before anybody can notice that ctx ends: so it is not singleflight's
// DoChan, which begins later and does not say for whom.
func (n *Node) Do(ctx context.Context, key string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := n.begin(ctx, key, f)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin is the work of that key, begun if nobody is at it.
func (n *Node) begin(ctx context.Context, key string, f func() error) *work {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.work[key]; ok {
		return w
	}
	if n.work == nil {
		n.work = map[string]*work{}
	}
	w := &work{done: make(chan struct{})}
	n.work[key] = w
	finished := use(ctx)
	go func() {
		defer finished()
		defer func() {
			if v := recover(); v != nil {
				w.err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			n.mu.Lock()
			delete(n.work, key) // first: who has the result may begin anew
			n.mu.Unlock()
			close(w.done)
		}()
		w.err = f()
	}()
	return w
}

// ErrNoWindows is answered by the native node where there is no Windows.
var ErrNoWindows = fmt.Errorf("the native node needs Windows; elsewhere use the simulated one of pkg/simnode: %w", hosterr.ErrUnimplemented)

// Native is the node that this process runs on, as a driver in process gets it,
// opened at the first call.
func Native() (*Node, error) { return native() }

var native = sync.OnceValues(func() (*Node, error) { return openNative(NativeOptions{}) })

// NativeOptions say how the native node does what can be done in several ways.
type NativeOptions = winapi.Options

// Backend is a way in which the native node formats, or maps shares.
type Backend = backend.Name

// ParseBackend is the backend of that name: "wmi" or "native".
func ParseBackend(s string) (Backend, error) { return backend.Parse(s) }

// OpenNative is the node that this process runs on, for a program that is more
// than a driver: the daemon. A process opens it once.
func OpenNative(o NativeOptions) (*Node, error) { return openNative(o) }

// FormatHelper is the first argument with which the daemon starts itself to format
// a volume. The process is then [RunFormatHelper] and nothing else.
const FormatHelper = fmifs.Command

// RunFormatHelper is the format helper: args are those behind [FormatHelper]. It
// returns the exit code.
func RunFormatHelper(args []string, stdin io.Reader, stdout io.Writer) int {
	return fmifs.Main(args, stdin, stdout)
}
