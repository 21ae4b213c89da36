package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v2alpha1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) diskCommand() *cobra.Command {
	return listGroup("disk", "Show the disks of the node, and clear one", a.listing(&cobra.Command{
		Use:   "list [NUMBER...]",
		Short: "List the disks with their identifiers",
		Example: `  csi-proxyctl disk list
  csi-proxyctl disk list 1 2 --output wide
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
	// These are known to disk/v2alpha1 only, as is the location.
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

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func diskNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("disk %q: want a disk number", text)
	}
	return uint32(n), nil
}

// namespace returns the cell of an NVMe namespace.
func namespace(id uint32) string {
	if id == 0 {
		return ""
	}
	return number(id)
}

// onlyInV2 is what is unknown without disk/v2alpha1.
const onlyInV2 = "location, WWN, EUI-64, NGUID, NVMe namespace, LUN on Azure, other identifiers and device path are unknown: disk/v2alpha1 does not answer"

// diskIDs returns the identifiers of the disks.
func (a *app) diskIDs(ctx context.Context) (ids map[uint32]*v1.DiskIDs, err error) {
	ctx, cancel := a.withShortLimit(ctx, answerLimit) // of the API, which may be what hangs
	defer cancel()
	err = onAPI(ctx, a, "disk/v1", v1.NewDiskClient, "ListDiskIDs", func(ctx context.Context, c v1.DiskClient) error {
		out, err := c.ListDiskIDs(ctx, &v1.ListDiskIDsRequest{})
		ids = out.GetDiskIDs()
		return err
	})
	return ids, err
}

// identities returns everything that disk/v2alpha1 knows about the disks.
func (a *app) identities(ctx context.Context) (all map[uint32]*v2alpha1.DiskInfo, err error) {
	ctx, cancel := a.withShortLimit(ctx, answerLimit)
	defer cancel()
	err = onAPI(ctx, a, "disk/v2alpha1", v2alpha1.NewDiskClient, "ListDisks", func(ctx context.Context, c v2alpha1.DiskClient) error {
		out, err := c.ListDisks(ctx, &v2alpha1.ListDisksRequest{})
		all = out.GetDisks()
		return err
	})
	return all, err
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

// disks returns the disks with these numbers, or all of them, as csi-proxy describes them. If it
// fails with errIncomplete, the list is usable, and what is missing has been noted.
func (a *app) disks(ctx context.Context, only map[uint32]bool) ([]diskEntry, error) {
	var node *admin.DescribeResponse
	var ids map[uint32]*v1.DiskIDs
	var info map[uint32]*v2alpha1.DiskInfo
	var undescribed, unlisted, unidentified error
	var group sync.WaitGroup
	group.Go(func() { node, undescribed = a.describe(ctx, &admin.DescribeRequest{}) })
	group.Go(func() { ids, unlisted = a.diskIDs(ctx) })
	group.Go(func() { info, unidentified = a.identities(ctx) })
	group.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // half a list would look like a node with half of its disks
	case undescribed != nil:
		return nil, undescribed
	case node.DisksError != "" && len(node.Disks) == 0:
		return nil, &failure{err: errors.New("csi-proxy cannot list the disks: " + node.DisksError)}
	}
	complete := true
	missing := func(format string, args ...any) {
		a.note(format, args...)
		complete = false
	}
	if node.DisksError != "" {
		missing("a disk may be missing: %s", node.DisksError)
	}
	if unlisted != nil {
		a.noteError(unlisted)
		missing("serial numbers and page 83h identifiers are unknown")
	}
	if unidentified != nil {
		a.note("%s: %s", onlyInV2, brief(unidentified))
	}
	described := map[uint32]*admin.Disk{}
	for _, d := range node.Disks {
		described[d.Number] = d
	}
	for n := range ids {
		if described[n] == nil {
			described[n] = &admin.Disk{Number: n, Error: "it is not listed"}
		}
	}
	for n := range only {
		if described[n] == nil && node.DisksError == "" {
			return nil, &failure{err: &hinted{fmt.Errorf("the node has no disk %d", n), "csi-proxyctl disk list shows the disks that there are; csi-proxyctl call disk/v1 Rescan looks for new ones"}}
		}
	}
	entries := []diskEntry{}
	for _, n := range slices.Sorted(maps.Keys(described)) {
		if len(only) > 0 && !only[n] {
			continue
		}
		e := diskEntry{Number: n, Identifiers: []string{}, Serial: ids[n].GetSerialNumber(), Page83: ids[n].GetPage83()}
		if i := info[n]; i != nil {
			e.identify(i)
			if i.Unread != "" {
				a.note("disk %d: cannot read %s", n, i.Unread)
			}
		}
		if d := described[n]; d.Error != "" {
			missing("disk %d: cannot describe it: %s", n, d.Error)
		}
		e.add(described[n], node.Disks)
		entries = append(entries, e)
	}
	return entries, incompleteUnless(complete)
}

// identify adds what disk/v2alpha1 knows of a disk.
func (e *diskEntry) identify(d *v2alpha1.DiskInfo) {
	if d.Adapter+d.Bus+d.Target+d.Lun != "" {
		e.Location = &diskLocation{d.Adapter, d.Bus, d.Target, d.Lun}
	}
	e.WWN, e.EUI64, e.NGUID, e.NamespaceID, e.AzureLUN, e.DevicePath, e.Identifiers = d.Wwn, d.Eui64, d.Nguid, d.NamespaceId, d.AzureLun, d.DevicePath, append(e.Identifiers, d.Page83...)
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
