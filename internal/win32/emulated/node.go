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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Node is one emulated Windows node. It implements [win32.API] and is safe for
// concurrent use: calls run one after the other, except that other calls run while
// a format, or a call about an SMB server that is down, waits for its configured
// duration.
type Node struct {
	cfg   nodespec.Config
	win   behavior.Windows
	log   *slog.Logger
	now   func() time.Time
	sleep func(time.Duration)
	rand  io.Reader

	mu       sync.Mutex
	tx       tx            // reused: one call at a time
	wait     time.Duration // how long Windows takes for the call that has the lock
	store    *journal.Store
	lock     *flock.Flock
	tempDir  string // removed by Close; "" if the state is kept
	closed   bool
	broken   error                          // why the node returns ERROR_IO_DEVICE
	images   map[string]*os.File            // by disk identity, only attached disks
	written  map[string]map[uint64]struct{} // by disk identity, for images created since Open: chunks that may not be zero
	disks    []*disk                        // visible disks, by number
	waiting  []*disk                        // attached, but not visible yet
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

	changes atomic.Uint64 // number of changes of the stored state
	watch   atomic.Pointer[watch]
}

// Open loads the node whose state is in cfg.StateDir. If the directory is empty, it
// creates the node that cfg describes. Without a directory, the node uses a temporary
// one until Close.
//
// Only one process at a time can have a state directory open.
func Open(cfg nodespec.Config, m Machine) (*Node, error) {
	windows, err := behavior.Of(cfg)
	if err == nil {
		err = validate(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("emulated node: %w", err)
	}
	n := &Node{
		cfg: cfg, win: windows, log: cfg.Log, now: m.Now, sleep: m.Sleep, rand: m.Rand,
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
	var pending []journal.ImageWrite
	if n.store, pending, err = journal.Open(dir); err != nil {
		return fmt.Errorf("state directory %q: %w", dir, err)
	}
	if _, exists := n.store.Get(nodeKey); !exists {
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
		if n.broken == nil && n.tempDir == "" && n.store.Size() > 0 {
			errs = append(errs, n.store.Compact())
		}
		errs = append(errs, n.store.Close())
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

// do runs one call: without others at the same time, and all or nothing.
func (n *Node) do(call func(t *tx) error) error {
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
func (n *Node) alone(call func(t *tx) error) error {
	wait, err := n.locked(call)
	if wait > 0 {
		n.sleep(wait)
	}
	return err
}

// locked is alone without the wait, which it returns.
func (n *Node) locked(call func(t *tx) error) (wait time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.broken != nil {
		return 0, win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
	}
	n.applyISCSIEvents()
	n.addArrived()
	n.addReserved()
	n.endFormats()
	n.wait = 0
	err = n.transact(call)
	return n.wait, err
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
	return win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
}

// WindowsDirectory implements [win32.Installation].
//
// Source: document, GetSystemWindowsDirectoryW.
func (n *Node) WindowsDirectory() (string, error) {
	return `C:\Windows`, n.do(func(*tx) error { return nil })
}

// ComputerName implements [win32.Installation]. The node is in no domain.
//
// Source: document, GetComputerNameExW.
func (n *Node) ComputerName(kind uint32) (name string, err error) {
	err = n.do(func(*tx) error {
		switch kind {
		case win32.ComputerNameNetBIOS, win32.ComputerNamePhysicalNetBIOS:
			name = "SIMULATED-NODE"
		case win32.ComputerNameDnsHostname, win32.ComputerNameDnsFullyQualified, win32.ComputerNamePhysicalDnsHostname, win32.ComputerNamePhysicalDnsFullyQualified:
			name = "simulated-node"
		default:
			return win32.ERROR_INVALID_PARAMETER // Source: inference, of a kind that sysinfoapi.h does not have
		}
		return nil
	})
	return name, err
}

// pageFiles is the value that lists the page files of a running Windows.
const pageFiles = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\ExistingPageFiles`

// RegistryText implements [win32.Installation]. A value is as it was configured.
//
// Source: document, RegQueryValueExW.
func (n *Node) RegistryText(key, name string) (text []string, err error) {
	err = n.do(func(*tx) error {
		text = n.registry(key + `\` + name)
		if text == nil {
			return win32.ERROR_FILE_NOT_FOUND // Source: document, RegQueryValueExW
		}
		return nil
	})
	return text, err
}

func (n *Node) registry(path string) []string {
	for p, text := range n.cfg.Registry {
		if strings.EqualFold(p, path) {
			return slices.Clone(text)
		}
	}
	switch {
	case strings.EqualFold(path, pageFiles):
		return []string{`\??\C:\pagefile.sys`}
	case strings.EqualFold(path, systemPartition):
		return n.systemPartition()
	}
	return nil
}

// systemPartition is the value with the device of the partition from which Windows starts. It is
// that of installed systems; tools of Windows' setup read it.
const systemPartition = `SYSTEM\Setup\SystemPartition`

func (n *Node) systemPartition() []string {
	for _, v := range n.volumes {
		if d := v.extents[0].disk; d.System && v.extents[0].off == d.table.Partitions[0].Offset && v.visible() {
			return []string{v.ntDevice()}
		}
	}
	return nil
}

// ownVolume reports whether v is the volume of Windows or has a page file.
func (n *Node) ownVolume(v *volume) bool {
	for _, root := range n.pathNames(v.guid()) {
		for _, file := range append(n.registry(pageFiles), `\??\C:\Windows`) {
			if len(root) == len(`C:\`) && strings.HasPrefix(strings.ToUpper(strings.TrimPrefix(file, `\??\`)), strings.ToUpper(root)) {
				return true
			}
		}
	}
	return false
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

// cause returns the reason for the node's ERROR_IO_DEVICE, or err if there is
// none.
func (n *Node) cause(err error) error {
	if n.broken != nil {
		return n.broken
	}
	return err
}

// usable returns nil while the node can be changed.
func (n *Node) usable() error {
	if n.closed {
		return errors.New("emulated node: closed")
	}
	return n.broken
}

// Machine is what a node uses of the machine that it runs on. The zero Machine
// uses the system's own.
type Machine struct {
	Now   func() time.Time    // nil means time.Now
	Sleep func(time.Duration) // waits during a format; nil means time.Sleep
	Rand  io.Reader           // source of identifiers; nil means crypto/rand
}
