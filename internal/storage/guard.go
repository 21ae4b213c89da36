package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Guard refuses a disk that the node itself needs. A host calls it before it
// initializes, partitions, clears or takes a disk offline, and before it formats or grows
// a volume, on the handle that it will write through. Published requests make
// this necessary: one without a disk number means disk 0.
//
// A disk is needed if one of these lies on it: the volume of the Windows directory, a page
// file, the dedicated dump file, a directory of the node's WorkingDirs and ProtectedDirs,
// which are those of the kubelet and of the containers; if a failover cluster manages it; or
// if its partition table l has an entry that only such disks have: an EFI system, recovery,
// dynamic-disk, Storage Spaces or cluster partition, or an active MBR partition.
//
// If one of these facts cannot be read, Guard refuses disks with partitions. It then allows
// a disk without any, because none of the above can be on it, and because nothing could be
// partitioned otherwise on a node where a fact is missing for good.
//
// Refusals are hosterr.ErrFailedPrecondition, and [ErrNeedsUnknown] as well if facts are missing.
func Guard(ctx context.Context, d *Disk, l win32.Layout) error {
	if err := GuardState(ctx, d, l); err != nil || noPartitions(l) {
		return err
	}
	number, err := d.Number(ctx)
	if err != nil {
		return hosterr.Wrap("get the disk's number", "", err)
	}
	return d.RefuseTemporary(ctx, number.DeviceNumber)
}

// GuardState is Guard for a disk that is taken online or offline, which may be a temporary one.
func GuardState(ctx context.Context, d *Disk, l win32.Layout) error {
	return guard(ctx, d, l, noPartitions(l), systemEntry)
}

func noPartitions(l win32.Layout) bool { return len(Partitions(l)) == 0 && !superfloppy(l) }

// guard is [Guard]. unknown allows the disk if not all facts can be read, and entry names what
// makes a partition one that only needed disks have.
func guard(ctx context.Context, d *Disk, l win32.Layout, unknown bool, entry func(win32.Layout, win32.Partition) string) error {
	number, err := d.Number(ctx)
	if err != nil {
		return hosterr.Wrap("get the disk's number", "", err)
	}
	for _, p := range Used(l) {
		if why := entry(l, p); why != "" {
			return hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d has %s, so it is not changed", number.DeviceNumber, why)
		}
	}
	why, err := needed(ctx, d, number.DeviceNumber)
	switch {
	case why != "":
		return hosterr.Text(hosterr.ErrFailedPrecondition, "disk %d %s, so it is not changed", number.DeviceNumber, why)
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case removed(ctx, d):
		return hosterr.ErrNotFound
	case unknown:
		d.node.Log.Warn("Changing a disk although it is not known which disks the node needs", "disk", number.DeviceNumber, "err", err)
		return nil
	}
	// The kind of err, such as not found, is not the kind of this error.
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, hintUnknown, "%w: %v", ErrNeedsUnknown, err)
}

// ErrNeedsUnknown means that the node may need a disk, because not all facts about that can be
// read. It may pass.
var ErrNeedsUnknown = errors.New("cannot find out which disks the node needs, so no disk with partitions is changed")

const hintUnknown = "correct what the error names, such as a page file, dump file or directory whose drive does not respond, and try again"

// GuardRemoval refuses to end the session of a disk with partition table l that the node
// needs, like [Guard]. It allows a disk that only has partitions for starting Windows, such
// as the disk of a virtual machine: this machine does not run from it.
func GuardRemoval(ctx context.Context, d *Disk, l win32.Layout) error {
	return guard(ctx, d, l, noPartitions(l), poolEntry)
}

// removed reports whether the disk is gone, which is why facts about it cannot be read.
func removed(ctx context.Context, d *Disk) bool {
	_, err := d.Clustered(ctx)
	return errors.Is(err, hosterr.ErrNotFound)
}

// needed says why the node needs the disk, or returns "". With an error, another reason may
// not have been found.
func needed(ctx context.Context, d *Disk, number uint32) (why string, err error) {
	clustered, failed := d.Clustered(ctx)
	if clustered {
		return "belongs to a failover cluster", nil
	}
	places, err := neededPlaces(d.node)
	disks, unknown := disksOf(ctx, d.node, places)
	if why := disks[number]; why != "" {
		return why, nil
	}
	return "", errors.Join(failed, err, unknown)
}

// disksOf says why the disks of places are needed, by their numbers. With an error, some are
// missing.
func disksOf(ctx context.Context, n *node.Node, places []place) (why map[uint32]string, failed error) {
	why = map[uint32]string{}
	volumes := map[string][]win32.Extent{} // by mount point
	for _, p := range places {
		root, err := n.API.VolumePathName(p.path)
		if err != nil {
			if p.must || !noVolume(err) {
				failed = errors.Join(failed, fmt.Errorf("find the volume of %q: %w", p.path, err))
			}
			continue
		}
		extents, known := volumes[strings.ToLower(root)]
		if !known {
			extents, err = extentsAt(ctx, n, root)
			if err != nil && (p.must || !noVolume(err)) {
				failed = errors.Join(failed, err)
				continue
			}
			volumes[strings.ToLower(root)] = extents
		}
		for _, e := range extents {
			if why[e.Disk] == "" {
				why[e.Disk] = p.why
			}
		}
	}
	return why, failed
}

// WindowsDisks says why Windows needs disks, by their numbers: they have its directory, a page
// file or the dump file. With an error, some are missing.
func WindowsDisks(ctx context.Context, n *node.Node) (map[uint32]string, error) {
	places, err := windowsPlaces(n)
	disks, unknown := disksOf(ctx, n, places)
	return disks, errors.Join(err, unknown)
}

// StartsWindows names what makes a disk with partition table l one that starts or repairs a
// Windows, or returns "".
func StartsWindows(l win32.Layout) string {
	for _, p := range Used(l) {
		if why := bootEntry(l, p); why != "" {
			return why
		}
	}
	return ""
}

// temporaryLabel is the label of the volume of an Azure machine's temporary disk, which is also
// named its resource disk. Azure gives the machine an empty one when it moves, is resized or is
// deallocated.
//
// Source: Azure's provisioning agent formats the disk with this label (observed on nodes, and in
// descriptions of Azure's machines, beside the file DATALOSS_WARNING_README.txt). FormatVolume
// makes empty labels, so no volume of a driver has it. A drive letter or an MBR is no sign:
// Windows gives letters to data disks as well.
const temporaryLabel = "Temporary Storage"

// Temporary returns a function that reports whether an open disk is the temporary one of an Azure
// machine. It asks no volume of a disk that surely is not, because a volume may hang.
func Temporary(ctx context.Context, n *node.Node) func(number uint32, d *Disk) (bool, error) {
	never := neverTemporary(ctx, n)
	type found struct {
		all     []Located
		unknown []silent
		err     error
	}
	find := sync.OnceValue(func() (f found) {
		f.all, f.unknown, f.err = volumes(ctx, n)
		return f
	})
	return func(number uint32, d *Disk) (bool, error) {
		if never(number, d) {
			return false, nil
		}
		f := find()
		if f.err != nil {
			return false, f.err
		}
		is, err := d.labeled(ctx, Sorted(f.all, number))
		i := slices.IndexFunc(f.unknown, func(s silent) bool { return !unready(s.err) })
		if is || err != nil || i < 0 {
			return is, err
		}
		l, err := d.Layout(ctx)
		if err != nil {
			return false, err
		}
		if data := dataPartitions(l); len(data) > 0 && !complete(number, l, data, f.all) {
			return false, f.unknown[i].mayLieOn(number)
		}
		return false, nil
	}
}

// neverTemporary returns a function that reports whether a disk surely is not the temporary disk
// of an Azure machine. A disk that does not say its product is none, as its label alone says
// nothing. What else cannot be read makes no disk sure.
//
// Source: Azure attaches data disks to a SCSI controller of their own, at target 0. The temporary
// disk is on the controller of Windows' disk (generation 2), or is an IDE disk, at target 1
// (generation 1): the rules for udev of WALinuxAgent, and the lists of SCSI addresses in
// andyzhangx/demo, debugging of the attachment of Azure's disks.
func neverTemporary(ctx context.Context, n *node.Node) func(number uint32, d *Disk) bool {
	type windows struct {
		disk  uint32
		port  uint8
		known bool
	}
	find := sync.OnceValue(func() (w windows) {
		es, err := windowsExtents(ctx, n)
		if err != nil {
			return w
		}
		d, err := OpenDisk(ctx, n, es[0].Disk, Query)
		if err != nil {
			return w
		}
		defer d.Close()
		desc, err := d.Descriptor(ctx)
		product := strings.TrimSpace(desc.Product)
		if err != nil || !hyperV(product) || product == scsiProduct && strings.TrimSpace(desc.Vendor) != "Msft" {
			return w // another maker's machine, whose controllers say nothing
		}
		addr, err := d.SCSIAddress(ctx)
		return windows{es[0].Disk, addr.Port, err == nil}
	})
	return func(number uint32, d *Disk) bool {
		product, err := d.product(ctx)
		if err != nil || !hyperV(product) {
			return true
		}
		w := find()
		if !w.known || number == w.disk {
			return w.known
		}
		addr, err := d.SCSIAddress(ctx)
		return err == nil && product == scsiProduct && addr.Target == 0 && addr.Port != w.port
	}
}

// Products of disks of Hyper-V, which Azure's machines run on: its SCSI controllers, and the IDE
// controllers of generation 1, which have names that begin so.
//
// Source: Windows prints "Msft Virtual Disk" for disks of Azure's SCSI controllers
// (azuredisk-csi-driver issue 2661, the rules for udev of WALinuxAgent), and "Virtual HD …" for
// those of the IDE controllers of generation 1.
const (
	scsiProduct = "Virtual Disk"
	ideProduct  = "Virtual HD"
)

func hyperV(product string) bool {
	return product == scsiProduct || strings.HasPrefix(product, ideProduct)
}

// product returns the product of the disk, or "" if it does not know it.
func (d *Disk) product(ctx context.Context) (string, error) {
	desc, err := d.Descriptor(ctx)
	if unlabeled(err) {
		return "", nil
	}
	return strings.TrimSpace(desc.Product), hosterr.Wrap("get the disk's product", "", err)
}

// labeled reports whether one of the disk's volumes has the label of the temporary disk.
func (d *Disk) labeled(ctx context.Context, all []Located) (bool, error) {
	for _, v := range all {
		var info win32.VolumeInfo
		err := d.retry(ctx, func() (err error) {
			info, err = d.node.API.VolumeInformation(v.ID)
			return err
		})
		switch {
		case err == nil && info.Label == temporaryLabel:
			return true, nil
		case err != nil && !unlabeled(err):
			return false, hosterr.Wrap("get the label of volume", v.ID, Gone(err))
		}
	}
	return false, nil
}

// unlabeled reports whether err is that of a volume whose file system Windows does not mount: it
// has none, is damaged or offline, or BitLocker has locked it (FVE_E_LOCKED_VOLUME, winerror.h).
// A device that does not know the question is no volume, and no disk of Hyper-V.
func unlabeled(err error) bool {
	return win32.IsCode(err, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED, win32.ERROR_UNRECOGNIZED_VOLUME, win32.ERROR_DISK_CORRUPT, win32.ERROR_FILE_CORRUPT, win32.ERROR_NOT_READY, 0x80310000)
}

// RefuseTemporary returns an error for the temporary disk of an Azure machine, and if it cannot
// find out whether the disk is one.
func (d *Disk) RefuseTemporary(ctx context.Context, number uint32) error {
	if product, err := d.product(ctx); err != nil || !hyperV(product) {
		return err
	}
	l, err := d.Layout(ctx)
	if err != nil {
		return err
	}
	all, err := d.search(ctx, number, l, dataPartitions(l), true, false) // the others need no volume
	if err != nil {
		return err
	}
	if temporary, err := d.labeled(ctx, all); err != nil || !temporary {
		return err
	}
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition, "find the disk by its adapter as well as its LUN: the temporary disk is not on the adapter of the data disks; if it is a data disk, change the label of its volume",
		"disk %d is the temporary disk of an Azure machine (its volume is labeled %q), which Azure empties, so it is not used", number, temporaryLabel)
}

// place is a path whose disks the node needs.
type place struct {
	path, why string
	must      bool // Windows always has it
}

// Where Windows says which files it keeps open itself
// (docs/develop/contract/disks.md#disks-that-windows-needs).
const (
	memoryManagement = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management`
	crashControl     = `SYSTEM\CurrentControlSet\Control\CrashControl`
)

// neededPlaces returns the paths whose disks the node needs. With an error, some are missing.
func neededPlaces(n *node.Node) ([]place, error) {
	places, err := windowsPlaces(n)
	seen := map[string]bool{}
	for _, dir := range slices.Concat(n.WorkingDirs, kubernetesDirs[:], n.ProtectedDirs) {
		if key := strings.ToLower(dir); dir != "" && !seen[key] {
			seen[key] = true
			places = append(places, place{path: dir, why: "holds the directory " + dir})
		}
	}
	return places, err
}

// windowsPlaces returns the paths whose disks Windows needs. With an error, some are missing.
func windowsPlaces(n *node.Node) ([]place, error) {
	var places []place
	var failed error
	dir, err := n.API.WindowsDirectory()
	if err != nil {
		failed = fmt.Errorf("find the Windows directory: %w", err)
	} else {
		places = append(places, place{dir, "holds Windows", true})
	}
	seen := map[string]bool{}
	add := func(path, why string) {
		if key := strings.ToLower(path); path != "" && !seen[key] {
			seen[key] = true
			places = append(places, place{path: path, why: why})
		}
	}
	for _, v := range []struct{ key, name, what string }{
		{memoryManagement, "ExistingPageFiles", "a page file"},
		{memoryManagement, "PagingFiles", "a page file"},
		{crashControl, "DedicatedDumpFile", "the dump file"},
	} {
		files, err := n.API.RegistryText(v.key, v.name)
		if err != nil && !win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
			failed = errors.Join(failed, fmt.Errorf("read %s of %s: %w", v.name, v.key, err))
		}
		for _, file := range files {
			// \??\D:\pagefile.sys, \??\Volume{…}\pagefile.sys, or D:\pagefile.sys and two
			// sizes; ?: leaves the drive to Windows, which lists the file in ExistingPageFiles.
			if rest, nt := strings.CutPrefix(file, `\??\`); nt {
				if file = rest; len(file) > len(`Volume{`) && strings.EqualFold(file[:len(`Volume{`)], `Volume{`) {
					file = `\\?\` + file
				}
			}
			if v.name == "PagingFiles" {
				file, _, _ = strings.Cut(file, " ")
			}
			if !strings.HasPrefix(file, "?") {
				add(file, fmt.Sprintf("has %s (%s)", v.what, file))
			}
		}
	}
	return places, failed
}

// kubernetesDirs are where the kubelet and the container runtimes keep their data unless
// they are configured otherwise.
var kubernetesDirs = [...]string{`C:\var\lib\kubelet`, `C:\ProgramData\containerd`, `C:\ProgramData\docker`}

// noVolume reports whether err means that a path is on no volume of a disk: its drive does
// not exist, or is a network drive.
func noVolume(err error) bool {
	return win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_INVALID_DRIVE, win32.ERROR_INVALID_NAME,
		win32.ERROR_BAD_PATHNAME, win32.ERROR_NOT_A_REPARSE_POINT, win32.ERROR_INVALID_PARAMETER)
}

// GuardVolume refuses to mount the volume with these extents if Windows needs it:
// the volume of the Windows directory, and those that start or repair Windows. It also
// refuses those of the temporary disk of an Azure machine.
// Mounted below a container's directory, it would be open to the container. A
// data volume may be mounted, even from the disk that holds Windows.
func GuardVolume(ctx context.Context, n *node.Node, extents []win32.Extent) error {
	system, err := windowsExtents(ctx, n)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		return hosterr.Text(hosterr.ErrFailedPrecondition, "cannot find the volume that holds Windows, so no volume is mounted: %v", err)
	}
	for _, e := range extents {
		for _, s := range system {
			if e.Disk == s.Disk && e.Offset < s.Offset+s.Length && s.Offset < e.Offset+e.Length {
				return hosterr.Text(hosterr.ErrFailedPrecondition, "it holds Windows, so it is not mounted")
			}
		}
		if err := guardPlace(ctx, n, e); err != nil {
			return err
		}
	}
	return nil
}

// guardPlace refuses to mount a volume in a place that starts or repairs Windows, or on the
// temporary disk of an Azure machine.
func guardPlace(ctx context.Context, n *node.Node, e win32.Extent) error {
	d, err := OpenDisk(ctx, n, e.Disk, Query)
	if err != nil {
		return hosterr.Wrap("open disk", strconv.FormatUint(uint64(e.Disk), 10), err)
	}
	defer d.Close()
	l, err := d.Layout(ctx)
	if err != nil {
		return err
	}
	if p, ok := At(l, e.Offset); ok {
		if why := bootEntry(l, p); why != "" {
			return hosterr.Text(hosterr.ErrFailedPrecondition, "it is %s, so it is not mounted", why)
		}
	}
	return d.RefuseTemporary(ctx, e.Disk)
}

// bootEntry names what makes p a partition that starts or repairs Windows. It
// returns "" for other partitions.
func bootEntry(l win32.Layout, p win32.Partition) string {
	switch {
	case l.Style == win32.PARTITION_STYLE_MBR && p.Active:
		return "an active partition"
	case l.Style == win32.PARTITION_STYLE_MBR && p.MBRType == mbrRecovery:
		return "a recovery partition"
	case l.Style != win32.PARTITION_STYLE_GPT:
		return ""
	case p.Type == win32.PARTITION_SYSTEM_GUID:
		return "an EFI system partition"
	case p.Type == win32.PARTITION_MSFT_RECOVERY_GUID:
		return "a recovery partition"
	}
	return ""
}

// systemEntry names what makes p a partition that only disks have that Windows needs. It
// returns "" for other partitions.
func systemEntry(l win32.Layout, p win32.Partition) string {
	return cmp.Or(bootEntry(l, p), poolEntry(l, p))
}

// poolEntry names what makes p a part of a store of several disks, whose volumes are not
// partitions. It returns "" for other partitions.
func poolEntry(l win32.Layout, p win32.Partition) string {
	if l.Style == win32.PARTITION_STYLE_MBR {
		switch p.MBRType {
		case mbrLDM:
			return "a dynamic-disk partition"
		case mbrSpaces, mbrSpacesData:
			return "a Storage Spaces partition"
		}
		return ""
	}
	switch p.Type {
	case win32.PARTITION_LDM_DATA_GUID, win32.PARTITION_LDM_METADATA_GUID:
		return "a dynamic-disk partition"
	case win32.PARTITION_SPACES_GUID, win32.PARTITION_SPACES_DATA_GUID,
		win32.PARTITION_SBL_CACHE_SSD_GUID, win32.PARTITION_SBL_CACHE_SSD_RESERVED_GUID, win32.PARTITION_SBL_CACHE_HDD_GUID:
		return "a Storage Spaces partition"
	case win32.PARTITION_CLUSTER_GUID:
		return "a partition of a failover cluster"
	}
	return ""
}

// MBR types (winioctl.h: PARTITION_MSFT_RECOVERY, PARTITION_LDM, PARTITION_SPACES_DATA,
// PARTITION_SPACES).
const (
	mbrRecovery   = 0x27
	mbrLDM        = 0x42
	mbrSpacesData = 0xD7
	mbrSpaces     = 0xE7
)

// windowsExtents returns the extents of the volume with the Windows directory.
func windowsExtents(ctx context.Context, n *node.Node) ([]win32.Extent, error) {
	dir, err := n.API.WindowsDirectory()
	if err != nil {
		return nil, fmt.Errorf("find the Windows directory: %w", err)
	}
	root, err := n.API.VolumePathName(dir)
	if err != nil {
		return nil, fmt.Errorf("find the volume of %q: %w", dir, err)
	}
	return extentsAt(ctx, n, root)
}

// extentsAt returns the extents of the volume that is mounted at root.
func extentsAt(ctx context.Context, n *node.Node, root string) ([]win32.Extent, error) {
	id, err := n.API.VolumeNameForMountPoint(root)
	if err != nil {
		return nil, fmt.Errorf("find the volume of %q: %w", root, err)
	}
	return extentsOf(ctx, n, id)
}

func extentsOf(ctx context.Context, n *node.Node, id string) ([]win32.Extent, error) {
	v, err := OpenVolume(ctx, n, id, Query)
	if err != nil {
		return nil, fmt.Errorf("open volume %q: %w", id, err)
	}
	defer v.Close()
	es, err := v.Extents(ctx)
	if err == nil && len(es) == 0 {
		err = fmt.Errorf("volume %q has no extents", id)
	}
	return es, err
}
