package emulated

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Node is one emulated Windows node. It implements [win32.API] and is safe for
// concurrent use: calls run one after the other, except that other calls run while
// a format waits for its configured duration.
type Node struct {
	cfg   nodespec.Config
	log   *slog.Logger
	now   func() time.Time
	sleep func(time.Duration)
	rand  io.Reader

	mu       sync.Mutex
	tx       tx // reused: one call at a time
	store    *store
	lock     *flock.Flock
	tempDir  string // removed by Close; "" if the state is kept
	closed   bool
	broken   error                          // why the node returns ERROR_IO_DEVICE
	images   map[string]*os.File            // by disk identity, only attached disks
	written  map[string]map[uint64]struct{} // by disk identity, for images created since Open: chunks that may not be zero
	disks    []*disk                        // visible disks, by number
	waiting  []*disk                        // attached, but invisible until Reenumerate
	volumes  []*volume                      // present volumes, in order of arrival
	known    map[string]volumeRecord        // every volume ever seen, by identity
	spanned  []volumeRecord                 // those that lie on several disks
	letters  map[byte]win32.GUID
	mounts   map[string]mountRecord
	trees    map[string]*filetree.Tree // by file system
	handles  map[win32.Handle]*openHandle
	services map[string]*service // by key
	smb      smbState
	iscsi    iscsiState
	lastOpen win32.Handle
	formats  uint64 // number of formats with a duration so far
}

// openHandle is an entry of the handle table.
type openHandle struct {
	object object
	path   string // the path that was opened
}

// object is the open object of a handle: a disk, a volume or a file. Its methods
// run inside the transaction of the call. What an object does not support fails
// with Windows' error.
type object interface {
	control(t *tx, code uint32, in, out []byte) (int, error)
	readAt(t *tx, p []byte, off int64) (int, error)
	writeAt(t *tx, p []byte, off int64) (int, error)
	flush(t *tx) error
	// close is called once, when the handle is closed.
	close(t *tx) error
}

// volumeUser is an object that keeps a volume in use: an open file, or the volume's
// own device opened for data.
type volumeUser interface {
	usedVolume() *volume
}

// Open loads the node whose state is in cfg.StateDir. If the directory is empty, it
// creates the node that cfg describes. Without a directory, the node uses a temporary
// one until Close.
//
// Only one process at a time can have a state directory open.
func Open(cfg nodespec.Config, m Machine) (*Node, error) {
	if err := validate(cfg); err != nil {
		return nil, fmt.Errorf("emulated node: %w", err)
	}
	n := &Node{
		cfg: cfg, log: cfg.Log, now: m.Now, sleep: m.Sleep, rand: m.Rand,
		images: map[string]*os.File{}, written: map[string]map[uint64]struct{}{}, known: map[string]volumeRecord{}, letters: map[byte]win32.GUID{},
		mounts: map[string]mountRecord{}, trees: map[string]*filetree.Tree{}, handles: map[win32.Handle]*openHandle{},
		services: map[string]*service{}, smb: newSMBState(), iscsi: newISCSIState(),
	}
	n.tx.n = n
	if n.log == nil {
		n.log = slog.Default()
	}
	if n.now == nil {
		n.now = time.Now
	}
	if n.sleep == nil {
		n.sleep = time.Sleep
	}
	if n.rand == nil {
		n.rand = rand.Reader
	}
	if err := n.open(cfg.StateDir); err != nil {
		return nil, errors.Join(fmt.Errorf("emulated node: %w", err), n.Close())
	}
	return n, nil
}

func (n *Node) open(dir string) (err error) {
	if dir == "" {
		if n.tempDir, err = n.makeTempDir(); err != nil {
			return err
		}
		dir = n.tempDir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockName))
	held, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("state directory %q: lock: %w", dir, err)
	}
	if !held {
		return fmt.Errorf("state directory %q is in use by another process (it holds the lock on %q)", dir, lock.Path())
	}
	n.lock = lock
	var pending []imageWrite
	if n.store, pending, err = openStore(dir); err != nil {
		return fmt.Errorf("state directory %q: %w", dir, err)
	}
	if _, exists := n.store.data[nodeKey]; !exists {
		return n.create()
	}
	return n.load(pending)
}

// Close closes the node and all its handles. It leaves the state in its directory and
// removes a temporary directory. Calls after Close return ERROR_IO_DEVICE.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	clear(n.handles)
	var errs []error
	if n.store != nil {
		if n.broken == nil && n.tempDir == "" && n.store.size > 0 {
			errs = append(errs, n.store.compact())
		}
		errs = append(errs, n.store.close())
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

// OpenHandles returns the paths of the open handles, sorted. A test that ends with
// open handles has found a leak.
func (n *Node) OpenHandles() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.openHandles()
}

func (n *Node) openHandles() []string {
	paths := make([]string, 0, len(n.handles))
	for _, h := range n.handles {
		paths = append(paths, h.path)
	}
	slices.Sort(paths)
	return paths
}

// do runs one call: without others at the same time, and all or nothing.
func (n *Node) do(call func(t *tx) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.broken != nil {
		return win32.ERROR_IO_DEVICE
	}
	n.applyISCSIEvents()
	return n.transact(call)
}

// transact is do for a caller that holds the node's lock.
func (n *Node) transact(call func(t *tx) error) error {
	t := &n.tx
	t.reset()
	if err := call(t); err != nil {
		t.rollback()
		return err
	}
	return t.commit()
}

// breakDown makes every later call fail: memory may be ahead of what is stored. To
// recover, remove the cause and open the state directory again.
func (n *Node) breakDown(what string, err error) error {
	n.broken = fmt.Errorf("%s: %w", what, err)
	n.log.Error("Failed to store the state of the emulated node; all later calls will fail", "err", n.broken)
	return win32.ERROR_IO_DEVICE
}

// insert opens a handle for o. path is for display ([Node.OpenHandles]).
func (n *Node) insert(o object, path string) win32.Handle {
	// Windows' handles are multiples of 4. Numbers are not reused, so that any use
	// after close is noticed.
	n.lastOpen += 4
	n.handles[n.lastOpen] = &openHandle{o, path}
	return n.lastOpen
}

// lookup returns the open object of h.
func (n *Node) lookup(h win32.Handle) (object, bool) {
	e := n.handles[h]
	if e == nil {
		return nil, false
	}
	return e.object, true
}

// CloseHandle implements [win32.Handles].
func (n *Node) CloseHandle(h win32.Handle) error {
	return n.do(func(t *tx) error {
		e := n.handles[h]
		if e == nil {
			return win32.ERROR_INVALID_HANDLE
		}
		// As in Windows, the handle is closed even if close fails.
		delete(n.handles, h)
		return e.object.close(t)
	})
}

// DeviceIoControl implements [win32.Handles].
func (n *Node) DeviceIoControl(h win32.Handle, code uint32, in, out []byte) (size int, err error) {
	err = n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.control(t, code, in, out)
		return err
	})
	return size, err
}

// ReadAt implements [win32.Handles].
func (n *Node) ReadAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.readAt(t, p, off)
		return err
	})
	return size, err
}

// WriteAt implements [win32.Handles].
func (n *Node) WriteAt(h win32.Handle, p []byte, off int64) (size int, err error) {
	err = n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		size, err = o.writeAt(t, p, off)
		return err
	})
	return size, err
}

// FlushFileBuffers implements [win32.Handles].
func (n *Node) FlushFileBuffers(h win32.Handle) error {
	return n.do(func(t *tx) error {
		o, ok := n.lookup(h)
		if !ok {
			return win32.ERROR_INVALID_HANDLE
		}
		return o.flush(t)
	})
}

// WindowsDirectory implements [win32.Installation].
func (n *Node) WindowsDirectory() (string, error) {
	return `C:\Windows`, n.do(func(*tx) error { return nil })
}

// newGUID returns a random GUID (version 4).
func (n *Node) newGUID() (win32.GUID, error) {
	var b [16]byte
	if _, err := io.ReadFull(n.rand, b[:]); err != nil {
		return win32.GUID{}, fmt.Errorf("random identifier: %w", err)
	}
	g := win32.GUIDFromBytes(b[:])
	g.Data3 = g.Data3&0x0fff | 0x4000
	g.Data4[0] = g.Data4[0]&0x3f | 0x80
	return g, nil
}
