package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) diskCommand() *cobra.Command {
	return listGroup("disk", "Show the disks of the node, and clear one", a.listing(&cobra.Command{
		Use:   "list [NUMBER...]",
		Short: "List the disks with their identifiers",
		Example: `  csi-proxyctl disk list
  csi-proxyctl disk list --filter online=false --output wide
  csi-proxyctl disk list --watch`,
		RunE: func(c *cobra.Command, args []string) error {
			only := map[uint32]bool{}
			for _, text := range args {
				n, err := diskNumber(text)
				if err != nil {
					return err
				}
				only[n] = true
			}
			return a.listDisks(c.Context(), only)
		},
	}), a.diskClearCommand())
}

// diskEntry is a disk in the list. Values that the node did not return are nil.
type diskEntry struct {
	Number    uint32        `json:"number"`
	SizeBytes *int64        `json:"sizeBytes"`
	Online    *bool         `json:"online"`
	Serial    string        `json:"serialNumber"`
	Page83    string        `json:"page83"`
	Location  *diskLocation `json:"location"`
	// These are known to disk/v2alpha1 only.
	WWN         string `json:"wwn"`
	EUI64       string `json:"eui64"`
	NGUID       string `json:"nguid"`
	NamespaceID uint32 `json:"namespaceID"`
	AzureLUN    string `json:"azureLUN"`
	// These are too wide for a table.
	DevicePath  string   `json:"devicePath"`
	Identifiers []string `json:"identifiers"` // of page 83h, each with its kind
	// These are known through the pipe of administrators only.
	Style         *string `json:"style"`
	Bus           *string `json:"busType"`
	ReadOnly      *bool   `json:"readOnly"`
	Identity      *string `json:"identity"`
	OfflineReason *string `json:"offlineReason"`
}

type diskLocation struct {
	Adapter string `json:"adapter"`
	Bus     string `json:"bus"`
	Target  string `json:"target"`
	LUN     string `json:"lun"`
}

// listDisks prints the disks with these numbers, or all disks if there are none.
func (a *app) listDisks(ctx context.Context, only map[uint32]bool) error {
	entries, incomplete := a.disks(ctx, only)
	if incomplete != nil && !errors.Is(incomplete, errIncomplete) {
		return incomplete
	}
	a.addIdentity(ctx, entries)
	rows := [][]string{}
	for _, e := range entries {
		size, state, access, location := "", "", "", ""
		if e.SizeBytes != nil {
			size = bytesText(uint64(*e.SizeBytes))
		}
		if e.Online != nil {
			state = map[bool]string{true: "online", false: "offline"}[*e.Online]
		}
		if l := e.Location; l != nil {
			location = locationText(l.Adapter, l.Bus, l.Target, l.LUN)
		}
		if e.ReadOnly != nil {
			access = map[bool]string{true: "read-only", false: "writable"}[*e.ReadOnly]
		}
		rows = append(rows, []string{number(e.Number), size, state, access, text(e.Style), text(e.Bus), e.Serial, e.Page83, location, text(e.Identity), text(e.OfflineReason),
			e.WWN, cmp.Or(e.NGUID, e.EUI64), namespace(e.NamespaceID), e.AzureLUN})
	}
	return cmp.Or(a.print(entries, "NUMBER SIZE STATE ACCESS STYLE BUS SERIAL PAGE83 ADAPTER:BUS:TARGET:LUN | IDENTITY OFFLINE-REASON WWN EUI64/NGUID NAMESPACE AZURE-LUN", rows), incomplete)
}

// namespace returns the cell of an NVMe namespace.
func namespace(id uint32) string {
	if id == 0 {
		return ""
	}
	return number(id)
}

// onlyInV2 is what is unknown without disk/v2alpha1.
const onlyInV2 = "WWN, EUI-64, NGUID, NVMe namespace, LUN on Azure, other identifiers and device path are unknown: disk/v2alpha1 does not answer"

// identities returns everything that disk/v2alpha1 knows about the disks.
func (a *app) identities(ctx context.Context) (map[uint32]*v2alpha1.DiskInfo, error) {
	conn, err := a.connectAPI("disk/v2alpha1")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	out, err := answer(ctx, a, v2alpha1.NewDiskClient(conn).ListDisks, &v2alpha1.ListDisksRequest{})
	return out.GetDisks(), err
}

// addIdentity adds the identifiers that only disk/v2alpha1 knows. Without it, they are unknown.
func (a *app) addIdentity(ctx context.Context, entries []diskEntry) {
	all, err := a.identities(ctx)
	if err != nil {
		a.note("%s: %s", onlyInV2, brief(err))
		return
	}
	for i := range entries {
		e := &entries[i]
		if d := all[e.Number]; d != nil {
			e.WWN, e.EUI64, e.NGUID, e.NamespaceID, e.AzureLUN, e.DevicePath, e.Identifiers = d.Wwn, d.Eui64, d.Nguid, d.NamespaceId, d.AzureLun, d.DevicePath, append(e.Identifiers, d.Page83...)
			if d.Unread != "" {
				a.note("disk %d: cannot read %s", e.Number, d.Unread)
			}
		}
	}
}

// numbered is an identity that is a number: the LUN on Azure, or an NVMe namespace.
var numbered = regexp.MustCompile(`(?i)^(?:(azure[- ]?lun)|namespace|nsid)[ =:]*([0-9]+)$`)

// isIdentity reports whether a text may identify a disk. A name such as pvc-1 may, too, but is
// rather that of a volume; a serial number is known without disk/v2alpha1.
func isIdentity(text string) bool {
	hex := strings.TrimLeft(plain(text), "0123456789abcdef") == ""
	return numbered.MatchString(text) || hex && len(text) >= 16 || strings.Count(text, ":") == 3 || page83Kind.MatchString(text)
}

var page83Kind = regexp.MustCompile(`(?i)^(?:naa|eui|t10|name|vendor|md5|uuid)\.`)

// plain is an identifier as it is compared.
func plain(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

// hasIdentity reports whether a text identifies a disk.
func hasIdentity(d *v2alpha1.DiskInfo, text string) bool {
	if m := numbered.FindStringSubmatch(text); m != nil {
		return m[1] != "" && d.AzureLun == m[2] || m[1] == "" && d.NamespaceId > 0 && number(d.NamespaceId) == m[2]
	}
	have := append([]string{d.Wwn, d.Eui64, d.Nguid}, d.Page83...)
	for _, id := range d.Page83 {
		_, bare, _ := strings.Cut(id, ".")
		have = append(have, bare)
	}
	return text == locationText(d.Adapter, d.Bus, d.Target, d.Lun) || slices.ContainsFunc(have, func(id string) bool { return id != "" && plain(id) == plain(text) })
}

// identityText returns what identifies a disk beside its serial number.
func identityText(d *v2alpha1.DiskInfo) string {
	var all []string
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+" "+printable(value))
		}
	}
	add("WWN", d.GetWwn())
	add("EUI-64", d.GetEui64())
	add("NGUID", d.GetNguid())
	add("NVMe namespace", namespace(d.GetNamespaceId()))
	add("LUN on Azure", d.GetAzureLun())
	if d.GetAdapter() != "" || d.GetLun() != "" {
		add("location (adapter:bus:target:LUN)", locationText(d.Adapter, d.Bus, d.Target, d.Lun))
	}
	return strings.Join(all, ", ")
}

// locationText returns where a disk is attached, as the lists show it.
func locationText(adapter, bus, target, lun string) string {
	return cmp.Or(adapter, "-") + ":" + cmp.Or(bus, "-") + ":" + cmp.Or(target, "-") + ":" + cmp.Or(lun, "-")
}

// text returns the text of a cell.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// disks returns the disks with these numbers, or all of them. Each is asked once: by csi-proxy for
// its description or, without the pipe of administrators, through the API. If disks fails with
// errIncomplete, the list is usable, and what is missing has been noted.
func (a *app) disks(ctx context.Context, only map[uint32]bool) ([]diskEntry, error) {
	conn, err := a.connectAPI("disk/v1")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := v1.NewDiskClient(conn)
	var ids *v1.ListDiskIDsResponse
	var locations *v1.ListDiskLocationsResponse
	var node *admin.DescribeResponse
	var unlisted, unlocated, undescribed error
	var group sync.WaitGroup
	group.Go(func() { ids, unlisted = answer(ctx, a, client.ListDiskIDs, &v1.ListDiskIDsRequest{}) })
	group.Go(func() {
		locations, unlocated = answer(ctx, a, client.ListDiskLocations, &v1.ListDiskLocationsRequest{})
	})
	group.Go(func() { node, undescribed = a.describe(ctx, &admin.DescribeRequest{}) })
	group.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err() // half a list would look like a node with half of its disks
	}
	complete := true
	missing := func(format string, args ...any) {
		a.note(format, args...)
		complete = false
	}
	described := map[uint32]*admin.Disk{}
	for _, d := range node.GetDisks() {
		described[d.Number] = d
	}
	numbers := slices.Sorted(maps.Keys(ids.GetDiskIDs()))
	switch {
	case unlisted != nil && len(described) == 0:
		return nil, &failure{"disk/v1 ListDiskIDs", unlisted}
	case unlisted != nil:
		a.noteError(&failure{"disk/v1 ListDiskIDs", unlisted})
		missing("the list has only what the pipe of administrators knows")
		numbers = slices.Sorted(maps.Keys(described))
	}
	for n := range only {
		if unlisted == nil && !slices.Contains(numbers, n) {
			return nil, &failure{err: &hinted{fmt.Errorf("the node has no disk %d", n), "csi-proxyctl disk list shows the disks that there are; csi-proxyctl call disk/v1 Rescan looks for new ones"}}
		}
	}
	if unlocated != nil {
		missing("cannot get the locations of disks: %s", brief(unlocated))
	}
	const unknown = "style, bus, access, identity and offline reason are unknown: %s"
	switch {
	case statusIn(undescribed) != nil:
		missing(unknown, brief(undescribed))
	case undescribed != nil: // there is no such pipe
		a.note(unknown, brief(undescribed))
	case node.DisksError != "" && len(described) > 0:
		missing("a disk may be missing: %s", node.DisksError)
	case node.DisksError != "":
		missing(unknown, node.DisksError)
	}
	entries := []diskEntry{}
	for _, n := range numbers {
		if len(only) > 0 && !only[n] {
			continue
		}
		e := diskEntry{Number: n, Identifiers: []string{}, Serial: ids.GetDiskIDs()[n].GetSerialNumber(), Page83: ids.GetDiskIDs()[n].GetPage83()}
		if l := locations.GetDiskLocations()[n]; l != nil {
			e.Location = &diskLocation{l.Adapter, l.Bus, l.Target, l.LUNID}
		}
		switch d := described[n]; {
		case d != nil && d.Error != "":
			missing("disk %d: cannot describe it: %s", n, d.Error)
			e.add(d, node.Disks)
		case d != nil:
			e.add(d, node.Disks)
		case len(described) > 0:
			missing("disk %d is not described", n)
		}
		entries = append(entries, e)
	}
	if len(described) > 0 {
		return entries, incompleteUnless(complete)
	}
	size, state := make([]error, len(entries)), make([]error, len(entries))
	admin.EachDevice(len(entries), func(i int) { size[i], state[i] = a.askDisk(ctx, client, &entries[i]) })
	for i, e := range entries {
		if size[i] != nil {
			missing("disk %d: cannot get size: %s", e.Number, brief(size[i]))
		}
		if state[i] != nil {
			missing("disk %d: cannot get state: %s", e.Number, brief(state[i]))
		}
	}
	return entries, incompleteUnless(complete)
}

func incompleteUnless(complete bool) error {
	if complete {
		return nil
	}
	return &failure{err: errIncomplete}
}

// add adds what is known of a disk.
func (e *diskEntry) add(d *admin.Disk, all []*admin.Disk) {
	if d.SizeBytes > 0 {
		size := int64(d.SizeBytes)
		e.SizeBytes = &size
	}
	if d.Error != "" {
		return
	}
	readOnly, reason := d.ReadOnly || d.WriteProtected, offlineReason(d, all)
	e.Online, e.Style, e.Bus, e.ReadOnly, e.Identity, e.OfflineReason = &d.Online, &d.Style, &d.Bus, &readOnly, &d.Identity, &reason
}

// askDisk asks the API about a disk.
func (a *app) askDisk(ctx context.Context, client v1.DiskClient, e *diskEntry) (size, state error) {
	stats, size := answer(ctx, a, client.GetDiskStats, &v1.GetDiskStatsRequest{DiskNumber: e.Number})
	if size == nil {
		e.SizeBytes = &stats.TotalBytes
	}
	if status.Code(size) == codes.DeadlineExceeded {
		return size, size // it would not answer either
	}
	is, state := answer(ctx, a, client.GetDiskState, &v1.GetDiskStateRequest{DiskNumber: e.Number})
	if state == nil {
		e.Online = &is.IsOnline
	}
	return size, state
}
