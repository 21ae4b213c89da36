package disk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Show returns the attached disks, and the identities of the detached ones.
func (n *Disks) Show() (disks []nodespec.DiskInfo, detached []string) {
	for _, d := range slices.Concat(n.List, n.waiting) {
		disks = append(disks, d.info())
	}
	for _, k := range n.Store.Keys(diskKey("")) {
		if id := strings.TrimPrefix(k, diskKey("")); n.Image(id) == nil {
			detached = append(detached, id)
		}
	}
	return disks, detached
}

// info returns the disk in the form of Show.
func (d *Disk) info() nodespec.DiskInfo {
	info := nodespec.DiskInfo{
		Number: d.Number, ID: d.ID, Image: d.Image.Name(), Size: nodespec.Size(d.Size), SeenSize: nodespec.Size(d.SeenSize), SectorSize: d.Sector,
		Style:   map[uint32]string{win32.PARTITION_STYLE_MBR: "MBR", win32.PARTITION_STYLE_GPT: "GPT", win32.PARTITION_STYLE_RAW: "RAW"}[d.Table.Style],
		Waiting: d.State != Attached, System: d.System, Online: !d.Offline(), ReadOnly: d.Attributes&win32.DISK_ATTRIBUTE_READ_ONLY != 0,
	}
	switch l := d.Table; {
	case l.Style == win32.PARTITION_STYLE_GPT:
		info.Identity = l.DiskID.String()
	case l.Style == win32.PARTITION_STYLE_MBR && l.Signature != 0:
		info.Identity = fmt.Sprintf("%#08x", l.Signature)
	}
	for _, p := range d.Table.Partitions {
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
