package emulated

import (
	"fmt"
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
func (n *Node) Arrange(t *kernel.Tx, a disk.Arrangement) error {
	online := a.State.State == disk.Attached && !a.State.Offline()
	keep, seen := map[*volume]bool{}, map[string]bool{}
	var coming []*volume
	fresh, letters := uint32(0), map[byte]bool{}
	for _, p := range a.Table.Partitions {
		part := disk.PartitionKey(a.Table, p)
		if part == "" || seen[part] || !online && a.Letters[part] == "" {
			continue
		}
		seen[part] = true // a second partition with the same id is ignored
		extents := []extent{{a.Disk, p.Offset, p.Length}}
		identity := volumeRecord{Disk: a.State.ID, Partition: part}.identity()
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
				extents[0].length = min(record.Length, p.Length)
			}
			coming = append(coming, &volume{volumeRecord: record, n: n, extents: extents, partition: p, offline: record.Offline})
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
			coming = append(coming, &volume{volumeRecord: record, n: n, extents: extents})
		}
	}
	leaves := func(v *volume) bool {
		return !keep[v] && slices.ContainsFunc(v.extents, func(e extent) bool { return e.disk == a.Disk })
	}
	for _, v := range n.volumes {
		if leaves(v) && v.formatting != nil {
			t.Delete(formatKey(v))
		}
		if v.fsid != "" && leaves(v) {
			t.DeletePrefix(closingPrefix(v.fsid)) // its open files will not be closed
			if a.State.State == disk.Attached && a.State.Offline() {
				n.loseCache(t, v)
			}
		}
	}
	t.OnCommit(func() {
		a.Disk.Table = a.Table
		n.volumes = slices.DeleteFunc(n.volumes, func(v *volume) bool {
			v.gone = leaves(v)
			if v.gone && v.tree != nil {
				v.tree.Dismount() // closes its open files
			}
			return v.gone
		})
		for _, v := range coming {
			delay := time.Duration(n.Config.VolumeArrivalDelay)
			if n.Windows.NewVolumes == nodespec.NewVolumesLate {
				n.Chosen("newVolumes", "a volume appears later", v.name())
				delay = max(delay, kernel.ArrivalDelay)
			}
			v.arrives = n.Now().Add(delay)
			n.volumes = append(n.volumes, v)
			n.ChangesIn(delay)
		}
	})
	return nil
}

// follow gives a volume the new extents of its partition. Growth is seen only after
// IOCTL_VOLUME_UPDATE_PROPERTIES, as its document says.
func (v *volume) follow(t *kernel.Tx, extents []extent, p win32.Partition) {
	record := v.volumeRecord
	record.Length = 0
	if was := v.extents[0]; extents[0].off == was.off && was.length < extents[0].length {
		record.Length, extents[0].length = was.length, was.length
	}
	v.setRecord(t, record)
	t.OnCommit(func() { v.extents, v.partition = extents, p })
}

// grow tells the volume the length of its partition.
func (v *volume) grow(t *kernel.Tx) {
	if v.Length == 0 {
		return
	}
	record := v.volumeRecord
	record.Length = 0
	v.setRecord(t, record)
	t.OnCommit(func() { v.extents[0].length = v.partition.Length })
}

// setRecord stores a changed record of the volume.
func (v *volume) setRecord(t *kernel.Tx, record volumeRecord) {
	if record.Offline == v.Offline && record.Length == v.Length {
		return
	}
	t.Put(volumeKey(v.guid()), record)
	t.OnCommit(func() {
		v.volumeRecord = record
		v.n.known[record.identity()] = record
	})
}

func (n *Node) presentVolume(identity string) *volume {
	for _, v := range n.volumes {
		if v.identity() == identity {
			return v
		}
	}
	return nil
}

// newVolume creates the mount manager's record of a new volume. more is how many
// others the transaction has created.
func (n *Node) newVolume(t *kernel.Tx, disk, part string, more uint32, offline bool) (volumeRecord, error) {
	guid, err := n.NewGUID()
	if err != nil {
		n.Log.Error("Failed to generate a volume GUID", "err", err)
		return volumeRecord{}, win32.ERROR_GEN_FAILURE // Source: node, it cannot get random numbers
	}
	r := volumeRecord{GUID: guidText(guid), Disk: disk, Partition: part, Device: n.lastDevice() + more + 1, Offline: offline}
	t.Put(volumeKey(guid), r)
	t.OnCommit(func() { n.known[r.identity()] = r })
	return r, nil
}

func (n *Node) lastDevice() uint32 {
	last := uint32(0)
	for _, r := range n.known {
		last = max(last, r.Device)
	}
	return last
}

// loadVolumes reads the mount manager's records.
func (n *Node) loadVolumes() error {
	for _, k := range n.Store.Keys("volume/") {
		var r volumeRecord
		if err := n.Store.Read(k, &r); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.known[r.identity()] = r
		if len(r.Extents) > 0 {
			n.spanned = append(n.spanned, r)
		}
	}
	return nil
}

// Arriving reports whether a volume of the disk has not arrived yet. It does not wait
// for longer delays, which are the caller's choice.
func (n *Node) Arriving(d *disk.Disk) bool {
	return n.Config.VolumeArrivalDelay == 0 && slices.ContainsFunc(n.volumes, func(v *volume) bool {
		return !v.visible() && v.Covers(d)
	})
}

// Mounted reports whether a range of a disk belongs to a volume with a file system.
func (n *Node) Mounted(t *kernel.Tx, d *disk.Disk, from, to uint64) bool {
	for _, v := range n.volumes {
		for _, e := range v.extents {
			if e.disk == d && from < e.off+e.length && e.off < to && !v.locked && v.mounted(t) {
				return true
			}
		}
	}
	return false
}

// Forget forgets the volumes of a disk, with their files.
func (n *Node) Forget(t *kernel.Tx, disk string) {
	for identity, r := range n.known {
		if r.Disk == disk {
			t.Delete(volumeKey(win32.GUID(r.GUID)))
			t.OnCommit(func() { delete(n.known, identity) })
			n.forgetLetters(t, win32.GUID(r.GUID))
		}
	}
	for fsid := range n.trees {
		if strings.HasPrefix(fsid, disk+"-") {
			t.DeletePrefix(filePrefix(fsid))
			t.OnCommit(func() { delete(n.trees, fsid) })
		}
	}
	t.OnCommit(func() {
		n.spanned = slices.DeleteFunc(n.spanned, func(r volumeRecord) bool { return r.Disk == disk })
	})
}
