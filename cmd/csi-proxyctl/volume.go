package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	v1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
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

// listVolumes prints the volumes. What the API does not answer, the pipe of administrators may
// know. It is asked last, because a call of the API may have waited for a format to end.
func (a *app) listVolumes(ctx context.Context) error {
	asked, failed, err := a.askVolumes(ctx)
	if err != nil && statusIn(err) == nil {
		return err
	}
	node, undescribed := a.describe(ctx, &admin.DescribeRequest{})
	if ctx.Err() != nil {
		return ctx.Err() // as for disks
	}
	if err != nil && len(node.GetVolumes()) == 0 {
		return err
	}
	described, complete := a.describedVolumes(node, undescribed)
	if err != nil {
		a.noteError(err)
		a.note("the list has only what the pipe of administrators knows")
		for _, d := range described {
			if len(d.Disks) > 0 {
				failed = append(failed, d.Disks[0])
			}
		}
		slices.Sort(failed)
	}
	complete = complete && err == nil && len(failed) == 0
	for _, n := range slices.Compact(failed) {
		asked = append(asked, volumesOn(n, described)...)
	}
	slices.SortStableFunc(asked, func(x, y askedVolume) int { return cmp.Compare(x.Disk, y.Disk) })
	entries, rows := []volumeEntry{}, [][]string{}
	for i := range asked {
		v := &asked[i]
		v.add(described[strings.ToLower(v.ID)])
		complete = a.noteVolume(v) && complete
		e := v.volumeEntry
		formatted, size, used, fill := "", "", "", ""
		if e.Formatted != nil {
			formatted = yesNo(*e.Formatted)
		}
		if e.SizeBytes != nil {
			size, used, fill = a.size(uint64(*e.SizeBytes)), a.size(uint64(*e.UsedBytes)), percent(*e.UsedBytes, *e.SizeBytes)
		}
		entries = append(entries, e)
		rows = append(rows, []string{e.ID, number(e.Disk), formatted, size, used, fill, text(e.FileSystem), text(e.Label), strings.Join(e.MountedAt, " ")})
	}
	if err := a.print(entries, "VOLUME DISK FORMATTED SIZE USED FILL FILESYSTEM LABEL MOUNTED-AT", rows); err != nil {
		return err
	}
	if !complete {
		return &failure{err: errIncomplete}
	}
	return nil
}

// askedVolume is a volume, and why the API did not answer about it.
type askedVolume struct {
	volumeEntry
	format, stats error
}

// noteVolume notes what the API did not answer about a volume. It reports whether all of it
// is known anyway.
func (a *app) noteVolume(v *askedVolume) (complete bool) {
	if v.format != nil {
		a.note("volume %s: cannot check format: %s", v.ID, brief(v.format))
	}
	if v.stats != nil {
		a.note("volume %s: cannot get size: %s", v.ID, brief(v.stats))
	}
	return (v.format == nil || v.Formatted != nil) && (v.stats == nil || v.SizeBytes != nil)
}

// add adds what the API does not report, and what it did not answer.
func (v *askedVolume) add(d *admin.Volume) {
	if d == nil {
		return
	}
	if mayBeMounted(d) && len(d.MountedAt) == 0 {
		return // what is known is only that it does not answer
	}
	v.MountedAt = append([]string{}, d.MountedAt...)
	if d.Error != "" {
		return
	}
	v.FileSystem, v.Label = &d.FileSystem, &d.Label
	if formatted := d.FileSystem != ""; v.Formatted == nil && !d.Offline {
		v.Formatted = &formatted
	}
	if v.SizeBytes == nil && d.SizeBytes > 0 {
		size, used := int64(d.SizeBytes), int64(d.SizeBytes-d.FreeBytes)
		v.SizeBytes, v.UsedBytes = &size, &used
	}
}

// volumesOn returns the described volumes of a disk whose volumes the API does not list.
func volumesOn(disk uint32, described map[string]*admin.Volume) (found []askedVolume) {
	for _, d := range described {
		if slices.Contains(d.Disks, disk) {
			found = append(found, askedVolume{volumeEntry: volumeEntry{ID: d.Id, Disk: disk}})
		}
	}
	slices.SortFunc(found, func(x, y askedVolume) int { return cmp.Compare(x.ID, y.ID) })
	return found
}

// askVolumes asks the API about all volumes, on a few disks at once, each call with its own time
// limit. It notes the disks whose volumes it could not list, and returns them.
func (a *app) askVolumes(ctx context.Context) (asked []askedVolume, failed []uint32, err error) {
	toDisks, err := a.connectAPI("disk/v1")
	if err != nil {
		return nil, nil, err
	}
	defer toDisks.Close()
	toVolumes, err := a.connectAPI("volume/v1")
	if err != nil {
		return nil, nil, err
	}
	defer toVolumes.Close()
	volumes := v1.NewVolumeClient(toVolumes)
	ids, err := answer(ctx, a, diskv1.NewDiskClient(toDisks).ListDiskIDs, &diskv1.ListDiskIDsRequest{})
	if err != nil {
		return nil, nil, &failure{"disk/v1 ListDiskIDs", err}
	}
	numbers := slices.Sorted(maps.Keys(ids.DiskIDs))
	on, unlisted := make([][]askedVolume, len(numbers)), make([]error, len(numbers))
	admin.EachDevice(len(numbers), func(i int) { on[i], unlisted[i] = a.askVolumesOn(ctx, volumes, numbers[i]) })
	for i, n := range numbers {
		if unlisted[i] != nil {
			a.note("disk %d: cannot list volumes: %s", n, brief(unlisted[i]))
			failed = append(failed, n)
		}
	}
	return slices.Concat(on...), failed, nil
}

// askVolumesOn asks the API about the volumes of a disk.
func (a *app) askVolumesOn(ctx context.Context, volumes v1.VolumeClient, disk uint32) ([]askedVolume, error) {
	list, err := answer(ctx, a, volumes.ListVolumesOnDisk, &v1.ListVolumesOnDiskRequest{DiskNumber: disk})
	if err != nil {
		return nil, err
	}
	asked := []askedVolume{}
	for _, id := range list.VolumeIds {
		v := askedVolume{volumeEntry: volumeEntry{ID: id, Disk: disk}}
		var f *v1.IsVolumeFormattedResponse
		if f, v.format = answer(ctx, a, volumes.IsVolumeFormatted, &v1.IsVolumeFormattedRequest{VolumeId: id}); v.format == nil {
			v.Formatted = &f.Formatted
		}
		if f.GetFormatted() {
			var stats *v1.GetVolumeStatsResponse
			if stats, v.stats = answer(ctx, a, volumes.GetVolumeStats, &v1.GetVolumeStatsRequest{VolumeId: id}); v.stats == nil {
				v.SizeBytes, v.UsedBytes = &stats.TotalBytes, &stats.UsedBytes
			}
		}
		asked = append(asked, v)
	}
	return asked, nil
}

// describedVolumes returns what the API does not report, by the volume ID in lower case, and
// whether that is all of it. Of volumes that do not answer, only some of it is known.
func (a *app) describedVolumes(node *admin.DescribeResponse, err error) (all map[string]*admin.Volume, complete bool) {
	complete = statusIn(err) == nil // without the pipe of administrators it is never known
	if err != nil {
		a.note("file system, label and mount points are unknown: %s", brief(err))
	}
	if text := node.GetVolumesError(); text != "" {
		complete = false
		a.note("file system, label and mount points are unknown: %s", text)
	}
	all = map[string]*admin.Volume{}
	for _, v := range node.GetVolumes() {
		if v.Error != "" {
			complete = false
			a.note("volume %s does not answer: %s", v.Id, v.Error)
		}
		all[strings.ToLower(v.Id)] = v
	}
	return all, complete
}

// percent formats how much of a volume is used. A nearly full one is not 100%.
func percent(used, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(used)/float64(total)*100))
}
