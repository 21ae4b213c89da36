package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) diskClearCommand() *cobra.Command {
	in := &admin.ClearDiskRequest{}
	yes, dryRun := false, false
	c := &cobra.Command{
		Use:   "clear NUMBER",
		Short: "Destroy the partitions and the content of a disk",
		Long: `Destroy the partitions and the content of a disk, so that PartitionDisk accepts it:
it overwrites every place at which PartitionDisk looks, and the partition table. It shows
what is on the disk and asks before it changes anything.

With --partition it destroys the content of one partition, so that FormatVolume accepts
it, and with --behind that of the free space behind a partition, so that ResizeVolume
accepts it; that partition may be mounted. Both keep the partition table and all other
partitions.

The disk must have the serial number or page 83h identifier that is given. Disks of
Windows, and mounted volumes, are refused. It uses a pipe that only administrators of
the node can open.`,
		Example: `  csi-proxyctl disk clear 3 --dry-run
  csi-proxyctl disk clear 3 --serial VOL0001
  csi-proxyctl disk clear 3 --partition 2 --serial VOL0001
  csi-proxyctl disk clear 3 --behind 2 --serial VOL0001`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &hinted{errors.New("disk clear needs the NUMBER of one disk"), "csi-proxyctl disk clear --help says more"}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if in.DiskNumber, err = diskNumber(args[0]); err != nil {
				return err
			}
			if in.Serial == "" && !dryRun {
				return &hinted{errors.New("--serial is missing"), fmt.Sprintf("csi-proxyctl disk clear %d --dry-run shows the serial number and what would be destroyed", in.DiskNumber)}
			}
			return a.clearDisk(c.Context(), in, dryRun, yes)
		},
	}
	c.Flags().StringVar(&in.Serial, "serial", "", "serial `number` or page 83h identifier of the disk")
	c.Flags().Uint32Var(&in.Partition, "partition", 0, "clear only the partition with this `number`")
	c.Flags().Uint32Var(&in.Behind, "behind", 0, "clear only the free space behind the partition with this `number`")
	c.MarkFlagsMutuallyExclusive("partition", "behind")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be destroyed")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (a *app) clearDisk(ctx context.Context, in *admin.ClearDiskRequest, dryRun, yes bool) error {
	would, err := a.inspectDisk(ctx, &admin.InspectDiskRequest{DiskNumber: in.DiskNumber, Serial: in.Serial, Partition: in.Partition, Behind: in.Behind})
	if err != nil {
		return err
	}
	if dryRun {
		return a.printCleared(in.DiskNumber, would)
	}
	if !yes {
		a.note("disk %d, serial number %q, %s", in.DiskNumber, would.Serial, bytesText(would.SizeBytes))
		for _, found := range would.Found {
			a.note("  %s: %s at byte %d", found.What, bytesText(found.LengthBytes), found.OffsetBytes)
		}
		if len(would.Found) == 0 {
			a.note("  nothing was found")
		}
		a.note("destroy it? Type yes:")
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		if strings.TrimSpace(line) != "yes" {
			return &failure{err: &hinted{errors.New("not confirmed; nothing was changed"), "--yes answers the question"}}
		}
	}
	done, err := onAdmin(ctx, a, "disk clear", func(ctx context.Context, c admin.AdminClient) (*admin.DiskContent, error) {
		return c.ClearDisk(ctx, in)
	})
	if err != nil {
		return err
	}
	return a.printCleared(in.DiskNumber, done)
}

// inspectDisk returns what disk clear would destroy.
func (a *app) inspectDisk(ctx context.Context, in *admin.InspectDiskRequest) (*admin.DiskContent, error) {
	return onAdmin(ctx, a, "disk clear --dry-run", func(ctx context.Context, c admin.AdminClient) (*admin.DiskContent, error) {
		return c.InspectDisk(ctx, in)
	})
}

// clearedEntry is the result of disk clear.
type clearedEntry struct {
	Number       uint32         `json:"number"`
	Serial       string         `json:"serialNumber"`
	Page83       string         `json:"page83"`
	SizeBytes    uint64         `json:"sizeBytes"`
	Found        []contentEntry `json:"found"`
	WrittenBytes uint64         `json:"writtenBytes"`
}

type contentEntry struct {
	OffsetBytes uint64 `json:"offsetBytes"`
	LengthBytes uint64 `json:"lengthBytes"`
	What        string `json:"what"`
}

func (a *app) printCleared(disk uint32, out *admin.DiskContent) error {
	entry := clearedEntry{disk, out.Serial, out.Page83, out.SizeBytes, []contentEntry{}, out.WrittenBytes}
	state := "not changed"
	if out.WrittenBytes > 0 {
		state = "cleared"
	}
	var rows [][]string
	for _, f := range out.Found {
		entry.Found = append(entry.Found, contentEntry{f.OffsetBytes, f.LengthBytes, f.What})
		rows = append(rows, []string{number(disk), out.Serial, bytesText(f.LengthBytes), fmt.Sprint(f.OffsetBytes), state, f.What})
	}
	if len(rows) == 0 {
		rows = [][]string{{number(disk), out.Serial, bytesText(out.SizeBytes), "0", state, "nothing was found"}}
	}
	return a.print(entry, "DISK SERIAL SIZE OFFSET STATE CONTENT", rows)
}
