package simnode

import (
	"cmp"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Process is a program on a node that does privileged work there: six services,
// and what they remember. It ends with its node.
type Process struct{ services *services.Services }

// NewProcess begins a process on the node. It knows nothing of what others do or
// have done but what Windows tells it, and takes no turns with them: as on a
// real node, a driver in process and a daemon should not work on one disk.
func (n *Node) NewProcess(rules Rules) (*Process, error) {
	host := node.New(win32.Trace(win32.Observe(n.emulated, n.hook), n.log))
	host.Log = n.log
	host.Rand = cmp.Or(n.rand, host.Rand)
	host.WorkingDirs = rules.WorkingDirs
	host.AllowedServices = rules.AllowedServices
	host.FormatExisting = rules.FormatExisting

	s, err := services.Open(host, services.Options{NoSMBPrivacy: rules.NoSMBPrivacy, AcceptUnverifiedPasswords: rules.AcceptUnverifiedPasswords})
	if err != nil {
		return nil, err
	}
	return &Process{s}, nil
}

// Disk is the disk service of the process.
func (p *Process) Disk() disk.Service { return p.services.Disk }

// Volume is the volume service of the process.
func (p *Process) Volume() volume.Service { return p.services.Volume }

// Filesystem is the filesystem service of the process.
func (p *Process) Filesystem() filesystem.Service { return p.services.Filesystem }

// ISCSI is the iSCSI service of the process.
func (p *Process) ISCSI() iscsi.Service { return p.services.ISCSI }

// System is the system service of the process.
func (p *Process) System() system.Service { return p.services.System }

// SMB is the smb service of the process.
func (p *Process) SMB() smb.Service { return p.services.SMB }
