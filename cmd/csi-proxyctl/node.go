package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (a *app) nodeCommand() *cobra.Command {
	return group("node", "Control the simulated node of csi-proxy-sim",
		a.nodeShowCommand(), a.nodeAttachCommand(), a.nodeDetachCommand(), a.nodeDiscardCommand(), a.nodeGrowCommand(),
		a.nodeSMBCommand(), a.nodeServiceCommand(), a.nodeISCSICommand(), a.nodeFailCommand(), a.nodeClearCommand(), a.nodeRebootCommand())
}

// onNode makes one call to the control service of the simulated node.
func (a *app) onNode(ctx context.Context, what string, call func(context.Context, *simcontrol.Client) error) error {
	conn, err := a.connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		return &hinted{err, "is csi-proxy-sim running? csi-proxy has no simulated node to control"}
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := call(ctx, simcontrol.NewClient(conn)); err != nil {
		return &failure{"node " + what, err}
	}
	return nil
}

// changeNode makes a call that has no result.
func (a *app) changeNode(c *cobra.Command, what string, call func(context.Context, *simcontrol.Client) error) error {
	if err := a.onNode(c.Context(), what, call); err != nil {
		return err
	}
	return a.printEmpty()
}

func (a *app) nodeShowCommand() *cobra.Command {
	return a.watchable(&cobra.Command{
		Use:   "show",
		Short: "Show the disks, volumes and faults of the node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var state nodespec.State
			err := a.onNode(c.Context(), "show", func(ctx context.Context, n *simcontrol.Client) (err error) {
				state, err = n.Show(ctx)
				return err
			})
			if err != nil {
				return err
			}
			if a.output != formatTable {
				return a.printValue(withLists(state))
			}
			return a.printState(state)
		},
	})
}

func (a *app) printState(state nodespec.State) error {
	var rows [][]string
	for _, d := range state.Disks {
		mode := "offline"
		if d.Online {
			mode = "online"
		}
		for _, m := range []struct {
			is   bool
			text string
		}{{d.ReadOnly, "read-only"}, {d.System, "system"}, {d.Waiting, "needs rescan"}} {
			if m.is {
				mode += ", " + m.text
			}
		}
		size := a.size(uint64(d.Size))
		if d.SeenSize != d.Size {
			size += " (before rescan: " + a.size(uint64(d.SeenSize)) + ")"
		}
		rows = append(rows, []string{number(d.Number), size, number(d.SectorSize), d.Style, mode, d.ID, d.Serial, d.Page83, d.Image})
	}
	if err := a.print(nil, "DISK SIZE SECTOR STYLE STATE ID SERIAL PAGE83 IMAGE", rows); err != nil {
		return err
	}
	rows = nil
	for _, v := range state.Volumes {
		var disks []string
		for _, d := range v.Disks {
			disks = append(disks, number(d))
		}
		rows = append(rows, []string{v.ID, strings.Join(disks, "+"), a.size(uint64(v.Size)), v.FileSystem, yesNo(v.Arrived), strings.Join(v.MountedAt, " ")})
	}
	fmt.Fprintln(a.stdout)
	if err := a.print(nil, "VOLUME DISK SIZE FILESYSTEM ARRIVED MOUNTED", rows); err != nil {
		return err
	}
	if err := a.printServices(state); err != nil {
		return err
	}
	if err := a.printSMB(state); err != nil {
		return err
	}
	if len(state.Detached) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.line("detached: %s", strings.Join(state.Detached, " ")); err != nil {
			return err
		}
	}
	if len(state.Faults) > 0 {
		rows = nil
		for _, f := range state.Faults {
			times := "always"
			if f.Times != 0 {
				times = number(f.Times)
			}
			rows = append(rows, []string{f.Call, cmp.Or(f.CodeName, "any"), f.Error, f.Delay.String(), times, number(f.Hits)})
		}
		fmt.Fprintln(a.stdout)
		if err := a.print(nil, "FAULT CODE ERROR DELAY TIMES HITS", rows); err != nil {
			return err
		}
	}
	if len(state.OpenHandles) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.line("open handles: %s", strings.Join(state.OpenHandles, " ")); err != nil {
			return err
		}
	}
	return nil
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func diskNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("disk %q: want a disk number", text)
	}
	return uint32(n), nil
}

func (a *app) nodeAttachCommand() *cobra.Command {
	var d nodespec.Disk
	c := &cobra.Command{
		Use:   "attach",
		Short: "Attach a new disk or, with --id, a detached disk",
		Example: `  csi-proxyctl node attach --size 10GiB --serial VOL0001
  csi-proxyctl node attach --id data`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var info nodespec.DiskInfo
			err := a.onNode(c.Context(), "attach", func(ctx context.Context, n *simcontrol.Client) (err error) {
				info, err = n.AttachDisk(ctx, d)
				return err
			})
			if err != nil {
				return err
			}
			if a.output != formatTable {
				return a.printValue(withLists(info))
			}
			return a.print(nil, "DISK SIZE ID SERIAL PAGE83", [][]string{{number(info.Number), a.size(uint64(info.Size)), info.ID, info.Serial, info.Page83}})
		},
	}
	diskFlags(c.Flags(), &d)
	return c
}

func (a *app) nodeDetachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "detach NUMBER",
		Short: "Detach a disk, even if it is in use",
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := diskNumber(args[0])
			if err != nil {
				return err
			}
			return a.changeNode(c, "detach", func(ctx context.Context, n *simcontrol.Client) error { return n.DetachDisk(ctx, number) })
		},
	}
}

func (a *app) nodeDiscardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "discard ID",
		Short: "Delete a detached disk with its content",
		Args:  exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeNode(c, "discard", func(ctx context.Context, n *simcontrol.Client) error { return n.DiscardDisk(ctx, args[0]) })
		},
	}
}

func (a *app) nodeGrowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "grow NUMBER SIZE",
		Short:   "Grow a disk; Windows detects the new size with the next rescan",
		Example: "  csi-proxyctl node grow 1 2GiB",
		Args:    exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := diskNumber(args[0])
			if err != nil {
				return err
			}
			size, err := nodespec.ParseSize(args[1])
			if err != nil {
				return err
			}
			return a.changeNode(c, "grow", func(ctx context.Context, n *simcontrol.Client) error { return n.GrowDisk(ctx, number, size) })
		},
	}
}

func (a *app) nodeFailCommand() *cobra.Command {
	var f nodespec.Fault
	c := &cobra.Command{
		Use:   "fail CALL",
		Short: "Make a Win32 call fail or take longer",
		Example: `  csi-proxyctl node fail Format --error ERROR_WRITE_PROTECT --times 1
  csi-proxyctl node fail DeviceIoControl --code IOCTL_DISK_GROW_PARTITION --delay 5s`,
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.Call = args[0]
			return a.changeNode(c, "fail", func(ctx context.Context, n *simcontrol.Client) error { return n.Fail(ctx, f) })
		},
	}
	faultFlags(c.Flags(), &f)
	return c
}

func (a *app) nodeClearCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clear",
		Short: "Remove all faults",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeNode(c, "clear", func(ctx context.Context, n *simcontrol.Client) error { return n.ClearFaults(ctx) })
		},
	}
}

func (a *app) nodeRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reboot",
		Short: "Reboot the node: close all handles, and restore the stored state of disks",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeNode(c, "reboot", func(ctx context.Context, n *simcontrol.Client) error { return n.Reboot(ctx) })
		},
	}
}
