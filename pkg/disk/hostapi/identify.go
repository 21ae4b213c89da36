package api

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// ListDiskIDs implements [HostAPI].
func (d DiskAPI) ListDiskIDs() (map[uint32]DiskIDs, error) {
	if err := d.host.Ready(); err != nil {
		return nil, err
	}
	all := map[uint32]DiskIDs{}
	err := storage.EachDisk(d.host.Ctx, d.host.Node, storage.Query, func(number uint32, disk *storage.Disk) {
		all[number] = DiskIDs{Page83: d.page83(number, disk), SerialNumber: d.serialNumber(number, disk)}
	})
	if err == nil {
		err = d.host.Ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// page83 returns the disk's page 83h identifier, or "". NVMe and virtual disks often
// have none and do not support the query.
func (d DiskAPI) page83(number uint32, disk *storage.Disk) string {
	ids, err := d.identifiers(disk)
	if err != nil {
		d.logUnreadable(number, "page 83h identifier", err)
	}
	return page83Of(ids)
}

// identifiers returns the identifiers of the disk itself in its page 83h. With an error it returns
// those before the malformed one.
func (d DiskAPI) identifiers(disk *storage.Disk) ([]win32.Identifier, error) {
	const size = 4096
	b, err := disk.Property(d.host.Ctx, win32.StorageDeviceIdProperty, size)
	if err != nil {
		return nil, err
	}
	ids, err := win32.DecodeIdentifiers(b)
	return ofDisk(ids), err
}

// ofDisk returns the identifiers of a disk itself: not those of its port or target.
func ofDisk(ids []win32.Identifier) []win32.Identifier {
	return slices.DeleteFunc(ids, func(id win32.Identifier) bool { return id.Association != win32.StorageIdAssocDevice })
}

// page83Of returns the first binary or ASCII identifier. Drivers have stored the identifiers
// that this rule selects, so it does not prefer better types that follow, nor skip that of a group,
// and skips UTF-8 names.
func page83Of(ids []win32.Identifier) string {
	for _, id := range ids {
		switch id.CodeSet {
		case win32.StorageIdCodeSetBinary:
			return hex.EncodeToString(id.ID)
		case win32.StorageIdCodeSetAscii:
			return strings.ToValidUTF8(string(id.ID), "\uFFFD")
		}
	}
	return ""
}

func (d DiskAPI) serialNumber(number uint32, disk *storage.Disk) string {
	desc, err := disk.Descriptor(d.host.Ctx)
	if err != nil {
		d.logUnreadable(number, "serial number", err)
		return ""
	}
	return trimmed(desc.SerialNumber)
}

// trimmed removes leading and trailing blanks and control characters from a device's text.
func trimmed(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// logUnreadable logs that a property of a disk could not be read. Disks that do not
// support a query are common.
func (d DiskAPI) logUnreadable(number uint32, property string, err error) {
	log := d.host.Node.Log.Warn
	if errors.Is(err, errors.ErrUnsupported) {
		log = d.host.Node.Log.Debug
	}
	log("Failed to read a property of a disk", "disk", number, "property", property, "err", err)
}

// ListDiskLocations implements [HostAPI]. Drivers take the disk that has a LUN, so it leaves out
// disks that are never meant: the temporary disk of an Azure machine, and, if another disk has its
// LUN, one that Windows needs. What cannot be found out leaves nothing out.
func (d DiskAPI) ListDiskLocations() (map[uint32]DiskLocation, error) {
	if err := d.host.Ready(); err != nil {
		return nil, err
	}
	all, temporary := map[uint32]DiskLocation{}, storage.Temporary(d.host.Ctx, d.host.Node)
	err := storage.EachDisk(d.host.Ctx, d.host.Node, storage.Query, func(number uint32, disk *storage.Disk) {
		loc, ok := d.location(number, disk)
		if !ok {
			return
		}
		if loc.LUNID != "" && !d.host.Node.AllDiskLocations {
			is, err := temporary(number, disk)
			if is {
				d.host.Node.Log.Debug("Leaving out a disk that Azure empties", "disk", number, "lun", loc.LUNID)
				return
			}
			if err != nil {
				d.host.Node.Log.Warn("Listing the location of a disk although it is not known whether Azure empties it", "disk", number, "err", err)
			}
		}
		all[number] = loc
	})
	if err == nil {
		err = d.host.Ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if !d.host.Node.AllDiskLocations {
		d.leaveOutNeeded(all)
	}
	return all, nil
}

// leaveOutNeeded leaves out disks that Windows needs and that have the LUN of another disk: first
// those of its directory, page files and dump file, then those that start a Windows. Of disks that
// are all needed, one stays.
func (d DiskAPI) leaveOutNeeded(all map[uint32]DiskLocation) {
	var needed map[uint32]string
	for _, why := range []func(number uint32) string{
		func(number uint32) string {
			if needed == nil {
				var err error
				if needed, err = storage.WindowsDisks(d.host.Ctx, d.host.Node); err != nil {
					d.host.Node.Log.Warn("Listing the locations of disks although it is not known which ones Windows needs", "err", err)
				}
			}
			return needed[number]
		},
		func(number uint32) string {
			l, err := d.layout(number)
			if err != nil {
				d.logUnreadable(number, "partition table", err)
				return ""
			}
			return storage.StartsWindows(l)
		},
	} {
		for _, number := range slices.Sorted(maps.Keys(all)) {
			if !sharesLUN(all, number) {
				continue
			}
			if why := why(number); why != "" {
				d.host.Node.Log.Debug("Leaving out a disk that Windows needs, because another one has its LUN", "disk", number, "lun", all[number].LUNID, "why", why)
				delete(all, number)
			}
		}
	}
}

// sharesLUN reports whether another disk has the LUN of a disk.
func sharesLUN(all map[uint32]DiskLocation, number uint32) bool {
	for other, loc := range all {
		if other != number && loc.LUNID != "" && loc.LUNID == all[number].LUNID {
			return true
		}
	}
	return false
}

// location returns where a disk is attached: from Windows' location text if that has
// at least five parts, otherwise from the SCSI address.
func (d DiskAPI) location(number uint32, disk *storage.Disk) (DiskLocation, bool) {
	const size = 1024
	b, err := disk.Property(d.host.Ctx, win32.StorageDeviceLocationProperty, size)
	if err == nil {
		var text string
		if text, err = win32.DecodeLocation(b); err == nil {
			if loc, ok := parseLocation(text); ok {
				return loc, true
			}
		}
	}
	if err != nil {
		d.logUnreadable(number, "location", err)
	}

	desc, err := disk.Descriptor(d.host.Ctx)
	if err != nil {
		d.logUnreadable(number, "bus type", err)
		return DiskLocation{}, false
	}
	if desc.BusType == win32.BusTypeAta || desc.BusType == win32.BusTypeFileBackedVirtual {
		return DiskLocation{}, false // their location texts have four parts or are file paths
	}
	addr, err := disk.SCSIAddress(d.host.Ctx)
	if err != nil {
		d.logUnreadable(number, "SCSI address", err)
		return DiskLocation{}, false
	}
	return locationOf(addr, desc.BusType), true
}

func locationOf(a win32.SCSIAddress, bus uint32) DiskLocation {
	loc := DiskLocation{Adapter: strconv.Itoa(int(a.Port))}
	if bus != win32.BusTypeNvme { // its namespaces have neither target nor LUN
		loc.Target, loc.LUNID = strconv.Itoa(int(a.Target)), strconv.Itoa(int(a.Lun))
	}
	return loc
}

// parseLocation parses Windows' text for the location of a disk, such as
//
//	Integrated : Bus 0 : Device 63667 : Function 30747 : Adapter 3 : Port 0 : Target 0 : LUN 5
//
// A text with fewer than five parts has no LUN (an ATA disk or a file) and is not used.
// Parts that are not of the form "Word number" and words other than Adapter, Bus,
// Target and LUN are common and skipped.
func parseLocation(text string) (loc DiskLocation, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) < 5 {
		return DiskLocation{}, false
	}
	for _, part := range parts {
		words := strings.Split(strings.TrimSpace(part), " ")
		if len(words) != 2 {
			continue
		}
		ok = true
		value := strings.ToValidUTF8(words[1], "\uFFFD")
		switch words[0] {
		case "Adapter":
			loc.Adapter = value
		case "Bus":
			loc.Bus = value
		case "Target":
			loc.Target = value
		case "LUN":
			loc.LUNID = value
		}
	}
	return loc, ok
}

// GetDiskStats implements [HostAPI]. The geometry needs no access, and has the size in bytes.
func (d DiskAPI) GetDiskStats(diskNumber uint32) (int64, error) {
	g, err := with(d, diskNumber, storage.Query, func(disk *storage.Disk) (win32.Geometry, error) { return disk.Geometry(d.host.Ctx) })
	if err != nil {
		return -1, err
	}
	if g.DiskSize > 1<<63-1 {
		return -1, hosterr.Text(hosterr.ErrOutOfRange, "the disk reports %d bytes, which do not fit into 63 bits", g.DiskSize)
	}
	return int64(g.DiskSize), nil
}
