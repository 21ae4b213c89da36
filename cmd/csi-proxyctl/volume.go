package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	ID         string   `json:"id"`
	Disk       uint32   `json:"disk"`
	Formatted  *bool    `json:"formatted"`
	SizeBytes  *int64   `json:"sizeBytes"`
	UsedBytes  *int64   `json:"usedBytes"`
	FileSystem *string  `json:"fileSystem"`
	Label      *string  `json:"label"`
	MountedAt  []string `json:"mountedAt"`
}

// listVolumes prints the volumes.
func (a *app) listVolumes(ctx context.Context) error {
	entries, incomplete := a.volumes(ctx)
	if incomplete != nil && !errors.Is(incomplete, errIncomplete) {
		return incomplete
	}
	rows := [][]string{}
	for _, e := range entries {
		formatted, size, used, fill := "", "", "", ""
		if e.Formatted != nil {
			formatted = yesNo(*e.Formatted)
		}
		if e.SizeBytes != nil {
			size, used, fill = bytesText(uint64(*e.SizeBytes)), bytesText(uint64(*e.UsedBytes)), percent(*e.UsedBytes, *e.SizeBytes)
		}
		rows = append(rows, []string{e.ID, number(e.Disk), formatted, size, used, fill, text(e.FileSystem), text(e.Label), strings.Join(e.MountedAt, " ")})
	}
	return cmp.Or(a.print(entries, "VOLUME DISK FORMATTED SIZE USED FILL FILESYSTEM LABEL MOUNTED-AT", rows), incomplete)
}

// volumes returns the volumes of all disks, as csi-proxy describes them. If it fails with
// errIncomplete, the list is usable, and what is missing has been noted.
func (a *app) volumes(ctx context.Context) ([]volumeEntry, error) {
	node, err := a.describe(ctx, &admin.DescribeRequest{})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // as for disks
	case err != nil:
		return nil, err
	case node.VolumesError != "":
		return nil, &failure{err: errors.New("csi-proxy cannot list the volumes: " + node.VolumesError)}
	}
	entries, complete := []volumeEntry{}, true
	for _, v := range node.Volumes {
		if v.Error != "" || placeUnknown(v) {
			complete = false
			a.note("volume %s does not answer: %s", v.Id, cmp.Or(v.Error, "it is offline"))
		}
		for _, n := range v.Disks {
			e := volumeEntry{ID: v.Id, Disk: n}
			if len(v.MountedAt) > 0 || v.Error == "" {
				e.MountedAt = append([]string{}, v.MountedAt...)
			}
			if v.Error == "" && !v.Offline {
				formatted := v.FileSystem != ""
				e.FileSystem, e.Label, e.Formatted = &v.FileSystem, &v.Label, &formatted
			}
			if v.Error == "" && v.SizeBytes > 0 {
				size, used := int64(v.SizeBytes), int64(v.SizeBytes-v.FreeBytes)
				e.SizeBytes, e.UsedBytes = &size, &used
			}
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(x, y volumeEntry) int { return cmp.Compare(x.Disk, y.Disk) })
	return entries, incompleteUnless(complete)
}

// percent formats how much of a volume is used. A nearly full one is not 100%.
func percent(used, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(used)/float64(total)*100))
}
