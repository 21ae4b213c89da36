package emulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// volumeRecord is the mount manager's record of a volume, under "volume/<guid>".
// It exists even while the volume does not.
type volumeRecord struct {
	GUID      guidText `json:"guid"`
	Disk      string   `json:"disk"`      // identity of the first disk
	Partition string   `json:"partition"` // the partition on it, see partitionKey
	Device    uint32   `json:"device"`    // N of \Device\HarddiskVolumeN
	// Extents of a volume that spans disks, by disk identity.
	Extents []extentRecord `json:"extents,omitempty"`
}

type extentRecord struct {
	Disk   string `json:"disk"`
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
}

// guidText is a GUID that is stored as text.
type guidText win32.GUID

func (g guidText) MarshalText() ([]byte, error) { return []byte(win32.GUID(g).String()), nil }

func (g *guidText) UnmarshalText(b []byte) error {
	v, err := win32.ParseGUID(string(b))
	*g = guidText(v)
	return err
}

func volumeKey(guid win32.GUID) string { return "volume/" + guid.String() }

// identity returns what the mount manager identifies a volume by: disk and
// partition.
func (r volumeRecord) identity() string { return r.Disk + "/" + r.Partition }

// volume is a volume of the node. It may not have arrived yet: see visible.
type volume struct {
	volumeRecord
	n         *Node
	extents   []extent
	partition win32.Partition // of a volume on one disk
	arrives   time.Time

	opens      []*deviceHandle
	gone       bool           // removed: its handles can only be closed
	offline    bool           // IOCTL_VOLUME_OFFLINE
	formatting uint64         // number of the format in progress, or 0
	share      *winpath.Share // for an SMB share, which has files but no device

	// The file system, according to the boot sector. tree is nil if Windows does
	// not recognise it.
	fs   bootsector.FileSystem
	fsid string
	tree *filetree.Tree
}

// extent is a range of a disk, in bytes.
type extent struct {
	disk        *disk
	off, length uint64
}

func (v *volume) guid() win32.GUID { return win32.GUID(v.GUID) }

// name returns the volume's name, with the final backslash of a root directory.
func (v *volume) name() string { return `\\?\Volume` + v.guid().String() + `\` }

// ntDevice returns the volume's name in the object manager.
func (v *volume) ntDevice() string {
	if v.share != nil {
		return `\Device\Mup\` + v.share.Server + `\` + v.share.Name
	}
	return fmt.Sprintf(`\Device\HarddiskVolume%d`, v.Device)
}

// interfacePath returns the volume's GUID_DEVINTERFACE_VOLUME path.
func (v *volume) interfacePath() string {
	return fmt.Sprintf(`\\?\storage#volume#{%s}#%016x#%v`, strings.ToLower(v.Disk), v.extents[0].off, win32.GUID_DEVINTERFACE_VOLUME)
}

// visible reports whether the volume has arrived.
func (v *volume) visible() bool { return !v.gone && !v.n.now().Before(v.arrives) }

func (v *volume) length() uint64 {
	n := uint64(0)
	for _, e := range v.extents {
		n += e.length
	}
	return n
}

func (v *volume) sector() uint32 { return v.extents[0].disk.Sector }

func (v *volume) writable() error {
	for _, e := range v.extents {
		if err := e.disk.writable(); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt reads the volume's bytes, for detecting the file system.
func (v *volume) ReadAt(p []byte, off int64) (n int, err error) {
	for _, e := range v.extents {
		if off >= int64(e.length) {
			off -= int64(e.length)
			continue
		}
		part := p[n:]
		if int64(len(part)) > int64(e.length)-off {
			part = part[:int64(e.length)-off]
		}
		size, err := e.disk.readImage(part, int64(e.off)+off)
		n += size
		if err != nil || n == len(p) {
			return n, err
		}
		off = 0
	}
	return n, io.EOF
}

// write writes to the volume's bytes.
func (v *volume) write(t *tx, off uint64, b []byte) {
	for _, e := range v.extents {
		if off >= e.length {
			off -= e.length
			continue
		}
		n := min(uint64(len(b)), e.length-off)
		t.writeImage(e.disk, e.off+off, b[:n])
		if b = b[n:]; len(b) == 0 {
			return
		}
		off = 0
	}
}

// detect reads the boot sector and updates fs, fsid and tree. The bytes alone
// decide which file system the volume has, whatever wrote them.
func (v *volume) detect(t *tx) {
	var b [bootsector.Size]byte
	var fs bootsector.FileSystem
	ok := false
	if _, err := v.ReadAt(b[:], 0); err == nil {
		fs, ok = bootsector.Recognize(b[:])
	}
	// A file system does not mount if it claims more than the volume's size, or a
	// sector size other than the disk's (general knowledge).
	if !ok || fs.BytesPerSector != v.sector() || fs.Sectors > v.length()/uint64(fs.BytesPerSector) {
		v.fs, v.fsid, v.tree = bootsector.FileSystem{}, "", nil
		return
	}
	if v.tree != nil && fs.Serial == v.fs.Serial && fs.Kind == v.fs.Kind {
		v.fs = fs
		return
	}
	v.fs = fs
	v.fsid = fmt.Sprintf("%s-%x-%x", v.Disk, v.extents[0].off, fs.Serial)
	if v.tree = v.n.trees[v.fsid]; v.tree != nil {
		return
	}
	// The file system was not created here: the node does not know its files, so
	// it starts empty.
	v.tree = filetree.New(t.files(v))
	fsid := v.fsid
	v.n.trees[fsid] = v.tree
	t.onRollback(func() {
		delete(v.n.trees, fsid)
		v.fs, v.fsid, v.tree = bootsector.FileSystem{}, "", nil
	})
}

// mounted reports whether v has a file system that Windows recognises.
func (v *volume) mounted(t *tx) bool {
	v.detect(t)
	return v.tree != nil
}

// volumeForNT finds the volume of an NT name. rest is the remainder of the name:
// "" for the volume's device, `\` for its root directory, `\a\b` for a path on
// it. vol.tree is up to date; it is nil if vol has no file system or is being
// formatted.
//
// Names are `\??\C:…`, `\??\Volume{…}…`, `\??\GLOBALROOT\Device\HarddiskVolume3…`
// and `\Device\HarddiskVolume3…`.
func (n *Node) volumeForNT(name string) (vol *volume, rest string, ok bool) {
	device := name
	if short, ok := cutPrefixFold(name, `\??\`); ok {
		first, rest := short, ""
		if i := strings.IndexByte(short, '\\'); i >= 0 {
			first, rest = short[:i], short[i:]
		}
		if len(first) == 2 && first[1] == ':' && isLetter(first[0]) {
			if guid, ok := n.letters[first[0]&^0x20]; ok {
				return n.found(n.volumeByGUID(guid), rest)
			}
			return nil, "", false
		}
		if text, ok := cutPrefixFold(first, "Volume"); ok && strings.HasPrefix(text, "{") {
			guid, err := win32.ParseGUID(text)
			if err != nil {
				return nil, "", false
			}
			return n.found(n.volumeByGUID(guid), rest)
		}
		if !strings.EqualFold(first, "GLOBALROOT") {
			return nil, "", false
		}
		device = rest
	}
	device, ok = cutPrefixFold(device, `\Device\`)
	if !ok {
		return nil, "", false
	}
	first := device
	if i := strings.IndexByte(device, '\\'); i >= 0 {
		first, rest = device[:i], device[i:]
	}
	for _, v := range n.volumes {
		if v.visible() && strings.EqualFold(v.ntDevice(), `\Device\`+first) {
			return n.found(v, rest)
		}
	}
	return nil, "", false
}

func (n *Node) found(v *volume, rest string) (*volume, string, bool) {
	if v == nil {
		return nil, "", false
	}
	v.detect(&n.tx)
	if v.formatting != 0 {
		v.fs, v.fsid, v.tree = bootsector.FileSystem{}, "", nil
	}
	return v, rest, true
}

// volumeByGUID returns a volume that has arrived, or nil.
func (n *Node) volumeByGUID(guid win32.GUID) *volume {
	for _, v := range n.volumes {
		if v.guid() == guid && v.visible() {
			return v
		}
	}
	return nil
}

// partitionKey identifies a partition on its disk, so that its volume keeps its
// name when the disk is attached again. It returns "" for a partition without a
// volume.
//
// The reserved partition and those of LDM and storage spaces have no volume. The
// others have one (mountvol lists system and recovery partitions too), except for
// unknown types.
func partitionKey(table win32.Layout, p win32.Partition) string {
	if !ptable.InUse(p) {
		return ""
	}
	if table.Style == win32.PARTITION_STYLE_GPT {
		switch p.Type {
		case win32.PARTITION_BASIC_DATA_GUID, win32.PARTITION_SYSTEM_GUID, win32.PARTITION_MSFT_RECOVERY_GUID:
			return p.ID.String()
		}
		return ""
	}
	if !p.Recognized {
		return ""
	}
	return fmt.Sprintf("mbr-%08x-%x", table.Signature, p.Offset)
}

// arrangement is the state and the table of a disk after a transaction.
type arrangement struct {
	disk    *disk
	state   diskState
	table   win32.Layout
	letters map[string]string // configured drive letters, by partition key
}

// arrange updates the volumes after a change of a disk: volumes of new partitions
// arrive; those of removed partitions and of an offline disk are removed. The
// table becomes the disk's on commit.
func (n *Node) arrange(t *tx, a arrangement) error {
	online := a.state.State == placeAttached && !a.state.offline()
	keep, seen := map[*volume]bool{}, map[string]bool{}
	var coming []*volume
	fresh, letters := uint32(0), map[byte]bool{}
	for _, p := range a.table.Partitions {
		part := partitionKey(a.table, p)
		if part == "" || seen[part] || !online && a.letters[part] == "" {
			continue
		}
		seen[part] = true // a second partition with the same id is ignored
		extents := []extent{{a.disk, p.Offset, p.Length}}
		identity := volumeRecord{Disk: a.state.ID, Partition: part}.identity()
		if v := n.presentVolume(identity); v != nil {
			keep[v] = true
			t.onCommit(func() { v.extents, v.partition = extents, p })
			continue
		}
		record, known := n.known[identity]
		if !known {
			var err error
			if record, err = n.newVolume(t, a.state.ID, part, fresh); err != nil {
				return err
			}
			fresh++
			if letter, wanted := a.letters[part]; !wanted {
				n.automount(t, record, a.table, p, letters)
			} else if err := n.wantedLetter(t, record, letter, letters); err != nil {
				return err
			}
		}
		if online {
			coming = append(coming, &volume{volumeRecord: record, n: n, extents: extents, partition: p})
		}
	}
	// A volume on several disks exists if all of its disks do.
	for _, record := range n.spanned {
		if !slices.ContainsFunc(record.Extents, func(e extentRecord) bool { return e.Disk == a.state.ID }) {
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
		return !keep[v] && slices.ContainsFunc(v.extents, func(e extent) bool { return e.disk == a.disk })
	}
	for _, v := range n.volumes {
		if v.fsid != "" && leaves(v) {
			t.deletePrefix(closingPrefix(v.fsid)) // its open files will not be closed
		}
	}
	t.onCommit(func() {
		a.disk.table = a.table
		n.volumes = slices.DeleteFunc(n.volumes, func(v *volume) bool {
			v.gone = leaves(v)
			if v.gone && v.tree != nil {
				v.tree.Dismount() // closes its open files
			}
			return v.gone
		})
		for _, v := range coming {
			v.arrives = n.now().Add(time.Duration(n.cfg.VolumeArrivalDelay))
			n.volumes = append(n.volumes, v)
		}
	})
	return nil
}

func (n *Node) presentVolume(identity string) *volume {
	for _, v := range n.volumes {
		if v.identity() == identity {
			return v
		}
	}
	return nil
}

// spannedExtents returns the extents of a volume on several disks. complete is
// false unless all of its disks are attached and online.
func (n *Node) spannedExtents(r volumeRecord, a arrangement, online bool) (extents []extent, complete bool) {
	for _, e := range r.Extents {
		d := a.disk
		if e.Disk != a.state.ID {
			i := slices.IndexFunc(n.disks, func(d *disk) bool { return d.ID == e.Disk && !d.offline() })
			if i < 0 {
				return nil, false
			}
			d = n.disks[i]
		} else if !online {
			return nil, false
		}
		extents = append(extents, extent{d, e.Offset, e.Length})
	}
	return extents, true
}

// newVolume creates the mount manager's record of a new volume. more is how many
// others the transaction has created.
func (n *Node) newVolume(t *tx, disk, part string, more uint32) (volumeRecord, error) {
	guid, err := n.newGUID()
	if err != nil {
		n.log.Error("Failed to generate a volume GUID", "err", err)
		return volumeRecord{}, win32.ERROR_GEN_FAILURE
	}
	r := volumeRecord{GUID: guidText(guid), Disk: disk, Partition: part, Device: n.lastDevice() + more + 1}
	t.Put(volumeKey(guid), r)
	t.onCommit(func() { n.known[r.identity()] = r })
	return r, nil
}

func (n *Node) lastDevice() uint32 {
	last := uint32(0)
	for _, r := range n.known {
		last = max(last, r.Device)
	}
	return last
}

// control handles the control codes of a volume. Like the volume manager, it
// passes storage and disk codes about the medium to the disk.
func (v *volume) control(t *tx, code uint32, in, out []byte) (int, error) {
	switch code {
	case win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS:
		return v.diskExtents(out)
	case win32.IOCTL_VOLUME_ONLINE:
		v.offline = false
		return 0, nil
	case win32.IOCTL_VOLUME_OFFLINE:
		v.offline = true
		return 0, nil
	case win32.IOCTL_VOLUME_IS_OFFLINE:
		if !v.offline {
			// STATUS_UNSUCCESSFUL means that it is online (Microsoft:
			// IOCTL_VOLUME_IS_OFFLINE).
			return 0, win32.ERROR_GEN_FAILURE
		}
		return 0, nil
	case win32.IOCTL_DISK_GET_LENGTH_INFO:
		return output(out, win32.EncodeLength(v.length()))
	case win32.FSCTL_GET_NTFS_VOLUME_DATA:
		return v.ntfsData(t, out)
	case win32.FSCTL_EXTEND_VOLUME:
		return 0, v.extend(t, in)
	}
	if len(v.extents) != 1 {
		return 0, win32.ERROR_INVALID_FUNCTION // such a volume has no disk (docs/contract/volumes.md#finding-volumes)
	}
	d := v.extents[0].disk
	switch code {
	case win32.IOCTL_STORAGE_GET_DEVICE_NUMBER:
		return output(out, win32.DeviceNumber{
			DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: d.Number, PartitionNumber: v.partition.Number,
		}.Encode())
	case win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.IOCTL_SCSI_GET_ADDRESS, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX,
		win32.IOCTL_DISK_IS_WRITABLE, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX:
		return d.control(t, code, in, out)
	}
	return 0, win32.ERROR_INVALID_FUNCTION
}

// diskExtents is IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS. If out has space for only
// some of the extents, it returns them, the true number and ERROR_MORE_DATA
// (Microsoft's page of the code).
func (v *volume) diskExtents(out []byte) (int, error) {
	const one, each = 32, 24
	var es []win32.Extent
	for _, e := range v.extents {
		es = append(es, win32.Extent{Disk: e.disk.Number, Offset: e.off, Length: e.length})
	}
	b := win32.EncodeExtents(es)
	switch {
	case len(out) < one:
		return 0, win32.ERROR_INSUFFICIENT_BUFFER
	case len(out) < len(b):
		whole := (len(out)-(one-each))/each*each + one - each
		return copy(out, b[:whole]), win32.ERROR_MORE_DATA
	}
	return copy(out, b), nil
}

// ntfsData is FSCTL_GET_NTFS_VOLUME_DATA. Without NTFS it fails with
// ERROR_INVALID_FUNCTION.
func (v *volume) ntfsData(t *tx, out []byte) (int, error) {
	if err := v.ready(); err != nil {
		return 0, err
	}
	if !v.mounted(t) || v.fs.Kind != bootsector.NTFS {
		return 0, win32.ERROR_INVALID_FUNCTION
	}
	return output(out, win32.NTFSVolumeData{
		Sectors: v.fs.Sectors, TotalClusters: v.fs.Clusters, FreeClusters: v.free() / uint64(v.fs.BytesPerCluster),
		BytesPerSector: v.fs.BytesPerSector, BytesPerCluster: v.fs.BytesPerCluster,
	}.Encode())
}

// extend is FSCTL_EXTEND_VOLUME (docs/contract/volumes.md#growth). The new number
// of sectors must fit the partition and add at least one cluster. NTFS reserves a
// sector, and so up to a cluster, for the copy of its boot sector.
func (v *volume) extend(t *tx, in []byte) error {
	sectors, err := win32.DecodeSectors(in)
	if err != nil {
		return inputError(in, 8)
	}
	if err := v.ready(); err != nil {
		return err
	}
	if err := v.writable(); err != nil {
		return err
	}
	s := uint64(v.sector())
	if sectors <= 0 || uint64(sectors) > v.length()/s {
		return win32.ERROR_INVALID_PARAMETER
	}
	if !v.mounted(t) {
		return nil // RAW accepts any size up to that of its partition
	}
	if v.fs.Kind != bootsector.NTFS {
		return win32.ERROR_INVALID_FUNCTION // FAT cannot grow
	}
	target := uint64(sectors) * s / uint64(v.fs.BytesPerCluster)
	if target <= v.fs.Clusters+1 || target > math.MaxUint32 {
		return win32.ERROR_INVALID_PARAMETER
	}
	boot := make([]byte, s)
	if _, err := v.ReadAt(boot, 0); err != nil {
		return win32.ERROR_IO_DEVICE
	}
	fs, writes := bootsector.GrowNTFS(boot, v.fs, uint64(sectors))
	for _, w := range writes {
		v.write(t, w.Offset, w.Data)
	}
	t.onCommit(func() { v.fs = fs })
	return nil
}

// ready returns the error for using the file system of a volume that is removed,
// offline or locked.
func (v *volume) ready() error {
	switch {
	case v.gone:
		return win32.ERROR_NO_SUCH_DEVICE
	case v.offline:
		return win32.ERROR_NOT_READY
	case v.formatting != 0:
		return win32.ERROR_ACCESS_DENIED
	}
	return nil
}

// metadata returns the size of a new file system's own data in bytes.
func (v *volume) metadata() uint64 {
	return min(16<<20, uint64(v.fs.BytesPerCluster)*v.fs.Clusters/16)
}

// free returns the free space of the file system in bytes.
func (v *volume) free() uint64 {
	c := uint64(v.fs.BytesPerCluster)
	used := v.metadata() + allocated(v.tree.Root(), c)
	total := v.fs.Clusters * c
	return (total - min(used, total)) / c * c
}

// allocated returns the space used by the files in dir, in bytes.
func allocated(dir *filetree.Entry, cluster uint64) uint64 {
	n := uint64(0)
	for e, at, ok := dir.Next(filetree.Cursor{}); ok; e, at, ok = dir.Next(at) {
		n += (uint64(e.Size()) + cluster - 1) / cluster * cluster
		if e.IsDir() {
			n += allocated(e, cluster)
		}
	}
	return n
}

// present implements device.
func (v *volume) present() error {
	if v.gone {
		return win32.ERROR_NO_SUCH_DEVICE // docs/contract/calls.md#transient-errors
	}
	return nil
}

func (v *volume) handles() *[]*deviceHandle { return &v.opens }

// flush implements device. Nothing is cached. On a read-only volume it fails
// (docs/contract/volumes.md#flush).
func (v *volume) flush() error {
	if err := v.ready(); err != nil {
		return err
	}
	return v.writable()
}

// readAt reads whole sectors. At the end of the volume it returns fewer bytes.
func (v *volume) readAt(p []byte, off int64) (int, error) {
	s := int64(v.sector())
	if off < 0 || off%s != 0 || int64(len(p))%s != 0 {
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	if v.offline {
		return 0, win32.ERROR_NOT_READY
	}
	if uint64(off) >= v.length() {
		return 0, win32.ERROR_HANDLE_EOF
	}
	size, err := v.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return size, err
}

// writeAt writes whole sectors of a volume without a file system. On a mounted
// file system it fails, as for a disk; see disk.writeAt.
func (v *volume) writeAt(t *tx, p []byte, off int64) (int, error) {
	s := int64(v.sector())
	if off < 0 || off%s != 0 || int64(len(p))%s != 0 || uint64(off) > v.length() || uint64(len(p)) > v.length()-uint64(off) {
		return 0, win32.ERROR_INVALID_PARAMETER
	}
	if v.offline {
		return 0, win32.ERROR_NOT_READY
	}
	if err := v.writable(); err != nil {
		return 0, err
	}
	if v.mounted(t) {
		return 0, win32.ERROR_ACCESS_DENIED
	}
	v.write(t, uint64(off), p)
	return len(p), nil
}

// loadVolumes reads the mount manager's records.
func (n *Node) loadVolumes() error {
	for _, k := range n.store.keys("volume/") {
		var r volumeRecord
		if err := json.Unmarshal(n.store.data[k], &r); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		n.known[r.identity()] = r
		if len(r.Extents) > 0 {
			n.spanned = append(n.spanned, r)
		}
	}
	return nil
}
