package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
)

func (a *app) diskCommand() *cobra.Command {
	return group("disk", "Show the disks of the node", &cobra.Command{
		Use:   "list",
		Short: "List the disks with their identifiers",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.listDisks(c.Context()) },
	})
}

// diskEntry is a disk in the list. What the node did not tell is nil.
type diskEntry struct {
	Number    uint32        `json:"number"`
	SizeBytes *int64        `json:"sizeBytes"`
	Online    *bool         `json:"online"`
	Serial    string        `json:"serialNumber"`
	Page83    string        `json:"page83"`
	Location  *diskLocation `json:"location,omitempty"`
}

type diskLocation struct {
	Adapter string `json:"adapter"`
	Bus     string `json:"bus"`
	Target  string `json:"target"`
	LUN     string `json:"lun"`
}

func (a *app) listDisks(ctx context.Context) error {
	client, err := disk.NewClient()
	if err != nil {
		return &failure{err: err}
	}
	defer client.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	ids, err := client.ListDiskIDs(ctx, &v1.ListDiskIDsRequest{})
	if err != nil {
		return &failure{"disk/v1 ListDiskIDs", err}
	}
	locations, err := client.ListDiskLocations(ctx, &v1.ListDiskLocationsRequest{})
	if err != nil {
		return &failure{"disk/v1 ListDiskLocations", err}
	}
	complete := true
	entries, rows := []diskEntry{}, [][]string{}
	for _, n := range slices.Sorted(maps.Keys(ids.DiskIDs)) {
		e := diskEntry{Number: n, Serial: ids.DiskIDs[n].SerialNumber, Page83: ids.DiskIDs[n].Page83}
		size, state, location := "", "", ""
		if stats, err := client.GetDiskStats(ctx, &v1.GetDiskStatsRequest{DiskNumber: n}); err != nil {
			complete = false
			a.note("disk %d: its size: %s", n, brief(err))
		} else {
			e.SizeBytes = &stats.TotalBytes
			size = bytesText(uint64(stats.TotalBytes))
		}
		if s, err := client.GetDiskState(ctx, &v1.GetDiskStateRequest{DiskNumber: n}); err != nil {
			complete = false
			a.note("disk %d: its state: %s", n, brief(err))
		} else {
			e.Online = &s.IsOnline
			state = "offline"
			if s.IsOnline {
				state = "online"
			}
		}
		if l := locations.DiskLocations[n]; l != nil {
			e.Location = &diskLocation{l.Adapter, l.Bus, l.Target, l.LUNID}
			location = cmp.Or(l.Adapter, "-") + ":" + cmp.Or(l.Bus, "-") + ":" + cmp.Or(l.Target, "-") + ":" + cmp.Or(l.LUNID, "-")
		}
		entries = append(entries, e)
		rows = append(rows, []string{strconv.FormatUint(uint64(n), 10), size, state, e.Serial, e.Page83, location})
	}
	if err := a.print(entries, "NUMBER SIZE STATE SERIAL PAGE83 ADAPTER:BUS:TARGET:LUN", rows); err != nil {
		return err
	}
	if !complete {
		return &failure{err: errIncomplete}
	}
	return nil
}
