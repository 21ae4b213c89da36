package mounter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// Identity is how a storage system names a disk. All fields that are set must fit. At least one
// of those before Adapter must be set.
type Identity struct {
	// SerialNumber is the whole serial number.
	SerialNumber string
	// SerialPrefix is the beginning of the serial number, which ends there or goes on with
	// neither a letter nor a digit.
	SerialPrefix string
	// Page83 is the identifier of page 83h. Case and hyphens do not matter.
	Page83 string
	// Page83LastWord is the last word of the identifier of page 83h.
	Page83LastWord string
	// EUI64 is the identifier of an NVMe namespace, which is its serial number or stands in
	// page 83h. 0 means any.
	EUI64 uint64
	// LUN is the logical unit number. Disks on several adapters may have the same: without
	// Adapter or NotAdapter it needs [Abilities.GuardsDisks].
	LUN *uint32
	// AzureLUN is the LUN of a data disk of Azure, SCSI or NVMe. Like LUN it needs
	// [Abilities.GuardsDisks], and disk/v2alpha1 on a node that has a disk without a LUN, as NVMe
	// disks are in older versions. There, LUNs above 8 of NVMe disks are not known.
	AzureLUN *uint32

	Adapter, Bus, Target *uint32
	// NotAdapter are adapters whose disks are others.
	NotAdapter []uint32
}

// EBS returns the identity of a volume of Amazon EBS, such as vol-02190fee5da4d75e3.
func EBS(volumeID string) Identity {
	return Identity{SerialPrefix: strings.ReplaceAll(volumeID, "-", "")}
}

// GCE returns the identity of a SCSI disk of Compute Engine by its device name. For an NVMe disk
// the driver asks the metadata server for its namespace, and sets EUI64.
func GCE(device string) Identity { return Identity{Page83LastWord: device} }

// AzureLUN returns the identity of a data disk of Azure.
func AzureLUN(lun uint32) Identity { return Identity{AzureLUN: &lun} }

// VSphere returns the identity of a disk by its UUID.
func VSphere(uuid string) Identity { return Identity{Page83: uuid} }

// byPlace reports whether only the place says which disk it is.
func (id Identity) byPlace() bool {
	return id.SerialNumber == "" && id.SerialPrefix == "" && id.Page83 == "" && id.Page83LastWord == "" && id.EUI64 == 0
}

func (id Identity) lunAlone() bool {
	return id.byPlace() && id.Adapter == nil && len(id.NotAdapter) == 0
}

func (id Identity) needsPlace() bool {
	return id.LUN != nil || id.AzureLUN != nil || id.Adapter != nil || id.Bus != nil || id.Target != nil || len(id.NotAdapter) > 0
}

func (id Identity) check() error {
	if id.byPlace() && id.LUN == nil && id.AzureLUN == nil {
		return hosterr.Text(hosterr.ErrInvalid, "the identity of the disk is empty, want a serial number, an identifier of page 83h, an EUI-64 or a LUN")
	}
	return nil
}

// String returns the fields that are set.
func (id Identity) String() string {
	var s []string
	add := func(name, value string) {
		if value != "" {
			s = append(s, name+" "+hosterr.Quote(value))
		}
	}
	number := func(name string, n *uint32) {
		if n != nil {
			s = append(s, fmt.Sprintf("%s %d", name, *n))
		}
	}
	add("serial number", id.SerialNumber)
	add("serial number that begins with", id.SerialPrefix)
	add("page 83h", id.Page83)
	add("page 83h that ends with", id.Page83LastWord)
	if id.EUI64 != 0 {
		s = append(s, fmt.Sprintf("EUI-64 %016x", id.EUI64))
	}
	number("LUN", id.LUN)
	number("LUN on Azure", id.AzureLUN)
	number("adapter", id.Adapter)
	number("bus", id.Bus)
	number("target", id.Target)
	if len(id.NotAdapter) > 0 {
		s = append(s, fmt.Sprintf("no adapter of %d", id.NotAdapter))
	}
	return strings.Join(s, ", ")
}

func (id Identity) fits(d Disk) bool {
	serial := strings.TrimSpace(d.IDs.SerialNumber)
	words := strings.Fields(d.IDs.Page83)
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	if id.SerialNumber != "" && id.SerialNumber != serial ||
		id.Page83 != "" && plain(id.Page83) != plain(d.IDs.Page83) ||
		id.Page83LastWord != "" && (len(words) == 0 || words[len(words)-1] != id.Page83LastWord) {
		return false
	}
	if id.SerialPrefix != "" {
		rest, ok := strings.CutPrefix(serial, id.SerialPrefix)
		if !ok || strings.IndexFunc(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) == 0 {
			return false
		}
	}
	if id.EUI64 != 0 {
		if n, ok := namespace(d.IDs); !ok || n != id.EUI64 {
			return false
		}
	}
	at := func(want *uint32, is string) bool { return want == nil || is == strconv.FormatUint(uint64(*want), 10) }
	if id.AzureLUN != nil && !at(id.AzureLUN, d.azureLUN()) || !at(id.LUN, d.Location.LUNID) || !at(id.Adapter, d.Location.Adapter) || !at(id.Bus, d.Location.Bus) || !at(id.Target, d.Location.Target) {
		return false
	}
	return len(id.NotAdapter) == 0 || d.Location.Adapter != "" &&
		!slices.ContainsFunc(id.NotAdapter, func(n uint32) bool { return at(&n, d.Location.Adapter) })
}

// namespace returns the EUI-64 of an NVMe disk. Windows shows it with an identifier of page 83h
// as eui.0123456789abcdef, and otherwise as the serial number 0123_4567_89AB_CDEF. or longer.
func namespace(ids disk.DiskIDs) (uint64, bool) {
	digits, ok := strings.CutPrefix(ids.Page83, "eui.")
	if !ok {
		digits = strings.ReplaceAll(strings.TrimSuffix(ids.SerialNumber, "."), "_", "")
		if len(digits) != 16 && len(digits) != 32 {
			return 0, false
		}
	}
	if len(digits) < 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits[:16], 16, 64)
	return n, err == nil
}

// Disk is a disk as it was found. Its number is valid while it is attached, so each method that
// changes the disk first compares the identity again.
type Disk struct {
	Number   uint32
	IDs      disk.DiskIDs
	Location disk.DiskLocation
	// Info has everything that is known about the disk, or is nil without disk/v2alpha1.
	Info  *disk.DiskInfo
	Bytes int64
}

// azureLUN returns the LUN on Azure, or "" for a disk that is none of its data disks.
func (d Disk) azureLUN() string {
	switch i := d.Info; {
	case i == nil:
		return d.Location.LUNID
	case i.BusType == "NVMe" && !i.IsBoot && !i.IsTemporary:
		return i.AzureLUN
	case i.BusType == "NVMe", i.BusType == "iSCSI", i.BusType == "", i.IsBoot, i.IsTemporary:
		return ""
	}
	return d.Location.LUNID
}

// identifiers returns all identifiers of the disk.
func (d Disk) identifiers() []string {
	all := []string{d.IDs.SerialNumber}
	if i := d.Info; i != nil { // it has the identifier of page 83h, unless that is of a group
		all = append(append(all, i.EUI64, i.NGUID, i.WWN), i.Page83...)
	} else {
		all = append(all, strings.TrimRight(d.IDs.Page83, "\x00"))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return strings.TrimSpace(id) == "" })
}

// String returns the number and what identifies the disk.
func (d Disk) String() string {
	return fmt.Sprintf("%d (serial number %s, page 83h %s, LUN %s)", d.Number, hosterr.Quote(d.IDs.SerialNumber), hosterr.Quote(d.IDs.Page83), hosterr.Quote(d.Location.LUNID))
}

const (
	// pollEvery is the time between two looks at what arrives.
	pollEvery = 250 * time.Millisecond
	// rescanEvery is the shortest time between two rescans while FindDisk waits.
	rescanEvery = 5 * time.Second
)

// FindDisk returns the disk with an identity. It waits for a disk that was just attached until ctx or
// Options.Arrival ends, and then fails with hosterr.ErrUnavailable. Two disks that fit are an error: the
// wrong one would be formatted. The disk with the kubelet's directory is never found by its
// place.
//
// A LUN alone fails with hosterr.ErrUnimplemented without [Abilities.GuardsDisks], and where
// no version from volume/v2alpha1 on is served, which says where the kubelet's directory is.
func (m *Mounter) FindDisk(ctx context.Context, id Identity) (Disk, error) {
	d, err := m.findDisk(ctx, id)
	return d, hosterr.Wrap("find the disk with", id.String(), err)
}

func (m *Mounter) findDisk(ctx context.Context, id Identity) (Disk, error) {
	ctx, skip, err := m.prepare(ctx, id)
	if err != nil {
		return Disk{}, err
	}
	// A disk that was detached may still be listed with the LUN of the new one.
	d, err := m.await(ctx, id.byPlace(), func(ctx context.Context) ([]Disk, int, error) { return m.look(ctx, id, skip) })
	if errors.Is(err, hosterr.ErrUnavailable) && id.AzureLUN != nil && *id.AzureLUN > 8 {
		err = hosterr.WithHint("", "", err, "on nodes with NVMe disks use LUNs up to 8: Windows does not show larger ones in a way that is known")
	}
	return d, err
}

// prepare checks an identity. It returns the context with which its disk is looked for, and the
// disks that it may not find.
func (m *Mounter) prepare(ctx context.Context, id Identity) (relying context.Context, skip []uint32, err error) {
	if err := m.needs("disk", "volume"); err != nil {
		return nil, nil, err
	}
	if err := id.check(); err != nil || !id.byPlace() {
		return ctx, nil, err
	}
	if id.lunAlone() {
		relying, can, err := m.guaranteed(ctx)
		if err != nil {
			return nil, nil, err
		}
		if ctx = relying; !can.GuardsDisks {
			return nil, nil, hosterr.TextWithHint(hosterr.ErrUnimplemented, "set Adapter, or in NotAdapter the adapters of Windows' disk and of the temporary disk",
				"the CSI Proxy of this node lists the disks of Windows, too, so a LUN alone may find one of them")
		}
	}
	closest, err := m.node.Volume.GetClosestVolumeIDFromTargetPath(ctx, &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: m.node.KubeletDir})
	if errors.Is(err, hosterr.ErrUnimplemented) && !id.lunAlone() {
		return ctx, nil, nil
	}
	if errors.Is(err, hosterr.ErrUnimplemented) {
		err = hosterr.WithHint("keep the disk of Windows from being found by its LUN", "", err, "mount the pipe of volume/v2alpha1, or set Adapter, or in NotAdapter the adapters of Windows' disk and of the temporary disk")
	}
	if err != nil {
		return nil, nil, hosterr.Wrap("find the volume of the kubelet's directory", hosterr.Quote(m.node.KubeletDir), err)
	}
	own, err := m.diskOf(ctx, closest.VolumeID)
	return ctx, []uint32{own}, err
}

// await looks until one disk is found.
func (m *Mounter) await(ctx context.Context, rescan bool, look func(context.Context) ([]Disk, int, error)) (Disk, error) {
	clock, limit := m.options.Clock, m.options.Arrival
	start := clock.Now()
	last := start.Add(-rescanEvery) // of a rescan
	var missing error
	for {
		found, seen, err := []Disk(nil), 0, error(nil)
		if rescan {
			last = clock.Now()
			err = m.Rescan(ctx)
		}
		if err == nil {
			found, seen, err = look(ctx)
		}
		if err == nil && len(found) == 1 {
			found, err = m.known(ctx, found[0])
		}
		if err == nil && len(found) == 1 {
			found[0].Bytes, err = m.sizeOf(ctx, found[0].Number)
			if err == nil {
				return found[0], nil
			}
		}
		switch {
		case err != nil && ctx.Err() != nil && missing != nil:
			return Disk{}, missing
		case err != nil:
			return Disk{}, err
		case len(found) > 1:
			return Disk{}, hosterr.Text(hosterr.ErrFailedPrecondition, "%d disks fit, want one: %v", len(found), found)
		}
		missing = hosterr.TextWithHint(hosterr.ErrUnavailable, "check that the storage system has attached the disk to this node", "none of %d disks fits", seen)
		if limit > 0 && clock.Now().Sub(start) >= limit {
			return Disk{}, missing
		}
		if rescan = clock.Now().Sub(last) >= rescanEvery; rescan {
			continue
		}
		if clock.Sleep(ctx, pollEvery) != nil {
			return Disk{}, missing
		}
		rescan = clock.Now().Sub(last) >= rescanEvery
	}
}

// look returns the disks that fit, by their numbers, and how many there are.
func (m *Mounter) look(ctx context.Context, id Identity, skip []uint32) (found []Disk, seen int, err error) {
	all, err := m.list(ctx, !id.byPlace(), id.needsPlace())
	if err == nil && id.AzureLUN != nil {
		err = m.addInfo(ctx, all, id, skip)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if d := all[number]; id.fits(d) && !slices.Contains(skip, number) {
			found = append(found, d)
		}
	}
	return found, len(all), nil
}

// addInfo adds what only disk/v2alpha1 knows to the disks of a node on Azure. Without it, a disk
// that has no LUN may be any of Azure's NVMe disks.
func (m *Mounter) addInfo(ctx context.Context, all map[uint32]Disk, id Identity, skip []uint32) error {
	known, err := m.info(ctx)
	if err != nil {
		return err
	}
	id.LUN, id.AzureLUN = nil, nil
	for number, d := range all {
		if d.Info = known[number]; known != nil && (d.Info == nil || !d.inPlace()) {
			delete(all, number) // it left, or arrived, between the calls
			continue
		}
		if d.Info == nil && d.Location != (disk.DiskLocation{}) && d.Location.LUNID == "" && id.fits(d) && !slices.Contains(skip, number) {
			return hosterr.TextWithHint(hosterr.ErrUnimplemented, "let the driver open the pipe of disk/v2alpha1, or upgrade the CSI Proxy of this node; for a SCSI disk, set LUN and Adapter instead",
				"disk %d has no LUN, as NVMe disks of Azure, and the version of the disk API that is used does not give that of NVMe disks", number)
		}
		all[number] = d
	}
	return nil
}

// info returns everything that is known about the disks, or nil without disk/v2alpha1.
func (m *Mounter) info(ctx context.Context) (map[uint32]*disk.DiskInfo, error) {
	d, ok := m.node.Disk.(disk.Service)
	if !ok {
		return nil, nil
	}
	out, err := d.ListDisks(ctx, &disk.ListDisksRequest{})
	if errors.Is(err, hosterr.ErrUnimplemented) && ctx.Err() == nil {
		return nil, nil
	}
	if err != nil {
		return nil, hosterr.Wrap("list everything about disks", "", err)
	}
	return out.Disks, nil
}

// known returns a disk with everything that is known about it, or none if it is another one by
// now.
func (m *Mounter) known(ctx context.Context, d Disk) ([]Disk, error) {
	if d.Info == nil {
		all, err := m.info(ctx)
		if err != nil || all == nil {
			return []Disk{d}, err
		}
		if d.Info = all[d.Number]; d.Info == nil {
			return nil, nil
		}
	}
	if d.IDs != (disk.DiskIDs{}) && d.Info.SerialNumber != d.IDs.SerialNumber || !d.inPlace() {
		return nil, nil
	}
	return []Disk{d}, nil
}

// inPlace reports whether what is known about a disk without identifiers is of the disk at its
// place: another one may have its number by now.
func (d Disk) inPlace() bool {
	if d.IDs != (disk.DiskIDs{}) || d.Info == nil {
		return true
	}
	for _, pair := range [...][2]string{{d.Location.Adapter, d.Info.Adapter}, {d.Location.Target, d.Info.Target}, {d.Location.LUNID, d.Info.LUN}} {
		if pair[0] != "" && pair[1] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

// list returns the disks of the node. Identifiers and places that are not wanted may be missing.
func (m *Mounter) list(ctx context.Context, ids, places bool) (map[uint32]Disk, error) {
	all := map[uint32]Disk{}
	named, err := m.node.Disk.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil && (ids || ctx.Err() != nil) {
		return nil, hosterr.Wrap("list the identifiers of disks", "", err)
	}
	if err == nil {
		for number, n := range named.DiskIDs {
			if n != nil {
				all[number] = Disk{Number: number, IDs: *n}
			}
		}
	}
	placed, err := m.node.Disk.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
	if err != nil && (places || ctx.Err() != nil) {
		return nil, hosterr.Wrap("list the locations of disks", "", err)
	}
	if err == nil {
		for number, l := range placed.DiskLocations {
			if l != nil {
				d := all[number]
				d.Number, d.Location = number, *l
				all[number] = d
			}
		}
	}
	return all, nil
}

// same returns an error if a disk's number is that of another disk now. A disk without
// identifiers is known by its place.
func (m *Mounter) same(ctx context.Context, d Disk) error {
	ids := d.IDs != disk.DiskIDs{}
	if !ids && d.Info != nil {
		return m.sameInfo(ctx, d)
	}
	places := !ids
	if places && d.Location == (disk.DiskLocation{}) {
		return hosterr.Text(hosterr.ErrInvalid, "disk %d has no identity: take the Disk that FindDisk or Login returned", d.Number)
	}
	all, err := m.list(ctx, ids, places)
	if err != nil {
		return err
	}
	now, ok := all[d.Number]
	switch {
	case !ok:
		return hosterr.Text(hosterr.ErrUnavailable, "the disk is not attached any more")
	case ids && now.IDs != d.IDs, places && now.Location != d.Location:
		return hosterr.Text(hosterr.ErrUnavailable, "the number is that of another disk now, %s", now)
	}
	return nil
}

// sameInfo is same for a disk that has neither a serial number nor an identifier of page 83h, such
// as NVMe disks, which have one place together.
func (m *Mounter) sameInfo(ctx context.Context, d Disk) error {
	all, err := m.info(ctx)
	if err != nil {
		return err
	}
	now := all[d.Number]
	switch {
	case now == nil:
		return hosterr.Text(hosterr.ErrUnavailable, "the disk is not attached any more, or the CSI Proxy of this node is another one now")
	case now.DevicePath != d.Info.DevicePath, now.AzureLUN != d.Info.AzureLUN, now.SerialNumber != d.Info.SerialNumber, !slices.Equal(now.Page83, d.Info.Page83):
		return hosterr.Text(hosterr.ErrUnavailable, "the number is that of another disk now, %s", Disk{Number: d.Number, Info: now, IDs: disk.DiskIDs{SerialNumber: now.SerialNumber}})
	}
	return nil
}

// change makes a call that changes a disk, with the identifiers that the disk must have. A node
// without [Abilities.ChecksDisks] refuses them before it changes anything, and gets none.
func (d Disk) change(call func(*disk.DiskIdentity) error) error {
	ids := d.identifiers()
	if len(ids) > 0 {
		if err := call(&disk.DiskIdentity{Identifiers: ids}); !errors.Is(err, hosterr.ErrUnimplemented) {
			return err
		}
	}
	return call(nil)
}

// Rescan makes the node look for new disks and new sizes.
func (m *Mounter) Rescan(ctx context.Context) error {
	if err := m.needs("disk"); err != nil {
		return err
	}
	_, err := m.node.Disk.Rescan(ctx, &disk.RescanRequest{})
	return hosterr.Wrap("rescan disks", "", err)
}

func (m *Mounter) sizeOf(ctx context.Context, number uint32) (int64, error) {
	out, err := m.node.Disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		return 0, hosterr.Wrap("get the size of disk", strconv.FormatUint(uint64(number), 10), err)
	}
	return out.TotalBytes, nil
}

// diskOf returns the number of a volume's disk.
func (m *Mounter) diskOf(ctx context.Context, volumeID string) (uint32, error) {
	out, err := m.node.Volume.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: volumeID})
	if err != nil {
		return 0, hosterr.Wrap("find the disk of volume", hosterr.Quote(volumeID), err)
	}
	return out.DiskNumber, nil
}
