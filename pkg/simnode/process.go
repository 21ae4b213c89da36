package simnode

import (
	"cmp"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
	systemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/system/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// Rules are what the services of a process let their callers do. The zero Rules
// are those of a driver in process on a real node.
type Rules struct {
	// WorkingDirs, when not empty, are the only directories below which paths
	// may resolve, as in the daemon. Empty means anywhere.
	WorkingDirs []string `json:"-"`
	// AllowedServices, when not nil, are the only services that may be started
	// or stopped, as in the daemon. nil means all.
	AllowedServices []string `json:"-"`
	// NoSMBPrivacy lets SMB mappings be made without encryption, as the daemon
	// does with -require-privacy=false.
	NoSMBPrivacy bool `json:"-"`
}

// Process is a program on a node that does privileged work there: six services,
// and what they remember. It ends with its node.
type Process struct {
	disk       *disk.Disk
	volume     *volume.Volume
	filesystem *filesystem.Filesystem
	smb        *smb.SMB
	iscsi      *iscsi.ISCSI
	system     *system.System
}

// NewProcess begins a process on the node. It knows nothing of what others do or
// have done but what Windows tells it, and takes no turns with them: as on a
// real node, a driver in process and a daemon should not work on one disk.
func (n *Node) NewProcess(rules Rules) (*Process, error) {
	host := node.New(win32.Trace(win32.Observe(n.emulated, n.hook), n.log))
	host.Log = n.log
	host.Rand = cmp.Or(n.rand, host.Rand)
	host.WorkingDirs = rules.WorkingDirs
	host.AllowedServices = rules.AllowedServices

	p := &Process{}
	var err error
	if p.disk, err = disk.New(diskapi.On(host)); err != nil {
		return nil, err
	}
	if p.volume, err = volume.New(volumeapi.On(host)); err != nil {
		return nil, err
	}
	if p.iscsi, err = iscsi.New(iscsiapi.On(host)); err != nil {
		return nil, err
	}
	if p.system, err = system.New(systemapi.On(host)); err != nil {
		return nil, err
	}
	if p.filesystem, err = filesystem.New(filesystemapi.On(host)); err != nil {
		return nil, err
	}
	if p.smb, err = smb.New(smbapi.On(host).RequirePrivacy(!rules.NoSMBPrivacy), p.filesystem); err != nil {
		return nil, err
	}
	return p, nil
}

// Disk is the disk service of the process.
func (p *Process) Disk() disk.Interface { return p.disk }

// Volume is the volume service of the process.
func (p *Process) Volume() volume.Interface { return p.volume }

// Filesystem is the filesystem service of the process.
func (p *Process) Filesystem() filesystem.Interface { return p.filesystem }

// ISCSI is the iSCSI service of the process.
func (p *Process) ISCSI() iscsi.Interface { return p.iscsi }

// System is the system service of the process.
func (p *Process) System() system.Interface { return p.system }

// SMB is the smb service of the process.
func (p *Process) SMB() smb.Interface { return p.smb }
