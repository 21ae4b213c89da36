package main

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	v1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
)

func (a *app) volumeCommand() *cobra.Command {
	return group("volume", "Show the volumes of the node", a.watchable(&cobra.Command{
		Use:   "list",
		Short: "List the volumes of all disks",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.listVolumes(c.Context()) },
	}))
}

// volumeEntry is a volume in the list. Values that the node did not return are nil.
type volumeEntry struct {
	ID        string `json:"id"`
	Disk      uint32 `json:"disk"`
	Formatted *bool  `json:"formatted"`
	SizeBytes *int64 `json:"sizeBytes"`
	UsedBytes *int64 `json:"usedBytes"`
}

func (a *app) listVolumes(ctx context.Context) error {
	disks, err := disk.NewClient()
	if err != nil {
		return &failure{err: err}
	}
	defer disks.Close()
	volumes, err := volume.NewClient()
	if err != nil {
		return &failure{err: err}
	}
	defer volumes.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	ids, err := disks.ListDiskIDs(ctx, &diskv1.ListDiskIDsRequest{})
	if err != nil {
		return &failure{"disk/v1 ListDiskIDs", err}
	}
	complete := true
	entries, rows := []volumeEntry{}, [][]string{}
	for _, n := range slices.Sorted(maps.Keys(ids.DiskIDs)) {
		list, err := volumes.ListVolumesOnDisk(ctx, &v1.ListVolumesOnDiskRequest{DiskNumber: n})
		if err != nil {
			complete = false
			a.note("disk %d: cannot list volumes: %s", n, brief(err))
			continue
		}
		for _, id := range list.VolumeIds {
			e := volumeEntry{ID: id, Disk: n}
			formatted, size, used := "", "", ""
			f, err := volumes.IsVolumeFormatted(ctx, &v1.IsVolumeFormattedRequest{VolumeId: id})
			switch {
			case err != nil:
				complete = false
				a.note("volume %s: cannot check format: %s", id, brief(err))
			case f.Formatted:
				stats, err := volumes.GetVolumeStats(ctx, &v1.GetVolumeStatsRequest{VolumeId: id})
				if err != nil {
					complete = false
					a.note("volume %s: cannot get size: %s", id, brief(err))
				} else {
					e.SizeBytes, e.UsedBytes = &stats.TotalBytes, &stats.UsedBytes
					size, used = a.size(uint64(stats.TotalBytes)), a.size(uint64(stats.UsedBytes))
				}
				fallthrough
			default:
				e.Formatted = &f.Formatted
				formatted = yesNo(f.Formatted)
			}
			entries = append(entries, e)
			rows = append(rows, []string{id, number(n), formatted, size, used})
		}
	}
	if err := a.print(entries, "VOLUME DISK FORMATTED SIZE USED", rows); err != nil {
		return err
	}
	if !complete {
		return &failure{err: errIncomplete}
	}
	return nil
}
