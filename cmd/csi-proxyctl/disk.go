package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) diskCommand() *cobra.Command {
	return listGroup("disk", "Show the disks of the node, and clear one", a.listing(&cobra.Command{
		Use:   "list [NUMBER...]",
		Short: "List the disks with their identifiers",
		Example: `  csi-proxyctl disk list
  csi-proxyctl disk list 1 --bytes
  csi-proxyctl disk list --filter online=false --output wide
  csi-proxyctl disk list --watch`,
		ValidArgsFunction: a.completeFirst(true, a.diskWords),
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

// listDisks prints the disks with these numbers, or all disks if there are none. What the API
// does not answer, the pipe of administrators may know.
func (a *app) listDisks(ctx context.Context, only map[uint32]bool) error {
	asked, unlisted := a.askDisks(ctx, only)
	if unlisted != nil && statusIn(unlisted) == nil {
		return unlisted // not from the API: nothing answers, or there is no such disk
	}
	node := a.describedNode(ctx)
	if ctx.Err() != nil {
		return ctx.Err() // half a list would look like a node with half of its disks
	}
	if unlisted != nil {
		if asked = disksOf(node, only); len(asked) == 0 {
			return unlisted
		}
		a.noteError(unlisted)
		a.note("the list has only what the pipe of administrators knows")
	}
	complete := unlisted == nil
	entries := []diskEntry{}
	for i := range asked {
		d := &asked[i]
		a.addDescription(&d.diskEntry, node)
		complete = a.noteFailures(d) && complete
		entries = append(entries, d.diskEntry)
	}
	rows := [][]string{}
	for _, e := range entries {
		size, state, access, location := "", "", "", ""
		if e.SizeBytes != nil {
			size = a.size(uint64(*e.SizeBytes))
		}
		if e.Online != nil {
			state = map[bool]string{true: "online", false: "offline"}[*e.Online]
		}
		if l := e.Location; l != nil {
			location = cmp.Or(l.Adapter, "-") + ":" + cmp.Or(l.Bus, "-") + ":" + cmp.Or(l.Target, "-") + ":" + cmp.Or(l.LUN, "-")
		}
		if e.ReadOnly != nil {
			access = map[bool]string{true: "read-only", false: "writable"}[*e.ReadOnly]
		}
		rows = append(rows, []string{number(e.Number), size, state, access, text(e.Style), text(e.Bus), e.Serial, e.Page83, location, text(e.Identity), text(e.OfflineReason)})
	}
	if err := a.print(entries, "NUMBER SIZE STATE ACCESS STYLE BUS SERIAL PAGE83 ADAPTER:BUS:TARGET:LUN | IDENTITY OFFLINE-REASON", rows); err != nil {
		return err
	}
	if !complete {
		return &failure{err: errIncomplete}
	}
	return nil
}

// text returns the text of a cell.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// describedNode returns what the API does not report about the disks, or nil.
func (a *app) describedNode(ctx context.Context) *admin.DescribeResponse {
	node, err := a.describe(ctx, &admin.DescribeRequest{})
	if err != nil {
		a.note("style, bus, access, identity and offline reason are unknown: %s", brief(err))
		return nil
	}
	switch {
	case node.DisksError == "":
	case len(node.Disks) > 0:
		a.note("a disk may be missing: %s", node.DisksError)
	default:
		a.note("style, bus, access, identity and offline reason are unknown: %s", node.DisksError)
	}
	return node
}

// addDescription adds what the API does not report, and what it did not answer.
func (a *app) addDescription(e *diskEntry, node *admin.DescribeResponse) {
	at := slices.IndexFunc(node.GetDisks(), func(d *admin.Disk) bool { return d.Number == e.Number })
	if at < 0 {
		return
	}
	d := node.Disks[at]
	if d.Error != "" {
		a.note("disk %d: cannot describe it: %s", d.Number, d.Error)
		return
	}
	readOnly, reason := d.ReadOnly || d.WriteProtected, offlineReason(d, node.Disks)
	e.Style, e.Bus, e.ReadOnly, e.Identity, e.OfflineReason = &d.Style, &d.Bus, &readOnly, &d.Identity, &reason
	if e.SizeBytes == nil {
		size := int64(d.SizeBytes)
		e.SizeBytes = &size
	}
	if e.Online == nil {
		e.Online = &d.Online
	}
}

// disksOf returns the disks of a description.
func disksOf(node *admin.DescribeResponse, only map[uint32]bool) (asked []askedDisk) {
	for _, d := range node.GetDisks() {
		if len(only) == 0 || only[d.Number] {
			asked = append(asked, askedDisk{diskEntry: diskEntry{Number: d.Number}})
		}
	}
	slices.SortFunc(asked, func(x, y askedDisk) int { return cmp.Compare(x.Number, y.Number) })
	return asked
}

// askedDisk is a disk, and why the API did not answer about it.
type askedDisk struct {
	diskEntry
	size, state, location error // location is noted for all disks at once
}

// noteFailures notes what the API did not answer about a disk. It reports whether all of it
// is known anyway.
func (a *app) noteFailures(d *askedDisk) (complete bool) {
	for _, f := range []struct {
		what string
		err  error
	}{{"size", d.size}, {"state", d.state}} {
		if f.err != nil {
			a.note("disk %d: cannot get %s: %s", d.Number, f.what, brief(f.err))
		}
	}
	return d.location == nil && (d.size == nil || d.SizeBytes != nil) && (d.state == nil || d.Online != nil)
}

// disks returns what the API reports about all disks. If it fails with errIncomplete, the list
// is usable, and the missing parts have been reported.
func (a *app) disks(ctx context.Context, only map[uint32]bool) ([]diskEntry, error) {
	asked, err := a.askDisks(ctx, only)
	if err != nil {
		return nil, err
	}
	entries, complete := []diskEntry{}, true
	for i := range asked {
		complete = a.noteFailures(&asked[i]) && complete
		entries = append(entries, asked[i].diskEntry)
	}
	if !complete {
		return entries, &failure{err: errIncomplete}
	}
	return entries, nil
}

// askDisks asks the API about disks, a few at once, each with its own time limit.
func (a *app) askDisks(ctx context.Context, only map[uint32]bool) ([]askedDisk, error) {
	conn, err := a.connectAPI("disk/v1")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := v1.NewDiskClient(conn)
	ids, err := answer(ctx, a, client.ListDiskIDs, &v1.ListDiskIDsRequest{})
	if err != nil {
		return nil, &failure{"disk/v1 ListDiskIDs", err}
	}
	for n := range only {
		if ids.DiskIDs[n] == nil {
			return nil, &failure{err: fmt.Errorf("the node has no disk %d", n)}
		}
	}
	asked := []askedDisk{}
	for _, n := range slices.Sorted(maps.Keys(ids.DiskIDs)) {
		if len(only) == 0 || only[n] {
			asked = append(asked, askedDisk{diskEntry: diskEntry{Number: n, Serial: ids.DiskIDs[n].SerialNumber, Page83: ids.DiskIDs[n].Page83}})
		}
	}
	locations, unlocated := answer(ctx, a, client.ListDiskLocations, &v1.ListDiskLocationsRequest{})
	if unlocated != nil {
		a.note("cannot get the locations of disks: %s", brief(unlocated))
	}
	admin.EachDevice(len(asked), func(i int) {
		d := &asked[i]
		d.location = unlocated
		if l := locations.GetDiskLocations()[d.Number]; l != nil {
			d.Location = &diskLocation{l.Adapter, l.Bus, l.Target, l.LUNID}
		}
		var stats *v1.GetDiskStatsResponse
		if stats, d.size = answer(ctx, a, client.GetDiskStats, &v1.GetDiskStatsRequest{DiskNumber: d.Number}); d.size == nil {
			d.SizeBytes = &stats.TotalBytes
		}
		if d.size != nil && status.Code(d.size) == codes.DeadlineExceeded {
			d.state = d.size // it would not answer either
			return
		}
		var state *v1.GetDiskStateResponse
		if state, d.state = answer(ctx, a, client.GetDiskState, &v1.GetDiskStateRequest{DiskNumber: d.Number}); d.state == nil {
			d.Online = &state.IsOnline
		}
	})
	return asked, nil
}
