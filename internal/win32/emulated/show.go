package emulated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
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
	n.applyISCSIEvents()
	n.addArrived()
	n.endFormats()
	s := nodespec.State{OpenHandles: n.HandlePaths()}
	for _, d := range slices.Concat(n.disks, n.waiting) {
		s.Disks = append(s.Disks, d.info())
	}
	for _, k := range n.Store.Keys(diskKey("")) {
		if id := strings.TrimPrefix(k, diskKey("")); n.Image(id) == nil {
			s.Detached = append(s.Detached, id)
		}
	}
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
	s.ISCSITargets, s.ISCSIPortals = n.showISCSI()
	s.SMBServers, s.SMBMappings = n.showSMB()
	return s, err
}

// info returns the disk in the form of Show.
func (d *disk) info() nodespec.DiskInfo {
	info := nodespec.DiskInfo{
		Number: d.Number, ID: d.ID, Image: d.image.Name(), Size: nodespec.Size(d.Size), SeenSize: nodespec.Size(d.SeenSize), SectorSize: d.Sector,
		Style:   map[uint32]string{win32.PARTITION_STYLE_MBR: "MBR", win32.PARTITION_STYLE_GPT: "GPT", win32.PARTITION_STYLE_RAW: "RAW"}[d.table.Style],
		Waiting: d.State != statusAttached, System: d.System, Online: !d.offline(), ReadOnly: d.Attributes&win32.DISK_ATTRIBUTE_READ_ONLY != 0,
	}
	switch l := d.table; {
	case l.Style == win32.PARTITION_STYLE_GPT:
		info.Identity = l.DiskID.String()
	case l.Style == win32.PARTITION_STYLE_MBR && l.Signature != 0:
		info.Identity = fmt.Sprintf("%#08x", l.Signature)
	}
	for _, p := range d.table.Partitions {
		if !ptable.InUse(p) {
			continue
		}
		part := nodespec.PartitionInfo{Number: p.Number, Type: fmt.Sprintf("%#02x", p.MBRType), Offset: nodespec.Size(p.Offset), Length: nodespec.Size(p.Length)}
		if p.Style == win32.PARTITION_STYLE_GPT {
			part.Type, part.ID, part.Name = p.Type.String(), p.ID.String(), p.Name
		}
		info.Partitions = append(info.Partitions, part)
	}
	return info
}

func (n *Node) nameOf(guid win32.GUID) string { return `\\?\Volume` + guid.String() + `\` }
