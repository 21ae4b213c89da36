package emulated

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/filetree"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// nodeKey is stored last when a node is made: a state directory without it was
// not finished.
const nodeKey = "node"

type nodeRecord struct {
	Format int `json:"format"`
}

const (
	defaultSystemDisk = 64 << 30
	defaultDisk       = 10 << 30
	mib               = 1 << 20
)

// directories are on every node's C:.
var directories = []string{
	`\Windows\System32`, `\Program Files`, `\ProgramData`, `\Users`,
	`\var\lib\kubelet\plugins`, `\var\lib\kubelet\pods`,
}

// create makes the node that the configuration describes.
func (n *Node) create() error {
	if err := n.clear(); err != nil {
		return err
	}
	disks := n.cfg.Disks
	if len(disks) == 0 {
		disks = []nodespec.Disk{{Content: nodespec.ContentSystem}, {}, {}}
	}
	var wanted []uint32 // numbers that are not for disks that do not care
	for _, c := range disks {
		if c.Number != nil {
			wanted = append(wanted, *c.Number)
		}
	}
	number := uint32(0)
	for i, c := range disks {
		if c.Number == nil {
			for slices.Contains(wanted, number) {
				number++
			}
			free := number
			c.Number = &free
			number++
		}
		if _, err := n.attach(c, placeAttached); err != nil {
			return fmt.Errorf("disk %d of the configuration: %w", i, err)
		}
	}
	for i, c := range n.cfg.SpannedVolumes {
		if err := n.transact(func(t *tx) error { return n.span(t, c, i) }); err != nil {
			return fmt.Errorf("spanned volume %d of the configuration: %w", i, err)
		}
	}
	n.settle()
	if err := n.makeDirectories(); err != nil {
		return err
	}
	if err := n.makeSMB(); err != nil {
		return err
	}
	if err := errors.Join(n.makeServices(), n.makeISCSI()); err != nil {
		return err
	}
	if err := n.transact(func(t *tx) error { t.Put(nodeKey, nodeRecord{stateFormat}); return nil }); err != nil {
		return n.because(err)
	}
	return nil
}

// because is the reason for an ERROR_IO_DEVICE of the node itself.
func (n *Node) because(err error) error {
	if n.broken != nil {
		return n.broken
	}
	return err
}

// clear removes what a process left that was killed while it made the node.
func (n *Node) clear() error {
	if err := n.transact(func(t *tx) error { t.deletePrefix(""); return nil }); err != nil {
		return n.because(err)
	}
	return n.removeImages(func(string) bool { return false })
}

// removeImages removes images in the state directory of disks that are not known.
func (n *Node) removeImages(known func(id string) bool) error {
	names, err := filepath.Glob(n.imagePath("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "disk-"), ".img")
		if known(id) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// load brings back the node whose state was read. pending are the image writes
// that the last process may not have got to.
func (n *Node) load(pending []imageWrite) error {
	var attached []diskState
	known := map[string]bool{}
	for _, k := range n.store.keys("disk/") {
		var s diskState
		if err := json.Unmarshal(n.store.data[k], &s); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if diskKey(s.ID) != k || s.Sector != 512 && s.Sector != 4096 || s.Size > maxDisk || s.SeenSize > s.Size || s.TableSize > s.SeenSize || s.TableSize < minDisk {
			return fmt.Errorf("%s: not a disk: %+v", k, s)
		}
		known[s.ID] = true
		if s.State != placeDetached {
			attached = append(attached, s)
		}
	}
	if err := n.removeImages(func(id string) bool { return known[id] }); err != nil {
		return err
	}
	if err := errors.Join(n.loadVolumes(), n.loadMounts(), n.loadTrees(), n.loadServices(), n.loadISCSI(), n.loadSMB()); err != nil {
		return err
	}
	slices.SortFunc(attached, func(a, b diskState) int { return cmp.Compare(a.Number, b.Number) })
	for _, s := range attached {
		if _, err := n.openImage(s.ID, s.Size); err != nil {
			return err
		}
	}
	for _, w := range pending {
		if err := n.applyWrite(w); err != nil {
			return err
		}
	}
	for _, s := range attached {
		d := &disk{diskState: s, n: n, image: n.images[s.ID]}
		if s.State == placeWaiting {
			n.waiting = append(n.waiting, d)
			continue
		}
		if err := n.transact(func(t *tx) error { return n.arrive(t, d, s) }); err != nil {
			return n.because(err)
		}
	}
	if err := n.transact(n.finishDeletions); err != nil {
		return n.because(err)
	}
	if _, interrupted := n.store.data[rebootKey]; interrupted {
		if err := n.reboot(); err != nil {
			return err
		}
	}
	n.settle()
	return nil
}

// settle lets every volume arrive at once: what a node starts with is there.
func (n *Node) settle() {
	for _, v := range n.volumes {
		v.arrives = n.now()
	}
}

// loadTrees makes the file trees of their records.
func (n *Node) loadTrees() error {
	records := map[string]map[string][]byte{}
	for k, raw := range n.store.data {
		rest, ok := strings.CutPrefix(k, "file/")
		if !ok {
			continue
		}
		fsid, key, ok := strings.Cut(rest, "/")
		if !ok {
			return fmt.Errorf("%s: not the key of a file", k)
		}
		if records[fsid] == nil {
			records[fsid] = map[string][]byte{}
		}
		records[fsid][key] = raw
	}
	for fsid, r := range records {
		tree, err := filetree.Load(r)
		if err != nil {
			return fmt.Errorf("file system %s: %w", fsid, err)
		}
		n.trees[fsid] = tree
	}
	return nil
}

// arrive makes d, with the state that it has after t, one of the node's disks.
func (n *Node) arrive(t *tx, d *disk, state diskState) error {
	table, err := ptable.Read(d.image, state.geometry())
	if err != nil {
		return t.n.breakDown("read a disk image", err)
	}
	if err := n.arrange(t, arrangement{disk: d, state: state, table: table}); err != nil {
		return err
	}
	t.onCommit(func() { n.addDisk(d) })
	return nil
}

func (n *Node) addDisk(d *disk) {
	n.disks = append(n.disks, d)
	slices.SortFunc(n.disks, func(a, b *disk) int { return cmp.Compare(a.Number, b.Number) })
}

// Attach plugs a disk in, or back in if c.ID is that of a detached one, and
// tells its number. With Config.AttachNeedsRescan it is seen after Reenumerate.
func (n *Node) Attach(c nodespec.Disk) (number uint32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return 0, err
	}
	if err := validateDisk(c); err != nil {
		return 0, fmt.Errorf("attach: %w", err)
	}
	place := placeAttached
	if n.cfg.AttachNeedsRescan {
		place = placeWaiting
	}
	number, err = n.attach(c, place)
	if err != nil {
		return 0, fmt.Errorf("attach: %w", n.because(err))
	}
	return number, nil
}

// usable is nil as long as the node can change.
func (n *Node) usable() error {
	if n.closed {
		return errors.New("emulated node: closed")
	}
	return n.broken
}

// attached finds a disk that is plugged in, seen or not.
func (n *Node) attached(match func(*disk) bool) *disk {
	for _, list := range [][]*disk{n.disks, n.waiting} {
		if i := slices.IndexFunc(list, match); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// attach makes a disk of c. The caller has locked the node and has checked c.
func (n *Node) attach(c nodespec.Disk, place diskPlace) (uint32, error) {
	_, known := n.store.data[diskKey(c.ID)]
	number, err := n.attachDisk(c, place)
	if err != nil || known || len(c.Bytes) == 0 {
		return number, err
	}
	// A disk is read when it is attached, so one whose bytes were replaced is
	// attached again.
	d := n.attached(func(d *disk) bool { return d.Number == number })
	err = n.transact(func(t *tx) error {
		for _, b := range c.Bytes {
			t.writeImage(d, uint64(b.At), b.Data)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := n.detach(d); err != nil {
		return 0, err
	}
	return n.attachDisk(nodespec.Disk{ID: d.ID, Number: &number}, place)
}

// attachDisk attaches a disk whose bytes are as they are.
func (n *Node) attachDisk(c nodespec.Disk, place diskPlace) (uint32, error) {
	if c.Content == "" && c.Image != "" {
		c.Content = nodespec.ContentImage
	}
	taken := func(number uint32) bool { return n.attached(func(d *disk) bool { return d.Number == number }) != nil }
	number := uint32(0)
	if c.Number != nil {
		if number = *c.Number; taken(number) {
			return 0, fmt.Errorf("disk number %d is taken", number)
		}
	}
	for c.Number == nil && taken(number) {
		number++
	}
	if c.ID == "" {
		guid, err := n.newGUID()
		if err != nil {
			return 0, err
		}
		c.ID = strings.Trim(guid.String(), "{}")
	}
	if n.attached(func(d *disk) bool { return strings.EqualFold(d.ID, c.ID) }) != nil {
		return 0, fmt.Errorf("disk %q is attached already", c.ID)
	}
	var state diskState
	raw, back := n.store.data[diskKey(c.ID)]
	if back {
		if err := json.Unmarshal(raw, &state); err != nil {
			return 0, err
		}
		state.Attributes = state.Persistent
		state.SeenSize, state.TableSize = state.Size, state.Size
	} else {
		var err error
		if state, err = n.newState(c, number); err != nil {
			return 0, err
		}
	}
	state.Number, state.State = number, place
	n.arrivalAttributes(c, &state, back)

	// What goes wrong from here on leaves no image behind, unless it was there before.
	makeImage := n.createImage
	if back {
		makeImage = n.openImage
	} else if err := os.Remove(n.imagePath(state.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err // left by a Discard that was killed
	}
	image, err := makeImage(state.ID, state.Size)
	if err != nil {
		return 0, err
	}
	d := &disk{diskState: state, n: n, image: image}
	undo := func() {
		image.Close()
		delete(n.images, state.ID)
		delete(n.written, state.ID)
		if !back {
			os.Remove(n.imagePath(state.ID))
		}
	}
	if !back && c.Content == nodespec.ContentImage {
		delete(n.written, state.ID)
		if err := copyImage(image, c.Image); err != nil {
			undo()
			return 0, err
		}
	}
	err = n.transact(func(t *tx) error {
		var table win32.Layout
		letters := map[string]string{}
		if back || c.Content == nodespec.ContentImage {
			if table, err = ptable.Read(image, state.geometry()); err != nil {
				return err
			}
		} else if table, err = n.content(t, d, c, letters); err != nil {
			return err
		}
		t.Put(diskKey(state.ID), state)
		if place == placeWaiting {
			t.onCommit(func() { n.waiting = append(n.waiting, d) })
			return nil
		}
		t.onCommit(func() { n.addDisk(d) })
		return n.arrange(t, arrangement{disk: d, state: state, table: table, letters: letters})
	})
	if err != nil {
		undo()
		return 0, err
	}
	return number, nil
}

// newState is the state of a disk that was not there before.
func (n *Node) newState(c nodespec.Disk, number uint32) (diskState, error) {
	size := uint64(c.Size)
	if c.Content == nodespec.ContentImage {
		info, err := os.Stat(c.Image)
		if err != nil {
			return diskState{}, err
		}
		if size == 0 {
			size = uint64(info.Size())
		}
		if size < uint64(info.Size()) {
			return diskState{}, fmt.Errorf("image %q has %d bytes, the disk %d", c.Image, info.Size(), size)
		}
	}
	sector := cmp.Or(c.SectorSize, 512)
	if size == 0 {
		size = defaultDisk
		if c.Content == nodespec.ContentSystem {
			size = defaultSystemDisk
		}
	}
	size = size / uint64(sector) * uint64(sector)
	if size < minDisk || size > maxDisk {
		return diskState{}, fmt.Errorf("disk of %d bytes, want %d to %d", size, uint64(minDisk), uint64(maxDisk))
	}
	for _, b := range c.Bytes {
		if uint64(b.At) > size || uint64(len(b.Data)) > size-uint64(b.At) {
			return diskState{}, fmt.Errorf("%d bytes at %d of a disk of %d bytes", len(b.Data), b.At, size)
		}
	}
	bus, err := busType(c.Bus)
	if err != nil {
		return diskState{}, err
	}
	s := diskState{
		ID: c.ID, Size: size, SeenSize: size, TableSize: size, Sector: sector, System: c.Content == nodespec.ContentSystem,
		Protected: c.WriteProtected, Bus: bus,
		Vendor: cmp.Or(c.Vendor, "EMULATED"), Product: cmp.Or(c.Product, "Virtual Disk"), Revision: cmp.Or(c.Revision, "1.0"),
		Serial: c.Serial, Location: c.Location, Address: (*win32.SCSIAddress)(c.Address),
	}
	for _, id := range c.Identifiers {
		v, err := identifier(id)
		if err != nil {
			return s, err
		}
		s.Identifiers = append(s.Identifiers, v)
	}
	// A disk about whose identity nothing was said has an ordinary one.
	if s.Serial == "" && s.Location == "" && s.Address == nil && len(s.Identifiers) == 0 {
		guid, err := n.newGUID()
		if err != nil {
			return s, err
		}
		naa := guid.AppendTo(nil)
		naa[0] = naa[0]&0x0F | 0x60 // NAA 6: locally assigned, 16 bytes
		s.Serial = fmt.Sprintf("EMU%X", naa[10:])
		s.Identifiers = []win32.Identifier{{CodeSet: win32.StorageIdCodeSetBinary, Type: win32.StorageIdTypeFCPHName, ID: naa}}
		s.Address = &win32.SCSIAddress{Port: 3, Target: uint8(number >> 8), Lun: uint8(number)}
		s.Location = fmt.Sprintf("Integrated : Adapter %d : Port %d : Target %d : LUN %d", s.Address.Port, s.Address.Path, s.Address.Target, s.Address.Lun)
	}
	return s, nil
}

// arrivalAttributes decides whether a disk arrives offline or read-only: by
// what c says, else as it was if it comes back, else by the SAN policy, which
// sets both (Microsoft: diskpart, san).
func (n *Node) arrivalAttributes(c nodespec.Disk, s *diskState, back bool) {
	held := false
	switch n.cfg.SANPolicy {
	case nodespec.SANOfflineAll:
		held = true
	case nodespec.SANOfflineShared:
		held = sharedBus(s.Bus)
	}
	if held && !back && !s.System {
		s.Attributes |= win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	}
	set := func(want *bool, bit uint64) {
		if want != nil && *want {
			s.Attributes |= bit
		} else if want != nil {
			s.Attributes &^= bit
		}
	}
	set(c.Offline, win32.DISK_ATTRIBUTE_OFFLINE)
	set(c.ReadOnly, win32.DISK_ATTRIBUTE_READ_ONLY)
	s.Persistent = s.Attributes
}

// copyImage fills image with the file at path; zeroes stay holes.
func copyImage(image *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for off := uint64(0); off < uint64(info.Size()); {
		at, err := nextData(from, off)
		if err != nil {
			return err
		}
		if at >= uint64(info.Size()) {
			break
		}
		off = at
		size, err := from.ReadAt(buf, int64(off))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if size == 0 {
			break
		}
		if !allZero(buf[:size]) {
			if _, err := image.WriteAt(buf[:size], int64(off)); err != nil {
				return err
			}
		}
		off += uint64(size)
	}
	return nil
}

// content writes what a new disk holds. letters are the drive letters that its
// partitions shall have, by partition key.
func (n *Node) content(t *tx, d *disk, c nodespec.Disk, letters map[string]string) (win32.Layout, error) {
	geometry := d.geometry()
	parts := c.Partitions
	l := win32.Layout{Style: win32.PARTITION_STYLE_RAW}
	switch c.Content {
	case "", nodespec.ContentBlank:
		return l, nil
	case nodespec.ContentSuperfloppy:
		first, err := n.mkfs(t, d, 0, d.Size, win32.FormatOptions{FileSystem: "NTFS"})
		if err != nil {
			return l, err
		}
		return ptable.Read(strings.NewReader(string(first)+strings.Repeat("\x00", int(d.Sector))), geometry)
	case nodespec.ContentMBR:
		guid, err := n.newGUID()
		if err != nil {
			return l, err
		}
		l = win32.Layout{Style: win32.PARTITION_STYLE_MBR, Signature: guid.Data1}
	case nodespec.ContentGPT, nodespec.ContentGPTNoMSR, nodespec.ContentSystem:
		guid, err := n.newGUID()
		if err != nil {
			return l, err
		}
		if l, err = ptable.NewGPT(geometry, guid, ptable.MinEntries); err != nil {
			return l, err
		}
		if c.Content == nodespec.ContentGPT {
			msr, err := n.reserved(l, geometry)
			if err != nil {
				return l, err
			}
			l.Partitions = append(l.Partitions, msr)
		}
		if c.Content == nodespec.ContentSystem {
			parts = []nodespec.Partition{{Size: 100 * mib, Type: "esp", FileSystem: "FAT32"}, {Size: 16 * mib, Type: "msr"}, {Type: "basic", FileSystem: "NTFS", Letter: "C"}}
		}
	}
	at := uint64(mib)
	for i, pc := range parts {
		p, err := n.partition(l, pc, at, geometry)
		if err != nil {
			return l, fmt.Errorf("partition %d: %w", i, err)
		}
		l.Partitions = append(l.Partitions, p)
		at = p.Offset + p.Length
		switch strings.ToUpper(pc.FileSystem) {
		case "":
		case "FAT32":
			guid, err := n.newGUID()
			if err != nil {
				return l, err
			}
			for _, w := range bootsector.MakeFAT32(p.Length, d.Sector, uint32(p.Offset/uint64(d.Sector)), guid.Data1) {
				t.writeImage(d, p.Offset+w.Offset, w.Data)
			}
		default:
			if _, err := n.mkfs(t, d, p.Offset, p.Length, win32.FormatOptions{FileSystem: pc.FileSystem}); err != nil {
				return l, fmt.Errorf("partition %d: %w", i, err)
			}
		}
		if pc.Letter != "" {
			key := partitionKey(l, p)
			if key == "" {
				return l, fmt.Errorf("partition %d: a drive letter, and no volume to have it", i)
			}
			letters[key] = pc.Letter
		}
	}
	if err := ptable.Check(l, geometry); err != nil {
		return l, err
	}
	for _, w := range ptable.Encode(l, geometry, nil) {
		t.writeImage(d, w.Offset, w.Data)
	}
	return ptable.Normal(l, geometry), nil
}

// partition is the partition that c describes, at the first place from at on.
func (n *Node) partition(l win32.Layout, c nodespec.Partition, at uint64, geometry ptable.Disk) (win32.Partition, error) {
	for _, p := range l.Partitions {
		at = max(at, p.Offset+p.Length)
	}
	at = (at + mib - 1) / mib * mib
	end := geometry.Size
	if l.Style == win32.PARTITION_STYLE_GPT {
		end = l.UsableOffset + l.UsableLength
	}
	end = end / mib * mib
	if at >= end {
		return win32.Partition{}, errors.New("the disk is full")
	}
	length := uint64(c.Size)
	if length == 0 {
		length = end - at
	}
	length = (length + mib - 1) / mib * mib
	if length > end-at {
		return win32.Partition{}, fmt.Errorf("%d bytes do not fit: %d are left", length, end-at)
	}
	p := win32.Partition{Style: l.Style, Offset: at, Length: length}
	if l.Style == win32.PARTITION_STYLE_MBR {
		if c.Type != "" && c.Type != "basic" {
			return p, fmt.Errorf("type %q on an MBR disk, want basic", c.Type)
		}
		p.MBRType, p.Recognized = 0x07, true
		return p, nil
	}
	id, err := n.newGUID()
	if err != nil {
		return p, err
	}
	p.ID = id
	switch c.Type {
	case "", "basic":
		p.Type, p.Name = win32.PARTITION_BASIC_DATA_GUID, "Basic data partition"
	case "esp":
		p.Type, p.Name = win32.PARTITION_SYSTEM_GUID, "EFI system partition"
	case "msr":
		p.Type, p.Name = win32.PARTITION_MSFT_RESERVED_GUID, "Microsoft reserved partition"
	case "recovery":
		p.Type = win32.PARTITION_MSFT_RECOVERY_GUID
	case "ldmData":
		p.Type = win32.PARTITION_LDM_DATA_GUID
	case "ldmMetadata":
		p.Type = win32.PARTITION_LDM_METADATA_GUID
	case "spaces":
		p.Type = win32.PARTITION_SPACES_GUID
	default:
		return p, fmt.Errorf("type %q, want basic, esp, msr, recovery, ldmData, ldmMetadata or spaces", c.Type)
	}
	if c.Letter == "" {
		p.Attributes = win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER
	}
	return p, nil
}

// span makes a volume of ranges of several disks.
func (n *Node) span(t *tx, c nodespec.SpannedVolume, index int) error {
	r := volumeRecord{Partition: fmt.Sprintf("span-%d", index), Device: n.lastDevice() + 1}
	guid, err := n.newGUID()
	if err != nil {
		return err
	}
	r.GUID = guidText(guid)
	v := &volume{n: n}
	for i, e := range c.Extents {
		d := n.diskByNumber(e.Disk)
		if d == nil {
			return fmt.Errorf("extent %d: there is no disk %d", i, e.Disk)
		}
		from, length := uint64(e.Offset), uint64(e.Length)
		if length == 0 || from%uint64(d.Sector) != 0 || length%uint64(d.Sector) != 0 || from > d.Size || length > d.Size-from {
			return fmt.Errorf("extent %d: %d bytes at %d are not whole sectors of disk %d", i, length, from, e.Disk)
		}
		for _, p := range d.table.Partitions {
			if partitionKey(d.table, p) != "" && from < p.Offset+p.Length && p.Offset < from+length {
				return fmt.Errorf("extent %d: overlaps partition %d of disk %d", i, p.Number, e.Disk)
			}
		}
		r.Extents = append(r.Extents, extentRecord{d.ID, from, length})
		v.extents = append(v.extents, extent{d, from, length})
	}
	if v.extents[0].disk == v.extents[1].disk {
		return errors.New("the first two extents are on one disk")
	}
	r.Disk = r.Extents[0].Disk
	v.volumeRecord = r
	t.Put(volumeKey(guid), r)
	t.onCommit(func() {
		n.known[r.identity()] = r
		n.spanned = append(n.spanned, r)
		n.volumes = append(n.volumes, v)
	})
	return nil
}

// makeDirectories makes the directories that a node has on C:, if it has one.
func (n *Node) makeDirectories() error {
	for _, dir := range append(slices.Clone(directories), n.cfg.Directories...) {
		path := dir
		if strings.HasPrefix(path, `\`) {
			path = `C:` + path
		}
		name, device, err := ntName(path)
		if err != nil || device {
			return fmt.Errorf("directory %q: want an absolute path as in C:\\var\\lib", dir)
		}
		err = n.transact(func(t *tx) error {
			vol, rest, ok := n.volumeForNT(name)
			if !ok || vol.tree == nil {
				if _, wanted := n.letters['C']; !wanted && len(n.cfg.Directories) == 0 {
					return nil // a node without C: has no directories of its own
				}
				return fmt.Errorf("directory %q: there is no such file system", dir)
			}
			at := vol.tree.Root()
			for _, part := range strings.Split(strings.Trim(rest, `\`), `\`) {
				next := at.Lookup(part)
				if next == nil {
					var err error
					if next, err = vol.tree.Create(t.files(vol), at, part, win32.FILE_ATTRIBUTE_DIRECTORY); err != nil {
						return fmt.Errorf("directory %q: %w", dir, err)
					}
				}
				at = next
			}
			return nil
		})
		if err != nil {
			return n.because(err)
		}
	}
	return nil
}

// errNoDisk is the answer to a number that no attached disk has.
func errNoDisk(what string, number uint32) error {
	return fmt.Errorf("%s: there is no disk %d", what, number)
}

// Detach pulls a disk out. What is on it stays, until it is attached again by
// its ID or discarded.
func (n *Node) Detach(number uint32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	d := n.attached(func(d *disk) bool { return d.Number == number })
	if d == nil {
		return errNoDisk("detach", number)
	}
	if d.System {
		return fmt.Errorf("detach: disk %d is the one that Windows runs from", number)
	}
	return n.detach(d)
}

// detach pulls out a disk of the node's.
func (n *Node) detach(d *disk) error {
	err := n.transact(func(t *tx) error {
		state := d.diskState
		state.State = placeDetached
		d.change(t, state)
		return n.arrange(t, arrangement{disk: d, state: state, table: d.table})
	})
	if err != nil {
		return fmt.Errorf("detach: %w", n.because(err))
	}
	d.gone = true
	n.disks = slices.DeleteFunc(n.disks, func(o *disk) bool { return o == d })
	n.waiting = slices.DeleteFunc(n.waiting, func(o *disk) bool { return o == d })
	delete(n.images, d.ID)
	return d.image.Close()
}

// Discard destroys a detached disk with all that is on it.
func (n *Node) Discard(id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if _, known := n.store.data[diskKey(id)]; !known || n.images[id] != nil {
		return fmt.Errorf("discard: there is no detached disk %q", id)
	}
	err := n.transact(func(t *tx) error {
		t.Delete(diskKey(id))
		for identity, r := range n.known {
			if r.Disk == id {
				t.Delete(volumeKey(win32.GUID(r.GUID)))
				t.onCommit(func() { delete(n.known, identity) })
				n.forgetLetters(t, win32.GUID(r.GUID))
			}
		}
		for fsid := range n.trees {
			if strings.HasPrefix(fsid, id+"-") {
				t.deletePrefix(filePrefix(fsid))
				t.onCommit(func() { delete(n.trees, fsid) })
			}
		}
		t.onCommit(func() {
			n.spanned = slices.DeleteFunc(n.spanned, func(r volumeRecord) bool { return r.Disk == id })
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("discard: %w", n.because(err))
	}
	return os.Remove(n.imagePath(id))
}

// Grow makes a disk larger, as its array would. Windows sees it once it is told
// to look: see diskState.
func (n *Node) Grow(number uint32, size uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	d := n.attached(func(d *disk) bool { return d.Number == number })
	if d == nil {
		return errNoDisk("grow", number)
	}
	asked := size
	size = size / uint64(d.Sector) * uint64(d.Sector)
	if size <= d.Size || size > maxDisk {
		return fmt.Errorf("grow: disk %d has %d bytes and cannot have %d, want more, at most %d", number, d.Size, asked, uint64(maxDisk))
	}
	if err := fitImage(d.image, size); err != nil {
		return fmt.Errorf("grow: %w", err)
	}
	err := n.transact(func(t *tx) error {
		state := d.diskState
		state.Size = size
		d.change(t, state)
		return nil
	})
	if err != nil {
		return fmt.Errorf("grow: %w", n.because(err))
	}
	return nil
}

// Reboot restarts the node's Windows: every handle dies, disks have the
// attributes that were set to persist, what had grown or was attached is seen,
// services run that Windows starts by itself, SMB mappings are disconnected, iSCSI
// sessions are gone.
// Disks keep their numbers, which Windows does not promise.
func (n *Node) Reboot() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	return n.reboot()
}

// rebootKey is there while a restart of Windows is under way. It takes several
// transactions; one that was interrupted begins anew when the node is opened.
const rebootKey = "reboot"

func (n *Node) reboot() error {
	if err := n.closeHandles(func(t *tx) { t.Put(rebootKey, true) }); err != nil {
		return fmt.Errorf("reboot: %w", n.because(err))
	}
	err := n.transact(func(t *tx) error {
		n.bootServices(t)
		n.bootSMB(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reboot: %w", n.because(err))
	}
	if err := n.bootISCSI(); err != nil {
		return fmt.Errorf("reboot: %w", n.because(err))
	}
	for _, list := range [][]*disk{slices.Clone(n.disks), n.waiting} {
		for _, d := range list {
			err := n.transact(func(t *tx) error {
				waiting := d.State == placeWaiting
				state := d.diskState
				state.State = placeAttached
				state.Attributes = state.Persistent
				state.SeenSize, state.TableSize = state.Size, state.Size
				d.change(t, state)
				if waiting {
					return n.arrive(t, d, state)
				}
				table, err := ptable.Read(d.image, state.geometry())
				if err != nil {
					return n.breakDown("read a disk image", err)
				}
				return n.arrange(t, arrangement{disk: d, state: state, table: table})
			})
			if err != nil {
				return fmt.Errorf("reboot: %w", n.because(err))
			}
		}
	}
	n.waiting = nil
	for _, v := range n.volumes {
		v.offline = false
	}
	n.settle()
	if err := n.transact(func(t *tx) error { t.Delete(rebootKey); return nil }); err != nil {
		return fmt.Errorf("reboot: %w", n.because(err))
	}
	return nil
}

// closeHandles closes every handle, in one transaction with what else is to be done.
func (n *Node) closeHandles(also func(*tx)) error {
	err := n.transact(func(t *tx) error {
		also(t)
		for _, h := range n.handles {
			if err := h.object.close(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	clear(n.handles)
	for _, v := range n.volumes {
		v.formatting = 0
	}
	return nil
}

// EndProcess is what Windows does when the process dies that made the calls, and
// lives on itself: handles are closed, and what was to be deleted with them is
// gone; a format stays as far as it had come. The node goes on for the next
// process. (Killing the process that the node itself lives in comes to the same,
// once its state directory is opened again.)
func (n *Node) EndProcess() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := n.closeHandles(func(*tx) {}); err != nil {
		return fmt.Errorf("end of the process: %w", n.because(err))
	}
	return nil
}

// Show returns the state of the node, without what other packages know: serial
// numbers and identifiers of disks, links to SMB shares, and faults.
func (n *Node) Show() (nodespec.State, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return nodespec.State{}, err
	}
	n.applyISCSIEvents()
	s := nodespec.State{OpenHandles: n.openHandles()}
	for _, d := range slices.Concat(n.disks, n.waiting) {
		s.Disks = append(s.Disks, d.info())
	}
	for k := range n.store.data {
		if id, ok := strings.CutPrefix(k, "disk/"); ok && n.images[id] == nil {
			s.Detached = append(s.Detached, id)
		}
	}
	slices.Sort(s.Detached)
	err := n.transact(func(t *tx) error {
		for _, v := range n.volumes {
			info := nodespec.VolumeInfo{
				ID: v.name(), Offset: nodespec.Size(v.extents[0].off), Size: nodespec.Size(v.length()), Arrived: v.visible(), MountedAt: n.pathNames(v.guid()),
			}
			for _, e := range v.extents {
				info.Disks = append(info.Disks, e.disk.Number)
			}
			if v.mounted(t) {
				info.FileSystem, info.Entries = string(v.fs.Kind), v.tree.Len()
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
	s.Services = n.showServices()
	s.ISCSITargets, s.ISCSIPortals = n.showISCSI()
	s.SMBServers, s.SMBMappings = n.showSMB()
	return s, err
}

// info is the disk as Show returns it.
func (d *disk) info() nodespec.DiskInfo {
	info := nodespec.DiskInfo{
		Number: d.Number, ID: d.ID, Image: d.image.Name(), Size: nodespec.Size(d.Size), SeenSize: nodespec.Size(d.SeenSize), SectorSize: d.Sector,
		Style:   map[uint32]string{win32.PARTITION_STYLE_MBR: "MBR", win32.PARTITION_STYLE_GPT: "GPT", win32.PARTITION_STYLE_RAW: "RAW"}[d.table.Style],
		Waiting: d.State == placeWaiting, System: d.System, Online: !d.offline(), ReadOnly: d.Attributes&win32.DISK_ATTRIBUTE_READ_ONLY != 0,
	}
	for _, p := range d.table.Partitions {
		if !ptable.InUse(p) {
			continue
		}
		part := nodespec.PartitionInfo{Number: p.Number, Type: fmt.Sprintf("%#02x", p.MBRType), Offset: nodespec.Size(p.Offset), Length: nodespec.Size(p.Length)}
		if p.Style == win32.PARTITION_STYLE_GPT {
			part.Type, part.ID = p.Type.String(), p.ID.String()
		}
		info.Partitions = append(info.Partitions, part)
	}
	return info
}

func (n *Node) nameOf(guid win32.GUID) string { return `\\?\Volume` + guid.String() + `\` }
