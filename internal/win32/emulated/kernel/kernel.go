package kernel

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Kernel is the lock, the transaction, the store, the clock and the open handles of a node.
// Each room embeds that of its node.
type Kernel struct {
	Config  nodespec.Config
	Windows behavior.Windows
	Log     *slog.Logger
	Now     func() time.Time
	Sleep   func(time.Duration)
	Rand    io.Reader
	due     func() // what Windows does by itself, which is applied before each call

	Mu       sync.Mutex
	Tx       Tx            // reused: one call at a time
	Wait     time.Duration // how long Windows takes for the call that has the lock
	Store    *journal.Store
	lock     *flock.Flock
	tempDir  string // removed by Close; "" if the state is kept
	closed   bool
	broken   error               // why the node returns ERROR_IO_DEVICE
	images   map[string]*os.File // by disk identity, only attached disks
	handles  map[win32.Handle]*openHandle
	lastOpen win32.Handle

	changes atomic.Uint64 // number of changes of the stored state
	watch   atomic.Pointer[watch]
}

// Machine is what a node uses of the machine that it runs on. The zero Machine
// uses the system's own.
type Machine struct {
	Now   func() time.Time    // nil means time.Now
	Sleep func(time.Duration) // waits during a format; nil means time.Sleep
	Rand  io.Reader           // source of identifiers; nil means crypto/rand
}

// New returns the kernel of a node, whose state is not open yet. due runs before each
// call, with the node's lock.
func New(cfg nodespec.Config, win behavior.Windows, m Machine, due func()) *Kernel {
	n := &Kernel{
		Config: cfg, Windows: win, Log: cfg.Log, Now: m.Now, Sleep: m.Sleep, Rand: m.Rand, due: due,
		images: map[string]*os.File{}, handles: map[win32.Handle]*openHandle{},
	}
	n.Tx.n, n.Tx.record = n, journal.Record{}
	if n.Log == nil {
		n.Log = slog.Default()
	}
	if n.Now == nil {
		n.Now = time.Now
	}
	if n.Sleep == nil {
		n.Sleep = time.Sleep
	}
	if n.Rand == nil {
		n.Rand = rand.Reader
	}
	return n
}

// Open opens the state directory.
func (n *Kernel) Open(dir string) (err error) {
	if dir == "" {
		if n.tempDir, err = os.MkdirTemp("", "emulated-node-"); err != nil {
			return err
		}
		dir = n.tempDir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("state directory %q: lock: %w", dir, err)
	}
	if !held {
		return fmt.Errorf("state directory %q is in use by another process (it holds the lock on %q)", dir, lock.Path())
	}
	n.lock = lock
	if n.Store, err = journal.Open(dir); err != nil {
		return fmt.Errorf("state directory %q: %w", dir, err)
	}
	return nil
}

// nodeKey is stored last when a node is created. A state directory without it is
// incomplete.
const nodeKey = "node"

// Made reports whether the node has been created.
func (n *Kernel) Made() bool {
	_, made := n.Store.Get(nodeKey)
	return made
}

// FinishMaking stores that the node has been created.
func (n *Kernel) FinishMaking() error {
	return n.Cause(n.Transact(func(t *Tx) error { t.Put(nodeKey, true); return nil }))
}

// Close closes the node and all its handles. It leaves the state in its directory and
// removes a temporary directory. Calls after Close return ERROR_IO_DEVICE.
func (n *Kernel) Close() error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	clear(n.handles)
	var errs []error
	if n.Store != nil {
		errs = append(errs, n.Store.Close())
	}
	for _, f := range n.images {
		errs = append(errs, f.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	if n.tempDir != "" {
		errs = append(errs, os.RemoveAll(n.tempDir))
	}
	return errors.Join(errs...)
}

// Do runs one call: without others at the same time, and all or nothing.
func (n *Kernel) Do(call func(t *Tx) error) error {
	w := n.watch.Load()
	if w == nil {
		return n.alone(call)
	}
	w.before()
	changes := n.changes.Load()
	err := n.alone(call)
	if n.changes.Load() != changes {
		w.after()
	}
	return err
}

// alone runs one call, and then waits as long as Windows takes for it.
func (n *Kernel) alone(call func(t *Tx) error) error {
	wait, err := n.locked(call)
	if wait > 0 {
		n.Sleep(wait)
	}
	return err
}

// locked is alone without the wait, which it returns.
func (n *Kernel) locked(call func(t *Tx) error) (wait time.Duration, err error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.closed || n.broken != nil {
		return 0, win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
	}
	n.due()
	n.Wait = 0
	err = n.Transact(call)
	return n.Wait, err
}

// Transact is do for a caller that holds the node's lock.
func (n *Kernel) Transact(call func(t *Tx) error) error {
	t := &n.Tx
	t.reset()
	if err := call(t); err != nil {
		t.rollback()
		return err
	}
	return t.commit()
}

// BreakDown makes every later call fail: memory may be ahead of what is stored. To
// recover, remove the cause and open the state directory again.
func (n *Kernel) BreakDown(what string, err error) error {
	n.broken = fmt.Errorf("%s: %w", what, err)
	n.Log.Error("Failed to store the state of the emulated node; all later calls will fail", "err", n.broken)
	return win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
}

// NewGUID returns a random GUID (version 4).
func (n *Kernel) NewGUID() (win32.GUID, error) {
	var b [16]byte
	if _, err := io.ReadFull(n.Rand, b[:]); err != nil {
		return win32.GUID{}, fmt.Errorf("random identifier: %w", err)
	}
	g := win32.GUIDFromBytes(b[:])
	g.Data3 = g.Data3&0x0fff | 0x4000
	g.Data4[0] = g.Data4[0]&0x3f | 0x80
	return g, nil
}

// Cause returns the reason for the node's ERROR_IO_DEVICE, or err if there is
// none.
func (n *Kernel) Cause(err error) error {
	if n.broken != nil {
		return n.broken
	}
	return err
}

// Lock takes the node's lock, unless the node cannot be changed.
func (n *Kernel) Lock() error {
	n.Mu.Lock()
	err := n.Usable()
	if err != nil {
		n.Mu.Unlock()
	}
	return err
}

// Unlock gives back what Lock has taken.
func (n *Kernel) Unlock() { n.Mu.Unlock() }

// Usable returns nil while the node can be changed.
func (n *Kernel) Usable() error {
	if n.closed {
		return errors.New("emulated node: closed")
	}
	return n.broken
}

// Chosen logs that the node did what one of its options says and Windows does not always
// do, such as refusing a call. The message names the value with which it would not have.
func (n *Kernel) Chosen(key, what, target string) {
	for _, o := range behavior.All() {
		if o.Key == key {
			n.Log.Info("Behave as the option says", "what", what, "target", target,
				"option", key, "value", *o.Of(&n.Windows), "otherwise", o.Values[len(o.Values)-1].Name)
		}
	}
}

// passwordRounds is low, because it only protects passwords of tests.
const passwordRounds = 1000

// HashPassword returns what a server stores of a password.
func HashPassword(password string, salt []byte) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, passwordRounds, sha256.Size)
}
