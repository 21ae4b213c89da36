package simnode

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Node is a simulated node. Several goroutines may use it at once.
type Node struct {
	emulated   *emulated.Node
	log        *slog.Logger
	rand       io.Reader // nil means random
	faults     faults
	recordings recordings
	later      later
	own        *Process

	// bare and bareSMB see the node behind the faults.
	bare    diskapi.DiskAPI
	bareSMB smbapi.SMBAPI
}

// String tells nothing of what is in the node, so that a log has no passwords: Show does.
func (n *Node) String() string { return "simulated node" }

// Open makes the node that config describes, or takes up the one that is in
// config.StateDir. Close it at the end; tests have [New].
func Open(config Config) (*Node, error) {
	n := &Node{log: config.Log}
	if n.log == nil {
		n.log = slog.Default()
	}
	n.later.failed = func(err error) { n.log.Error("simulated node: what was to happen later could not", "err", err) }
	if config.Seed != 0 {
		var seed [32]byte
		for i := range 8 {
			seed[i] = byte(config.Seed >> (8 * i))
		}
		n.rand = &lockedReader{r: rand.NewChaCha8(seed)}
	}
	var err error
	if n.emulated, err = emulated.Open(config, emulated.Machine{Rand: n.rand}); err != nil {
		return nil, err
	}
	bare := node.New(n.emulated)
	bare.Log, bare.WorkingDirs = n.log, config.WorkingDirs
	n.bare, n.bareSMB = diskapi.On(bare), smbapi.On(bare)
	if n.own, err = n.NewProcess(config.Rules); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// lockedReader lets several goroutines read.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

// TB is what [New] needs of a test: a *testing.T, a *testing.B, or what another
// framework has in its place.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New makes a node that ends with the test. It is the default node, with what the
// functions change in its description:
//
//	n := simnode.New(t, func(c *simnode.Config) { c.SANPolicy = "offlineShared" })
//
// The test fails if it ends with handles of Windows open, as no call of the
// services leaves any, or if what [Node.After] was to do could not be done.
func New(t TB, change ...func(*Config)) *Node {
	t.Helper()
	var config Config
	for _, f := range change {
		f(&config)
	}
	n, err := Open(config)
	if err != nil {
		t.Fatalf("simnode: %v", err)
	}
	n.later.failed = func(err error) { t.Errorf("simnode: what was to happen later could not: %v", err) }
	t.Cleanup(func() {
		n.later.stop()
		n.ClearFaults()
		if left := n.handlesLeft(); len(left) > 0 {
			t.Errorf("simnode: handles left open: %q", left)
		}
		if err := n.Close(); err != nil {
			t.Errorf("simnode: close: %v", err)
		}
	})
	return n
}

// handleLimit is how long calls may go on that have outlived their callers, as
// those do that cannot be cancelled.
const handleLimit = 10 * time.Second

// handlesLeft are the handles that stay open.
func (n *Node) handlesLeft() []string {
	var left []string
	node.Poll(context.Background(), node.SystemClock{}, node.Pace{Pause: 10 * time.Millisecond, Limit: handleLimit}, func() (bool, error) {
		left = n.emulated.OpenHandles()
		return len(left) == 0, nil
	})
	return left
}

// Close ends the node. Calls that come after it fail.
func (n *Node) Close() error {
	n.later.stop()
	n.ClearFaults() // lets go of calls that a fault delays
	return n.emulated.Close()
}

// hook stands around every Win32 call of the services.
func (n *Node) hook(c *win32.Call) error {
	err := n.faults.hook(c)
	n.recordings.add(c, err)
	return err
}

// Disk is the disk service of the node.
func (n *Node) Disk() disk.Service { return n.own.Disk() }

// Volume is the volume service of the node.
func (n *Node) Volume() volume.Service { return n.own.Volume() }

// Filesystem is the filesystem service of the node.
func (n *Node) Filesystem() filesystem.Service { return n.own.Filesystem() }

// ISCSI is the iSCSI service of the node. It needs the service MSiSCSI, which
// does not run on a node that has just been made.
func (n *Node) ISCSI() iscsi.Service { return n.own.ISCSI() }

// System is the system service of the node.
func (n *Node) System() system.Service { return n.own.System() }

// SMB is the smb service of the node.
func (n *Node) SMB() smb.Service { return n.own.SMB() }

// After lets do happen once d has passed, or not at all if the node is closed
// before:
//
//	n.After(2*time.Second, func() error {
//		_, err := n.AttachDisk(simnode.Disk{Size: 1 << 30})
//		return err
//	})
//
// An error fails the test of a node that [New] made, and is logged for others.
// Close waits for what has begun, so do must not close the node.
func (n *Node) After(d time.Duration, do func() error) { n.later.after(d, do) }

// later is what is to happen to a node later.
type later struct {
	mu      sync.Mutex
	stopped bool
	timers  []*time.Timer
	running sync.WaitGroup
	failed  func(error)
}

func (l *later) after(d time.Duration, do func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.running.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		defer l.running.Done()
		l.mu.Lock()
		l.timers = slices.DeleteFunc(l.timers, func(t *time.Timer) bool { return t == timer })
		stopped := l.stopped
		l.mu.Unlock()
		if stopped {
			return
		}
		if err := do(); err != nil {
			l.failed(err)
		}
	})
	l.timers = append(l.timers, timer)
}

// stop drops what has not begun and waits for what has.
func (l *later) stop() {
	l.mu.Lock()
	l.stopped = true
	for _, t := range l.timers {
		if t.Stop() {
			l.running.Done()
		}
	}
	l.timers = nil
	l.mu.Unlock()
	l.running.Wait()
}
