package emulated

import (
	"cmp"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Show returns the state of the node, without what other packages know: serial
// numbers and identifiers of disks, links to SMB shares, and faults.
func (n *Node) Show() (nodespec.State, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if err := n.Usable(); err != nil {
		return nodespec.State{}, err
	}
	n.Initiator.ApplyDue()
	n.AddArrived()
	n.endFormats()
	s := nodespec.State{OpenHandles: n.HandlePaths()}
	s.Disks, s.Detached = n.Disks.Show()
	err := n.Transact(func(t *kernel.Tx) error {
		for _, v := range n.volumes {
			info := nodespec.VolumeInfo{
				ID: v.name(), Offset: nodespec.Size(v.extents[0].off), Size: nodespec.Size(v.length()), Arrived: v.visible(), MountedAt: n.pathNames(v.guid()),
			}
			for _, e := range v.extents {
				info.Disks = append(info.Disks, e.disk.Number)
			}
			if v.mounted(t) {
				info.FileSystem, info.Entries = string(v.fs.Kind), v.tree.Len()
				info.RootSecurity = rootSecurity(v.tree.Root())
			}
			s.Volumes = append(s.Volumes, info)
		}
		return nil
	})
	for _, m := range n.mounts {
		s.Mounts = append(s.Mounts, nodespec.MountInfo{Host: n.nameOf(win32.GUID(m.Host)), Path: m.Path, Volume: n.nameOf(win32.GUID(m.Volume))})
	}
	slices.SortFunc(s.Mounts, func(a, b nodespec.MountInfo) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path))
	})
	s.Services = n.Services.Show()
	s.ISCSITargets, s.ISCSIPortals = n.Initiator.Show()
	s.SMBServers, s.SMBMappings = n.showSMB()
	return s, err
}

func (n *Node) nameOf(guid win32.GUID) string { return `\\?\Volume` + guid.String() + `\` }
