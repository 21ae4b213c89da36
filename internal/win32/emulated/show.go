package emulated

import (
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Show returns the state of the node, without what other packages know: serial
// numbers and identifiers of disks, links to SMB shares, and faults.
func (n *Node) Show() (nodespec.State, error) {
	if err := n.Lock(); err != nil {
		return nodespec.State{}, err
	}
	defer n.Unlock()
	n.Initiator.ApplyDue()
	n.AddArrived()
	n.EndDue()
	s := nodespec.State{OpenHandles: n.HandlePaths()}
	s.Disks, s.Detached = n.Disks.Show()
	var err error
	s.Volumes, s.Mounts, err = n.Volumes.Show()
	s.Services = n.Services.Show()
	s.ISCSITargets, s.ISCSIPortals = n.Initiator.Show()
	s.SMBServers, s.SMBMappings = n.Network.Show()
	return s, err
}
