package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
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
		ValidArgsFunction: a.completeFirst(true, diskWords),
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

// listDisks prints the disks with these numbers, or all disks if there are none.
func (a *app) listDisks(ctx context.Context, only map[uint32]bool) error {
	entries, err := a.disks(ctx, only)
	if err != nil && !errors.Is(err, errIncomplete) {
		return err
	}
	a.describeDisks(ctx, entries)
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
	return cmp.Or(a.print(entries, "NUMBER SIZE STATE ACCESS STYLE BUS SERIAL PAGE83 ADAPTER:BUS:TARGET:LUN | IDENTITY OFFLINE-REASON", rows), err)
}

// text returns the text of a cell.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// describeDisks adds what the API does not report.
func (a *app) describeDisks(ctx context.Context, entries []diskEntry) {
	node, err := a.describe(ctx, &admin.DescribeRequest{})
	if err != nil {
		a.note("style, bus, access, identity and offline reason are unknown: %s", brief(err))
		return
	}
	if node.DisksError != "" {
		a.note("style, bus, access, identity and offline reason are unknown: %s", node.DisksError)
	}
	for i := range entries {
		e := &entries[i]
		at := slices.IndexFunc(node.Disks, func(d *admin.Disk) bool { return d.Number == e.Number })
		if at < 0 {
			continue
		}
		d := node.Disks[at]
		if d.Error != "" {
			a.note("disk %d: cannot describe it: %s", d.Number, d.Error)
			continue
		}
		readOnly, reason := d.ReadOnly || d.WriteProtected, offlineReason(d, node.Disks)
		e.Style, e.Bus, e.ReadOnly, e.Identity, e.OfflineReason = &d.Style, &d.Bus, &readOnly, &d.Identity, &reason
	}
}

// disks returns information about disks. If it fails with errIncomplete, the list is
// usable, and the missing parts have been reported.
func (a *app) disks(ctx context.Context, only map[uint32]bool) ([]diskEntry, error) {
	client, err := disk.NewClient()
	if err != nil {
		return nil, &failure{err: err}
	}
	defer client.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	ids, err := client.ListDiskIDs(ctx, &v1.ListDiskIDsRequest{})
	if err != nil {
		return nil, &failure{"disk/v1 ListDiskIDs", err}
	}
	locations, err := client.ListDiskLocations(ctx, &v1.ListDiskLocationsRequest{})
	if err != nil {
		return nil, &failure{"disk/v1 ListDiskLocations", err}
	}
	complete := true
	for n := range only {
		if ids.DiskIDs[n] == nil {
			return nil, &failure{err: fmt.Errorf("the node has no disk %d", n)}
		}
	}
	entries := []diskEntry{}
	for _, n := range slices.Sorted(maps.Keys(ids.DiskIDs)) {
		if len(only) > 0 && !only[n] {
			continue
		}
		e := diskEntry{Number: n, Serial: ids.DiskIDs[n].SerialNumber, Page83: ids.DiskIDs[n].Page83}
		if stats, err := client.GetDiskStats(ctx, &v1.GetDiskStatsRequest{DiskNumber: n}); err != nil {
			complete = false
			a.note("disk %d: cannot get size: %s", n, brief(err))
		} else {
			e.SizeBytes = &stats.TotalBytes
		}
		if s, err := client.GetDiskState(ctx, &v1.GetDiskStateRequest{DiskNumber: n}); err != nil {
			complete = false
			a.note("disk %d: cannot get state: %s", n, brief(err))
		} else {
			e.Online = &s.IsOnline
		}
		if l := locations.DiskLocations[n]; l != nil {
			e.Location = &diskLocation{l.Adapter, l.Bus, l.Target, l.LUNID}
		}
		entries = append(entries, e)
	}
	if !complete {
		return entries, &failure{err: errIncomplete}
	}
	return entries, nil
}
