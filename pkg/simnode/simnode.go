// Package simnode is a simulated Windows node, for tests of CSI drivers where
// there is no Windows.
//
//	n, err := simnode.Open(simnode.Config{})
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer n.Close()
//	d, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "VOL1"})
//	...
//	_, err = n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: d.Number})
//
// # What is simulated
//
// The services of a node are those that run on Windows, and so is the code
// below them, down to single Win32 calls. Only those calls are simulated: by a
// node made of state, that refuses what Windows refuses with the numbers that
// Windows uses. The content of disks is in image files, which tools such as
// sgdisk read; files and directories are remembered by name and kind, without
// content.
//
// # What else a node does
//
// Disks can be attached, detached and grown, services and iSCSI targets made and
// changed, calls can be made to fail ([Node.Fail]), and the node can be rebooted.
package simnode

import (
	"cmp"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
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

// Node is a simulated node. Several goroutines may use it at once.
type Node struct {
	emulated *emulated.Node
	faults   faults

	// bare and bareSMB see the node behind the faults.
	bare    diskapi.DiskAPI
	bareSMB smbapi.SMBAPI

	disk       *disk.Disk
	volume     *volume.Volume
	filesystem *filesystem.Filesystem
	smb        *smb.SMB
	iscsi      *iscsi.ISCSI
	system     *system.System
}

// Open makes the node that config describes, or takes up the one that is in
// config.StateDir. Close it at the end.
func Open(config Config) (*Node, error) {
	c, err := translate[emulated.Config](config)
	if err != nil {
		return nil, err
	}
	c.Log = config.Log
	n := &Node{}
	if n.emulated, err = emulated.Open(c); err != nil {
		return nil, err
	}
	if err := n.serve(config); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// serve makes the services of the node.
func (n *Node) serve(config Config) (err error) {
	host := node.New(win32.Observe(n.emulated, n.faults.hook))
	host.Log = cmp.Or(config.Log, host.Log)
	host.WorkingDirs = config.WorkingDirs
	host.AllowedServices = config.AllowedServices
	bare := node.New(n.emulated)
	bare.Log, bare.WorkingDirs = host.Log, config.WorkingDirs
	n.bare, n.bareSMB = diskapi.On(bare), smbapi.On(bare)
	if n.disk, err = disk.New(diskapi.On(host)); err != nil {
		return err
	}
	if n.volume, err = volume.New(volumeapi.On(host)); err != nil {
		return err
	}
	if n.iscsi, err = iscsi.New(iscsiapi.On(host)); err != nil {
		return err
	}
	if n.system, err = system.New(systemapi.On(host)); err != nil {
		return err
	}
	if n.filesystem, err = filesystem.New(filesystemapi.On(host)); err != nil {
		return err
	}
	n.smb, err = smb.New(smbapi.On(host).RequirePrivacy(!config.NoSMBPrivacy), n.filesystem)
	return err
}

// Close ends the node. Calls that come after it fail.
func (n *Node) Close() error {
	n.ClearFaults() // lets go of calls that a fault delays
	return n.emulated.Close()
}

// Disk is the disk service of the node.
func (n *Node) Disk() disk.Interface { return n.disk }

// Volume is the volume service of the node.
func (n *Node) Volume() volume.Interface { return n.volume }

// Filesystem is the filesystem service of the node.
func (n *Node) Filesystem() filesystem.Interface { return n.filesystem }

// ISCSI is the iSCSI service of the node. It needs the service MSiSCSI, which
// does not run on a node that has just been made.
func (n *Node) ISCSI() iscsi.Interface { return n.iscsi }

// System is the system service of the node.
func (n *Node) System() system.Interface { return n.system }

// SMB is the smb service of the node.
func (n *Node) SMB() smb.Interface { return n.smb }

// Fail makes a Win32 call fail, or take longer. Of several faults that a call
// meets, the first that is not used up happens.
func (n *Node) Fail(f Fault) error { return n.faults.add(f) }

// ClearFaults ends all faults, and the waiting of calls that they delay.
func (n *Node) ClearFaults() { n.faults.clear() }
