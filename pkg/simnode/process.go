package simnode

import (
	"cmp"
	"errors"
	"sync/atomic"

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
	killed   atomic.Bool
}

// NewProcess starts a process on the node. It shares no state and no locks with other
// processes: as on a real node, a driver in process and a daemon should not use the same
// disk.
func (n *Node) NewProcess(r rules.Rules) (*Process, error) {
	p := &Process{}
	host := node.New(win32.Observe(n.emulated, func(c *win32.Call) error {
		if p.killed.Load() && c.Name != "CloseHandle" { // Windows closes the handles of a process
			return errKilled
		}
		return n.hook(c)
	}))
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

// Kill ends the process as TerminateProcess does: the Win32 calls that it makes are the last
// ones, and the requests in progress fail.
func (p *Process) Kill() { p.killed.Store(true) }

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
