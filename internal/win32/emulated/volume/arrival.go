package volume

import (
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Arrange updates the volumes after a change of a disk: volumes of new partitions
// arrive; those of removed partitions and of an offline disk are removed. The
// table becomes the disk's on commit.
func (n *Volumes) Arrange(t *kernel.Tx, a disk.Arrangement) error {
	online := a.State.State == disk.Attached && !a.State.Offline()
	keep, seen := map[*Volume]bool{}, map[string]bool{}
	var coming []*Volume
	fresh, letters := uint32(0), map[byte]bool{}
	for _, p := range a.Table.Partitions {
		part := disk.PartitionKey(a.Table, p)
		if part == "" || seen[part] || !online && a.Letters[part] == "" {
			continue
		}
		seen[part] = true // a second partition with the same id is ignored
		extents := []extent{{a.Disk, p.Offset, p.Length}}
		identity := Record{Disk: a.State.ID, Partition: part}.identity()
		if v := n.presentVolume(identity); v != nil {
			keep[v] = true
			v.follow(t, extents, p)
			continue
		}
		record, known := n.known[identity]
		if !known {
			var err error
			letter, wanted := a.Letters[part]
			// The volumes that the configuration describes are not new to the node.
			isData := p.Style == win32.PARTITION_STYLE_MBR || p.Type == win32.PARTITION_BASIC_DATA_GUID
			offline := n.Made() && isData && !wanted && n.Windows.Automount == nodespec.AutomountDisabled
			if record, err = n.newVolume(t, a.State.ID, part, fresh, offline); err != nil {
				return err
			}
			fresh++
			if !wanted {
				n.automount(t, record, a.Table, p, letters)
			} else if err := n.wantedLetter(t, record, letter, letters); err != nil {
				return err
			}
		}
		if online {
			if record.Length != 0 {
				extents[0].Length = min(record.Length, p.Length)
			}
			coming = append(coming, &Volume{Record: record, n: n, Ranges: extents, OnTable: p, OfflineNow: record.Offline})
		}
	}
	// A volume on several disks exists if all of its disks do.
	for _, record := range n.spanned {
		if !slices.ContainsFunc(record.Extents, func(e extentRecord) bool { return e.Disk == a.State.ID }) {
			continue
		}
		extents, complete := n.spannedExtents(record, a, online)
		v := n.presentVolume(record.identity())
		if v != nil && complete {
			keep[v] = true
		} else if v == nil && complete {
			coming = append(coming, &Volume{Record: record, n: n, Ranges: extents})
		}
	}
	leaves := func(v *Volume) bool {
		return !keep[v] && slices.ContainsFunc(v.Ranges, func(e extent) bool { return e.Disk == a.Disk })
	}
	for _, v := range n.List {
		if leaves(v) && v.formatting != nil {
			t.Delete(formatKey(v))
		}
		if v.FSID != "" && leaves(v) {
			t.DeletePrefix(closingPrefix(v.FSID)) // its open files will not be closed
			if a.State.State == disk.Attached && a.State.Offline() {
				n.loseCache(t, v)
			}
		}
	}
	t.OnCommit(func() {
		a.Disk.Table = a.Table
		n.List = slices.DeleteFunc(n.List, func(v *Volume) bool {
			v.Gone = leaves(v)
			if v.Gone && v.Tree != nil {
				v.Tree.Dismount() // closes its open files
			}
			return v.Gone
		})
		for _, v := range coming {
			delay := time.Duration(n.Config.VolumeArrivalDelay)
			if n.Windows.NewVolumes == nodespec.NewVolumesLate {
				n.Chosen("newVolumes", "a volume appears later", v.Name())
				delay = max(delay, kernel.ArrivalDelay)
			}
			v.arrives = n.Now().Add(delay)
			n.List = append(n.List, v)
			n.ChangesIn(delay)
		}
	})
	return nil
}

// follow gives a volume the new extents of its partition. Growth is seen only after
// IOCTL_VOLUME_UPDATE_PROPERTIES, as its document says.
func (v *Volume) follow(t *kernel.Tx, extents []extent, p win32.Partition) {
	record := v.Record
	record.Length = 0
	if was := v.Ranges[0]; extents[0].Off == was.Off && was.Length < extents[0].Length {
		record.Length, extents[0].Length = was.Length, was.Length
	}
	v.setRecord(t, record)
	t.OnCommit(func() { v.Ranges, v.OnTable = extents, p })
}

// grow gives the volume the length that its partition has now.
func (v *Volume) grow(t *kernel.Tx) {
	if v.Length == 0 {
		return
	}
	record := v.Record
	record.Length = 0
	v.setRecord(t, record)
	t.OnCommit(func() { v.Ranges[0].Length = v.OnTable.Length })
}

// setRecord stores a changed record of the volume.
func (v *Volume) setRecord(t *kernel.Tx, record Record) {
	if record.Offline == v.Offline && record.Length == v.Length {
		return
	}
	t.Put(volumeKey(v.guid()), record)
	t.OnCommit(func() {
		v.Record = record
		v.n.known[record.identity()] = record
	})
}

func (n *Volumes) presentVolume(identity string) *Volume {
	for _, v := range n.List {
		if v.identity() == identity {
			return v
		}
	}
	return nil
}

// newVolume creates the mount manager's record of a new volume. more is how many
// others the transaction has created.
func (n *Volumes) newVolume(t *kernel.Tx, disk, part string, more uint32, offline bool) (Record, error) {
	guid, err := n.NewGUID()
	if err != nil {
		n.Log.Error("Failed to generate a volume GUID", "err", err)
		return Record{}, win32.ERROR_GEN_FAILURE // Source: node, it cannot get random numbers
	}
	r := Record{GUID: guidText(guid), Disk: disk, Partition: part, Device: n.lastDevice() + more + 1, Offline: offline}
	t.Put(volumeKey(guid), r)
	t.OnCommit(func() { n.known[r.identity()] = r })
	return r, nil
}

func (n *Volumes) lastDevice() uint32 {
	last := uint32(0)
	for _, r := range n.known {
		last = max(last, r.Device)
	}
	return last
}

// Arriving reports whether a volume of the disk has not arrived yet. It does not wait
// for longer delays, which are the caller's choice.
func (n *Volumes) Arriving(d *disk.Disk) bool {
	return n.Config.VolumeArrivalDelay == 0 && slices.ContainsFunc(n.List, func(v *Volume) bool {
		return !v.visible() && v.Covers(d)
	})
}

// Mounted reports whether a range of a disk belongs to a volume with a file system.
func (n *Volumes) Mounted(t *kernel.Tx, d *disk.Disk, from, to uint64) bool {
	for _, v := range n.List {
		for _, e := range v.Ranges {
			if e.Disk == d && from < e.Off+e.Length && e.Off < to && !v.locked && v.Mounted(t) {
				return true
			}
		}
	}
	return false
}

// Forget forgets the volumes of a disk, with their files.
func (n *Volumes) Forget(t *kernel.Tx, disk string) {
	for identity, r := range n.known {
		if r.Disk == disk {
			t.Delete(volumeKey(win32.GUID(r.GUID)))
			t.OnCommit(func() { delete(n.known, identity) })
			n.forgetLetters(t, win32.GUID(r.GUID))
		}
	}
	for fsid := range n.Trees {
		if strings.HasPrefix(fsid, disk+"-") {
			t.DeletePrefix(filePrefix(fsid))
			t.OnCommit(func() { delete(n.Trees, fsid) })
		}
	}
	t.OnCommit(func() {
		n.spanned = slices.DeleteFunc(n.spanned, func(r Record) bool { return r.Disk == disk })
	})
}
