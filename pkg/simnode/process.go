package simnode

import (
	"cmp"
	"errors"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Process is a program on a node that uses the six services in process. It has the
// services and their state in memory. It ends with its node, or with Kill.
type Process struct {
	services *services.Services
	node     *Node

	mu      sync.Mutex
	killed  bool
	handles map[win32.Handle]bool // that it has opened and not closed
}

// NewProcess starts a process on the node. It shares no state and no locks with other
// processes: as on a real node, a driver in process and a daemon should not use the same
// disk.
func (n *Node) NewProcess(r rules.Rules) (*Process, error) {
	p := &Process{node: n, handles: map[win32.Handle]bool{}}
	host := node.New(win32.Observe(n.emulated, p.hook))
	host.Log = n.log
	host.Trace(win32.NewCounts())
	host.Rand = cmp.Or(n.rand, host.Rand)
	host.Rules = r
	var err error
	if p.services, err = services.Open(host); err != nil {
		return nil, err
	}
	return p, nil
}

// errKilled is the error of the Win32 calls that a process would make after its end.
var errKilled = errors.New("the process was killed")

// hook makes a call of the process, unless it was killed, and notes which handles it has.
func (p *Process) hook(c *win32.Call) error {
	p.mu.Lock()
	killed, open, before := p.killed, p.handles[c.Handle], c.Handle
	p.mu.Unlock()
	closes := c.Name == "CloseHandle"
	switch {
	case killed && closes && !open:
		return nil // Kill has closed it
	case killed && !closes:
		return errKilled
	}
	err := p.node.hook(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
	case closes:
		delete(p.handles, c.Handle)
	case c.Handle != before && p.killed: // meanwhile
		return errors.Join(errKilled, p.node.emulated.CloseHandle(c.Handle))
	case c.Handle != before:
		p.handles[c.Handle] = true
	}
	return err
}

// Kill ends the process as TerminateProcess does: the Win32 calls that it makes are the last
// ones, the requests in progress fail, and Windows closes its handles.
func (p *Process) Kill() {
	p.mu.Lock()
	open := p.handles
	p.killed, p.handles = true, map[win32.Handle]bool{}
	p.mu.Unlock()
	for h := range open {
		_ = p.node.emulated.CloseHandle(h) // fails if the node is closed
	}
}

// Disk returns the disk service of the process.
func (p *Process) Disk() disk.Service { return p.services.Disk }

// Volume returns the volume service of the process.
func (p *Process) Volume() volume.Service { return p.services.Volume }

// Filesystem returns the filesystem service of the process.
func (p *Process) Filesystem() filesystem.Service { return p.services.Filesystem }

// ISCSI returns the iSCSI service of the process.
func (p *Process) ISCSI() iscsi.Service { return p.services.ISCSI }

// System returns the system service of the process.
func (p *Process) System() system.Service { return p.services.System }

// SMB returns the SMB service of the process.
func (p *Process) SMB() smb.Service { return p.services.SMB }
