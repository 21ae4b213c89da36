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

	"github.com/kubernetes-csi/csi-proxy/v2/internal/faults"
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

// Node is a simulated node. Its methods may be called concurrently.
type Node struct {
	emulated   *emulated.Node
	log        *slog.Logger
	rand       io.Reader // nil means random
	faults     faults.Set
	recordings recordings
	later      later
	own        *Process

	// bare and bareSMB use the node without faults.
	bare    diskapi.DiskAPI
	bareSMB smbapi.SMBAPI
}

// String returns a fixed text, so that logs do not contain passwords of the node. [Node.Show] returns its state.
func (n *Node) String() string { return "simulated node" }

// Open makes the node that config describes, or opens the one in config.StateDir. The
// caller must call [Node.Close]. Tests should use [New].
func Open(config Config) (*Node, error) {
	n := &Node{log: config.Log}
	if n.log == nil {
		n.log = slog.Default()
	}
	n.later.failed = func(err error) { n.log.Error("Failed to run a function of Node.After", "err", err) }
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
	n.faults.Alias = n.emulated.DriveOf
	bare := node.New(n.emulated)
	bare.Log, bare.WorkingDirs = n.log, config.WorkingDirs
	n.bare, n.bareSMB = diskapi.On(bare), smbapi.On(bare)
	if n.own, err = n.NewProcess(config.Rules); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// lockedReader is a reader for concurrent use.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

// TB is the part of *testing.T and *testing.B that [New] needs. Test frameworks can
// implement it.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New makes a node that is closed when the test ends. The functions change the
// description of the default node:
//
//	n := simnode.New(t, func(c *simnode.Config) { c.SANPolicy = "offlineShared" })
//
// The test fails if Windows handles are left open at its end, because the services leave
// none open, or if a function of [Node.After] returns an error.
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
	n.later.failed = func(err error) { t.Errorf("simnode: function of Node.After: %v", err) }
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

// handleLimit is how long calls may continue after their callers left, because they cannot
// be canceled.
const handleLimit = 10 * time.Second

// handlesLeft returns the handles that stay open.
func (n *Node) handlesLeft() []string {
	var left []string
	node.Poll(context.Background(), node.SystemClock{}, node.Pace{Pause: 10 * time.Millisecond, Limit: handleLimit}, func() (bool, error) {
		left = n.emulated.OpenHandles()
		return len(left) == 0, nil
	})
	return left
}

// Close closes the node. Later calls fail.
func (n *Node) Close() error {
	n.later.stop()
	n.ClearFaults() // releases calls that a fault delays
	return n.emulated.Close()
}

// hook handles every Win32 call of the services.
func (n *Node) hook(c *win32.Call) error {
	err := n.faults.Hook(c)
	n.recordings.add(c, err)
	return err
}

// Disk returns the disk service of the node.
func (n *Node) Disk() disk.Service { return n.own.Disk() }

// Volume returns the volume service of the node.
func (n *Node) Volume() volume.Service { return n.own.Volume() }

// Filesystem returns the filesystem service of the node.
func (n *Node) Filesystem() filesystem.Service { return n.own.Filesystem() }

// ISCSI returns the iSCSI service of the node. It needs the service MSiSCSI, which does not
// run on a new node.
func (n *Node) ISCSI() iscsi.Service { return n.own.ISCSI() }

// System returns the system service of the node.
func (n *Node) System() system.Service { return n.own.System() }

// SMB returns the SMB service of the node.
func (n *Node) SMB() smb.Service { return n.own.SMB() }

// After calls do after d, unless the node is closed before:
//
//	n.After(2*time.Second, func() error {
//		_, err := n.AttachDisk(simnode.Disk{Size: 1 << 30})
//		return err
//	})
//
// An error of do fails the test of a node from [New], and is logged for other nodes. Close
// waits for running functions, so do must not close the node.
func (n *Node) After(d time.Duration, do func() error) { n.later.after(d, do) }

// later are the pending functions of [Node.After].
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
		l.mu.Unlock()
		if err := do(); err != nil {
			l.failed(err)
		}
	})
	l.timers = append(l.timers, timer)
}

// stop drops functions that have not begun and waits for the others.
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
