package verify

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/faults"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// machine is the part of a node that no Win32 call of ours reaches: the disks that are
// attached to it, and files and services that another program made.
type machine interface {
	Attach(conformance.Disk) (number uint32, err error)
	Detach(number uint32) (attach func() (uint32, error), err error)
	Grow(number uint32, size uint64) error
	// Owns reports whether a disk was made by this program.
	Owns(number uint32) (bool, error)
	SetService(conformance.Service) error
	MakeFile(path string) error
	// KeepStopped is called before a service of the machine is started, which has to be
	// stopped again even if this process dies.
	KeepStopped(service string) error
	// KeepMapping is called before a share is mapped, so that the mapping is removed even
	// if this process dies.
	KeepMapping(remote string) error
	// Share returns a share that the node can reach. It may be made for that.
	Share() (share, error)
	// Target returns the login to an iSCSI target that a test may use.
	Target() (login iscsi.ConnectTargetRequest, ok bool)
	// Close takes back everything.
	Close() error
}

// share is an SMB share, with an account that may use it.
type share struct{ remote, user, domain, password string }

// place is a node for one test.
type place struct {
	*testing.T
	o    options
	node *node.Node
	machine
	services *services.Services
	dir      string // an empty directory on the system volume
	guard    *guard
	open     *nodetest.Handles
	faults   faults.Set
}

// newPlace opens a node for t. At its end, everything that it made is gone. The test
// fails if the guard refused a call.
func newPlace(t *testing.T, o options, b node.Backend) *place {
	return newPlaceOn(t, o, b, false)
}

// newPlaceOn is newPlace on a node that takes time for a format, as Windows does, if slowFormat.
func newPlaceOn(t *testing.T, o options, b node.Backend, slowFormat bool) *place {
	t.Helper()
	p := &place{T: t, o: o, dir: o.Dir + `\` + rand.Text()[:6], open: &nodetest.Handles{}}
	p.guard = &guard{volumes: map[string]uint32{}}
	open := func(api win32.API) error {
		p.guard.api = api
		p.node = node.New(win32.Observe(win32.Observe(win32.Observe(api, p.guard.hook), p.open.Hook), p.faults.Hook))
		p.node.Log = slog.New(slog.DiscardHandler)
		p.node.AllowedServices = contractServices
		if o.MachineSettings {
			p.node.AllowedServices = append(policy.DefaultServices(), contractServices...)
		}
		var err error
		p.services, err = services.Open(p.node)
		return err
	}
	var err error
	if o.Simulated {
		err = p.openSimulated(slowFormat, open)
	} else {
		err = p.openWindows(b, open)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.guard.owns = p.Owns
	t.Cleanup(func() {
		for _, r := range p.guard.refusals() {
			t.Errorf("refused, because it is not about a disk of this program: %s", r)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.services.Filesystem.Mkdir(t.Context(), &filesystem.MkdirRequest{Path: p.dir}); err != nil {
		t.Fatal(err)
	}
	return p
}

// fail makes calls fail, as the contract asks for.
func (p *place) fail(f conformance.Fault) (hits func() uint32, err error) {
	active, err := p.faults.Add(f)
	if err != nil {
		return nil, err
	}
	return active.Hits, nil
}

// contractServices are the services that the contract makes.
var contractServices = []string{"contract-base", "contract-left", "contract-right", "contract-top"}

// systemDisk returns the number of the disk that Windows runs from.
func (p *place) systemDisk() uint32 {
	p.Helper()
	id, err := p.node.API.VolumeNameForMountPoint(`C:\`)
	if err != nil {
		p.Fatal(err)
	}
	number, err := p.services.Volume.GetDiskNumberFromVolumeID(p.Context(), &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: id})
	if err != nil {
		p.Fatal(err)
	}
	return number.DiskNumber
}

// attach attaches a disk, or skips the test if the machine cannot have such a disk.
func (p *place) attach(d conformance.Disk) uint32 {
	p.Helper()
	number, err := p.Attach(d)
	if errors.Is(err, errors.ErrUnsupported) {
		p.Skipf("this machine cannot have such a disk: %v", err)
	}
	if err != nil {
		p.Fatal(err)
	}
	return number
}

// simulated is a simulated node as a machine.
type simulated struct {
	*emulated.Node
	mu  sync.Mutex
	own map[uint32]bool
}

func (p *place) openSimulated(slowFormat bool, open func(win32.API) error) error {
	config := nodespec.Config{
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}},
		Log:   slog.New(slog.DiscardHandler),
	}
	// What does not depend on the world here: the program waits until a virtual disk of
	// Windows has arrived so, with its volumes.
	config.SANPolicy, config.Attach = nodespec.SANOnlineAll, nodespec.AttachSeen
	config.World, config.NewVolumes = behavior.In(p.o.World, behavior.Windows{NewDisks: behavior.NewDisksFree}), nodespec.NewVolumesAtOnce
	if slowFormat {
		config.FormatDuration = nodespec.Duration(500 * time.Millisecond)
	}
	n, err := emulated.Open(config, emulated.Machine{})
	if err != nil {
		return err
	}
	p.machine = &simulated{Node: n, own: map[uint32]bool{}}
	return open(n)
}

// Attach implements machine.
func (s *simulated) Attach(d conformance.Disk) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, err := s.Node.Attach(d)
	if err == nil {
		s.own[number] = true
	}
	return number, err
}

// Detach implements machine.
func (s *simulated) Detach(number uint32) (attach func() (uint32, error), err error) {
	state, err := s.Show()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range state.Disks {
		if d.Number == number {
			delete(s.own, number)
			return func() (uint32, error) { return s.Attach(nodespec.Disk{ID: d.ID}) }, s.Node.Detach(number)
		}
	}
	return nil, fmt.Errorf("no disk %d", number)
}

// Owns implements machine.
func (s *simulated) Owns(number uint32) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[number], nil
}

// MakeFile implements machine.
func (s *simulated) MakeFile(path string) error { return s.PutFile(path, false, 0) }

// KeepStopped implements machine. The node ends with its process.
func (s *simulated) KeepStopped(string) error { return nil }

// KeepMapping implements machine.
func (s *simulated) KeepMapping(string) error { return nil }

// Share implements machine: it is the share that every simulated node can reach.
func (s *simulated) Share() (share, error) {
	return share{remote: `\\files.example.com\data`, user: "csi", password: "csi"}, nil
}

// Target implements machine: it is the target that every simulated node can reach.
func (s *simulated) Target() (login iscsi.ConnectTargetRequest, ok bool) {
	return iscsi.ConnectTargetRequest{TargetPortal: &iscsi.TargetPortal{TargetAddress: "192.0.2.10", TargetPort: 3260}, IQN: "iqn.2025-01.com.example:data"}, true
}
