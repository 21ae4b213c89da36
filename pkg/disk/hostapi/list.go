package api

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// DiskInfo is what ListDisks returns of a disk. A text is empty if the disk or Windows does
// not report it.
type DiskInfo struct {
	// DevicePath is the path of the disk's device.
	DevicePath string
	// BusType is Windows' name of the bus, such as "NVMe".
	BusType, Vendor, Product string
	SerialNumber             string
	// Page83 has all identifiers of the disk itself, each with its kind, such as
	// "naa.6000c29…", "eui.0025385…", "t10.…", "name.…" and "vendor.…".
	Page83 []string
	// WWN, EUI64 and NGUID are the first identifiers of these kinds, in lower-case
	// hexadecimal digits.
	WWN, EUI64, NGUID string
	// NamespaceID is the NVMe namespace, or 0 if it is not known.
	NamespaceID uint32
	// AzureLUN is the LUN that Azure gave an NVMe disk.
	AzureLUN string
	// Where the disk is attached, as in ListDiskLocations.
	Adapter, Bus, Target, LUN string
	// IsBoot means that Windows runs from the disk: its directory, a page file or dump file
	// is on it.
	IsBoot bool
	// IsSystem means that the disk has a partition that starts or repairs a Windows.
	IsSystem bool
	// IsTemporary means that it is the temporary disk of an Azure machine.
	IsTemporary bool
	IsRemovable bool
	IsOnline    bool
	// OfflineReason is Windows' name of the reason why the disk is offline.
	OfflineReason string
	IsReadOnly    bool
	// Unread says what could not be read. Fields about it are empty or false.
	Unread string
}

// ListDisks returns what is known about each disk, by its number. It skips disks that do not
// return their numbers.
func (d DiskAPI) ListDisks() (map[uint32]DiskInfo, error) {
	if err := d.host.Ready(); err != nil {
		return nil, err
	}
	paths, err := storage.DiskPaths(d.host.Node)
	if err != nil {
		return nil, err
	}
	windows, unknown := storage.WindowsDisks(d.host.Ctx, d.host.Node)
	temporary := storage.Temporary(d.host.Ctx, d.host.Node)
	all, offline := map[uint32]DiskInfo{}, false
	for _, path := range paths {
		err := storage.VisitDisk(d.host.Ctx, d.host.Node, path, storage.Query, func(number uint32, disk *storage.Disk) {
			info := d.info(number, path, disk)
			info.IsBoot = windows[number] != ""
			if unknown != nil && !info.IsBoot {
				info.missed("whether Windows runs from it", unknown)
			}
			is, err := temporary(number, disk)
			info.IsTemporary = is
			info.missed("whether Azure empties it", err)
			all[number] = info
			offline = offline || !info.IsOnline
		})
		if ended := d.host.Ctx.Err(); ended != nil {
			return nil, ended
		}
		if err != nil {
			d.host.Node.Log.Warn("Skipped a disk that does not respond", "device", path, "err", err)
		}
	}
	if !offline {
		return all, d.host.Ctx.Err()
	}
	reasons, unsaid := d.host.Node.API.OfflineReasons()
	for number, info := range all {
		if info.IsOnline {
			continue
		}
		if reason, listed := reasons[number]; listed {
			info.OfflineReason = storage.OfflineReasonName(reason)
		}
		info.missed("why it is offline", unsaid)
		all[number] = info
	}
	return all, d.host.Ctx.Err()
}

// missed notes what could not be read. A question that a disk does not know has no answer.
func (i *DiskInfo) missed(what string, err error) {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if i.Unread != "" {
		i.Unread += "; "
	}
	i.Unread += what + ": " + err.Error()
}

// info returns what an open disk reports itself.
func (d DiskAPI) info(number uint32, path string, disk *storage.Disk) DiskInfo {
	ctx := d.host.Ctx
	info := DiskInfo{DevicePath: path}
	info.missed("its identifiers", d.identify(&info, disk))
	if at, ok := d.location(number, disk); ok {
		info.Adapter, info.Bus, info.Target, info.LUN = at.Adapter, at.Bus, at.Target, at.LUNID
	}
	attrs, err := disk.Attributes(ctx)
	info.missed("its state", err)
	info.IsOnline = err == nil && attrs&win32.DISK_ATTRIBUTE_OFFLINE == 0
	info.IsReadOnly = attrs&win32.DISK_ATTRIBUTE_READ_ONLY != 0
	if info.IsOnline && !info.IsReadOnly {
		info.IsReadOnly, err = disk.WriteProtected(ctx)
		info.missed("whether it can be written", err)
	}
	l, err := disk.Layout(ctx)
	info.missed("its partition table", err)
	info.IsSystem = err == nil && storage.StartsWindows(l) != ""
	return info
}

// identify adds the identifiers that an open disk reports.
func (d DiskAPI) identify(info *DiskInfo, disk *storage.Disk) error {
	desc, err := disk.Descriptor(d.host.Ctx)
	if err == nil {
		info.BusType, info.Vendor, info.Product = storage.BusName(desc.BusType), trimmed(desc.Vendor), trimmed(desc.Product)
		info.SerialNumber, info.IsRemovable = trimmed(desc.SerialNumber), desc.Removable
	}
	ids, failed := d.identifiers(disk)
	for _, id := range ids {
		info.add(id)
	}
	if err == nil && desc.BusType == win32.BusTypeNvme {
		info.addNamespace()
	}
	if errors.Is(failed, errors.ErrUnsupported) {
		failed = nil // NVMe and virtual disks often have no page 83h
	}
	return errors.Join(err, failed)
}

// page83Kinds are the kinds of identifiers in page 83h that name a logical unit (SPC-5, table of
// designator types), with the prefixes that RFC 3980 has for names of three of them. The others
// are of ports and groups, which disks share.
var page83Kinds = map[uint32]string{
	win32.StorageIdTypeVendorSpecific: "vendor", win32.StorageIdTypeVendorId: "t10", win32.StorageIdTypeEUI64: "eui",
	win32.StorageIdTypeFCPHName: "naa", win32.StorageIdTypeMD5LogicalUnitIdentifier: "md5", win32.StorageIdTypeScsiNameString: "name",
	10: "uuid", // of which Windows' headers know nothing
}

// add adds an identifier of page 83h that names the disk.
func (i *DiskInfo) add(id win32.Identifier) {
	kind, ok := page83Kinds[id.Type]
	if !ok {
		return
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(id.ID), "\uFFFD"), "\x00")
	if id.CodeSet == win32.StorageIdCodeSetBinary {
		text = hex.EncodeToString(id.ID)
	}
	i.Page83 = append(i.Page83, kind+"."+text)
	if kind == "name" { // such as eui.0025385… in UTF-8
		kind, text, _ = strings.Cut(text, ".")
	}
	text = strings.ToLower(text)
	switch {
	case kind == "naa" && i.WWN == "":
		i.WWN = text
	case kind == "eui" && len(text) == 16 && i.EUI64 == "":
		i.EUI64 = text
	case kind == "eui" && len(text) == 32 && i.NGUID == "":
		i.NGUID = text
	}
}

// How Windows writes the identity of an NVMe namespace as a serial number, and the end of the
// path of its device.
//
// Source: docs/develop/contract/disks.md, identity of NVMe disks.
var (
	namespaceName   = regexp.MustCompile(`^(?:[0-9A-F]{4}_){3}[0-9A-F]{4}(?:(?:_[0-9A-F]{4}){4})?\.$`)
	namespaceSuffix = regexp.MustCompile(`_([0-9A-Fa-f]{8})\.$`)
	namespacePath   = regexp.MustCompile(`&0&00000([0-9])(?:#|$)`)
)

// azureNVMe are the products of Azure's remote disks (azuredisk-csi-driver, pull request 3632).
var azureNVMe = []string{"MSFT NVMe Accelerator v1.0", "Virtual_Disk NVMe Premium"}

// addNamespace adds the identity of an NVMe namespace.
func (i *DiskInfo) addNamespace() {
	switch id := strings.ToLower(strings.NewReplacer("_", "", ".", "").Replace(i.SerialNumber)); {
	case !namespaceName.MatchString(i.SerialNumber):
	case len(id) == 16 && i.EUI64 == "":
		i.EUI64 = id
	case len(id) == 32 && i.NGUID == "":
		i.NGUID = id
	}
	if m := namespacePath.FindStringSubmatch(i.DevicePath); m != nil {
		i.NamespaceID = uint32(m[1][0] - '0')
	}
	// Only the number in the path was seen beside Azure's LUN, which is one less. Namespaces as
	// Linux counts them are two more than the LUN, so one in a serial number could name another disk.
	if i.NamespaceID > 0 && slices.Contains(azureNVMe, i.Product) {
		i.AzureLUN = strconv.FormatUint(uint64(i.NamespaceID)-1, 10)
	}
	if m := namespaceSuffix.FindStringSubmatch(i.SerialNumber); m != nil {
		if n, err := strconv.ParseUint(m[1], 16, 32); err == nil {
			i.NamespaceID = uint32(n)
		}
	}
}

// Expect returns the same HostAPI for the disk that has all of these identifiers: its methods fail
// with hosterr.ErrFailedPrecondition, and change nothing, if the disk with the given number lacks
// one. Each checks them on the handles that it uses.
func (d DiskAPI) Expect(identifiers []string) HostAPI {
	d.expect = &identifiers
	return d
}

// with returns the result of work on an open disk.
func with[T any](d DiskAPI, number, access uint32, work func(*storage.Disk) (T, error)) (result T, err error) {
	disk, err := d.open(number, access)
	if err != nil {
		return result, err
	}
	defer disk.Close()
	return work(disk)
}

// open opens a disk by its number, and checks that it is the expected one.
func (d DiskAPI) open(number, access uint32) (*storage.Disk, error) {
	if err := d.host.Ready(); err != nil {
		return nil, err
	}
	disk, err := storage.OpenDisk(d.host.Ctx, d.host.Node, number, access)
	if err != nil || d.expect == nil {
		return disk, err
	}
	if err := d.expected(number, disk); err != nil {
		disk.Close()
		return nil, err
	}
	return disk, nil
}

// expected returns an error if an open disk is not the expected one.
func (d DiskAPI) expected(number uint32, disk *storage.Disk) error {
	var info DiskInfo
	err := d.identify(&info, disk)
	have := append([]string{info.SerialNumber, info.EUI64, info.NGUID, info.WWN}, info.Page83...)
	for _, id := range info.Page83 {
		_, bare, _ := strings.Cut(id, ".")
		have = append(have, bare)
	}
	have = slices.DeleteFunc(have, func(id string) bool { return id == "" })
	missing := slices.DeleteFunc(slices.Clone(*d.expect), func(want string) bool {
		return slices.ContainsFunc(have, func(id string) bool { return strings.EqualFold(trimmed(id), trimmed(want)) })
	})
	if len(missing) == 0 {
		return nil
	}
	if err != nil {
		return hosterr.Wrap("check the identity of the disk", "", fmt.Errorf("%w; it was not changed", err))
	}
	slices.Sort(have)
	return hosterr.TextWithHint(hosterr.ErrFailedPrecondition,
		"find the disk again with ListDisks: its number changes when it is detached and attached",
		"disk %d is not the expected one: it has the identifiers %q, not %q; it was not changed", number, slices.Compact(have), missing)
}
