package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	v1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) volumeCommand() *cobra.Command {
	return listGroup("volume", "Show the volumes of the node", a.listing(&cobra.Command{
		Use:   "list",
		Short: "List the volumes of all disks, and where they are mounted",
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
	// These are known through the pipe of administrators only.
	FileSystem *string  `json:"fileSystem"`
	Label      *string  `json:"label"`
	MountedAt  []string `json:"mountedAt"`
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
	complete, described := true, a.describedVolumes(ctx)
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
			formatted, size, used, fill := "", "", "", ""
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
					size, used, fill = a.size(uint64(stats.TotalBytes)), a.size(uint64(stats.UsedBytes)), percent(stats.UsedBytes, stats.TotalBytes)
				}
				fallthrough
			default:
				e.Formatted = &f.Formatted
				formatted = yesNo(f.Formatted)
			}
			if d := described[strings.ToLower(id)]; d != nil {
				e.FileSystem, e.Label, e.MountedAt = &d.FileSystem, &d.Label, append([]string{}, d.MountedAt...)
			}
			entries = append(entries, e)
			rows = append(rows, []string{id, number(n), formatted, size, used, fill, text(e.FileSystem), text(e.Label), strings.Join(e.MountedAt, " ")})
		}
	}
	if err := a.print(entries, "VOLUME DISK FORMATTED SIZE USED FILL FILESYSTEM LABEL MOUNTED-AT", rows); err != nil {
		return err
	}
	if !complete {
		return &failure{err: errIncomplete}
	}
	return nil
}

// describedVolumes returns what the API does not report, by the volume ID in lower case.
// Volumes that cannot be described are missing.
func (a *app) describedVolumes(ctx context.Context) map[string]*admin.Volume {
	node, err := a.describe(ctx, &admin.DescribeRequest{})
	if err != nil {
		a.note("file system, label and mount points are unknown: %s", brief(err))
		return nil
	}
	if node.VolumesError != "" {
		a.note("file system, label and mount points are unknown: %s", node.VolumesError)
	}
	all := map[string]*admin.Volume{}
	for _, v := range node.Volumes {
		if v.Error != "" {
			a.note("volume %s: cannot describe it: %s", v.Id, v.Error)
			continue
		}
		all[strings.ToLower(v.Id)] = v
	}
	return all
}

// percent formats how much of a volume is used. A nearly full one is not 100%.
func percent(used, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(used)/float64(total)*100))
}
