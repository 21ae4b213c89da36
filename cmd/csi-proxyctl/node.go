package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

func (a *app) nodeCommand() *cobra.Command {
	return group("node", "Control the simulated node of csi-proxy-sim",
		a.nodeShowCommand(), a.nodeAttachCommand(), a.nodeDetachCommand(), a.nodeGrowCommand(),
		a.nodeSMBCommand(), a.nodeServiceCommand(), a.nodeISCSICommand(), a.nodeFailCommand(), a.nodeClearCommand(), a.nodeRebootCommand())
}

// onNode calls the control service.
func onNode[Out any](a *app, ctx context.Context, what string, call func(context.Context, simcontrol.NodeClient) (Out, error)) (Out, error) {
	var none Out
	conn, err := connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		return none, &hinted{err, "only csi-proxy-sim has a node to control: is it running?"}
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	out, err := call(ctx, simcontrol.NewNodeClient(conn))
	if err != nil {
		return none, &failure{"node " + what, err}
	}
	return out, nil
}

func (a *app) nodeShowCommand() *cobra.Command {
	return a.watchable(&cobra.Command{
		Use:   "show",
		Short: "Show the disks, volumes and faults of the node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := onNode(a, c.Context(), "show", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.ShowResponse, error) {
				return n.Show(ctx, &simcontrol.ShowRequest{})
			})
			if err != nil {
				return err
			}
			if a.output != formatTable {
				return a.printValue(plain(state.ProtoReflect()))
			}
			return a.printState(state)
		},
	})
}

func (a *app) printState(state *simcontrol.ShowResponse) error {
	var rows [][]string
	for _, d := range state.Disks {
		mode := "offline"
		if d.Online {
			mode = "online"
		}
		for _, m := range []struct {
			is   bool
			text string
		}{{d.ReadOnly, "read-only"}, {d.System, "system"}, {d.Waiting, "not seen yet"}} {
			if m.is {
				mode += ", " + m.text
			}
		}
		size := a.size(d.SizeBytes)
		if d.SeenSizeBytes != d.SizeBytes {
			size += " (seen: " + a.size(d.SeenSizeBytes) + ")"
		}
		rows = append(rows, []string{number(d.Number), size, number(d.SectorSize), d.Style, mode, d.Id, d.SerialNumber, d.Page83, d.Image})
	}
	if err := a.print(nil, "DISK SIZE SECTOR STYLE STATE ID SERIAL PAGE83 IMAGE", rows); err != nil {
		return err
	}
	rows = nil
	for _, v := range state.Volumes {
		var disks []string
		for _, d := range v.DiskNumbers {
			disks = append(disks, number(d))
		}
		rows = append(rows, []string{v.Id, strings.Join(disks, "+"), a.size(v.SizeBytes), v.FileSystem, yesNo(v.Arrived), strings.Join(v.MountedAt, " ")})
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
		fmt.Fprintf(a.stdout, "\ndetached: %s\n", strings.Join(state.Detached, " "))
	}
	if len(state.Faults) > 0 {
		rows = nil
		for _, f := range state.Faults {
			code, times := "any", "always"
			if f.Code != 0 {
				code = fmt.Sprintf("%#x", f.Code)
			}
			if f.Times != 0 {
				times = number(f.Times)
			}
			rows = append(rows, []string{f.Call, code, f.Error, (time.Duration(f.DelayMilliseconds) * time.Millisecond).String(), times, number(f.Hits)})
		}
		fmt.Fprintln(a.stdout)
		if err := a.print(nil, "FAULT CODE ERROR DELAY TIMES HITS", rows); err != nil {
			return err
		}
	}
	if len(state.OpenHandles) > 0 {
		fmt.Fprintf(a.stdout, "\nopen handles: %s\n", strings.Join(state.OpenHandles, " "))
	}
	return nil
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func diskNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a disk number", text)
	}
	return uint32(n), nil
}

func (a *app) nodeAttachCommand() *cobra.Command {
	in := &simcontrol.AttachDiskRequest{}
	var size string
	c := &cobra.Command{
		Use:   "attach",
		Short: "Attach a new disk, or by --id one that was detached",
		Example: `  csi-proxyctl node attach --size 10GiB --serial VOL0001
  csi-proxyctl node attach --id data`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if size != "" {
				n, err := simnode.ParseSize(size)
				if err != nil {
					return err
				}
				in.SizeBytes = uint64(n)
			}
			out, err := onNode(a, c.Context(), "attach", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.AttachDiskResponse, error) {
				return n.AttachDisk(ctx, in)
			})
			if err != nil {
				return err
			}
			if a.output != formatTable {
				return a.printValue(plain(out.Disk.ProtoReflect()))
			}
			d := out.Disk
			return a.print(nil, "DISK SIZE ID SERIAL PAGE83", [][]string{{number(d.Number), a.size(d.SizeBytes), d.Id, d.SerialNumber, d.Page83}})
		},
	}
	c.Flags().StringVar(&size, "size", "", "`size` of a new disk, as 10GiB")
	c.Flags().Uint32Var(&in.SectorSize, "sector-size", 0, "512 or 4096 `bytes`")
	c.Flags().StringVar(&in.SerialNumber, "serial", "", "its serial `number`")
	c.Flags().StringVar(&in.Page83, "page83", "", "its page 83h `identifier`")
	c.Flags().StringVar(&in.Id, "id", "", "its lasting `identity`")
	c.Flags().StringVar(&in.Content, "content", "", "what it `holds`: blank, gpt, gptNoMSR, mbr or superfloppy")
	return c
}

func (a *app) nodeDetachCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "detach NUMBER",
		Short:             "Take a disk away, whatever uses it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(false, diskWords),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := diskNumber(args[0])
			if err != nil {
				return err
			}
			_, err = onNode(a, c.Context(), "detach", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.DetachDiskResponse, error) {
				return n.DetachDisk(ctx, &simcontrol.DetachDiskRequest{DiskNumber: number})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
}

func (a *app) nodeGrowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "grow NUMBER SIZE",
		Short:             "Make a disk larger; Windows notices with the next rescan",
		Example:           "  csi-proxyctl node grow 1 2GiB",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeFirst(false, diskWords),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := diskNumber(args[0])
			if err != nil {
				return err
			}
			size, err := simnode.ParseSize(args[1])
			if err != nil {
				return err
			}
			_, err = onNode(a, c.Context(), "grow", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.GrowDiskResponse, error) {
				return n.GrowDisk(ctx, &simcontrol.GrowDiskRequest{DiskNumber: number, SizeBytes: uint64(size)})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
}

func (a *app) nodeFailCommand() *cobra.Command {
	f := &simcontrol.Fault{}
	var delay time.Duration
	c := &cobra.Command{
		Use:   "fail CALL",
		Short: "Make a Win32 call fail, or take longer",
		Example: `  csi-proxyctl node fail Format --error ERROR_WRITE_PROTECT --times 1
  csi-proxyctl node fail DeviceIoControl --code 0x7c0d0 --delay 5s`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.Call = args[0]
			f.DelayMilliseconds = delay.Milliseconds()
			_, err := onNode(a, c.Context(), "fail", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.FailResponse, error) {
				return n.Fail(ctx, &simcontrol.FailRequest{Fault: f})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
	c.Flags().StringVar(&f.Error, "error", "", "the `error` that it answers, as ERROR_ACCESS_DENIED or 5")
	c.Flags().Uint32Var(&f.Code, "code", 0, "only with this control `code` or information class")
	c.Flags().Uint32Var(&f.Times, "times", 0, "how `often`; 0 means until it is cleared")
	c.Flags().DurationVar(&delay, "delay", 0, "how long it takes")
	return c
}

func (a *app) nodeClearCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clear",
		Short: "End all faults that fail has begun",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := onNode(a, c.Context(), "clear", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.ClearFaultsResponse, error) {
				return n.ClearFaults(ctx, &simcontrol.ClearFaultsRequest{})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
}

func (a *app) nodeRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reboot",
		Short: "Restart the node: handles are gone, disks come up as they were last set to",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := onNode(a, c.Context(), "reboot", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.RebootResponse, error) {
				return n.Reboot(ctx, &simcontrol.RebootRequest{})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
}
