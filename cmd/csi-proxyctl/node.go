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
		a.nodeShowCommand(), a.nodeAttachCommand(), a.nodeSMBCommand(), a.nodeServiceCommand(), a.nodeISCSICommand(), a.nodeFailCommand(),
		a.nodeChange("detach NUMBER", "detach", "Detach a disk, even if it is in use", onDiskNumber(func(ctx context.Context, n *simcontrol.Client, disk uint32, _ []string) error {
			return n.DetachDisk(ctx, disk)
		})),
		a.nodeChange("discard ID", "discard", "Delete a detached disk with its content", func(ctx context.Context, n *simcontrol.Client, args []string) error {
			return n.DiscardDisk(ctx, args[0])
		}),
		a.nodeChange("grow NUMBER SIZE", "grow", "Grow a disk; Windows detects the new size with the next rescan", onDiskNumber(func(ctx context.Context, n *simcontrol.Client, disk uint32, args []string) error {
			size, err := nodespec.ParseSize(args[1])
			if err != nil {
				return err
			}
			return n.GrowDisk(ctx, disk, size)
		})),
		a.nodeChange("clear", "clear", "Remove all faults", func(ctx context.Context, n *simcontrol.Client, _ []string) error { return n.ClearFaults(ctx) }),
		a.nodeChange("reboot", "reboot", "Reboot the node: close all handles, and restore the stored state of disks", func(ctx context.Context, n *simcontrol.Client, _ []string) error {
			return n.Reboot(ctx)
		}))
}

// onDiskNumber returns a change whose first argument is the number of a disk.
func onDiskNumber(change func(context.Context, *simcontrol.Client, uint32, []string) error) func(context.Context, *simcontrol.Client, []string) error {
	return func(ctx context.Context, n *simcontrol.Client, args []string) error {
		disk, err := diskNumber(args[0])
		if err != nil {
			return err
		}
		return change(ctx, n, disk, args)
	}
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

// nodeChange is a command without flags that changes the node. what names it in errors.
func (a *app) nodeChange(use, what, short string, call func(ctx context.Context, n *simcontrol.Client, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  exactly(len(strings.Fields(use)) - 1),
		RunE: func(c *cobra.Command, args []string) error {
			var wrong error // an argument, and so no answer of the node
			err := a.changeNode(c, what, func(ctx context.Context, n *simcontrol.Client) error {
				err := call(ctx, n, args)
				if statusIn(err) == nil {
					wrong = err
				}
				return err
			})
			return cmp.Or(wrong, err)
		},
	}
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

// printState prints a table for each kind of thing that the node has.
func (a *app) printState(state nodespec.State) error {
	printed := false
	table := func(header string, rows [][]string) error {
		if len(rows) == 0 {
			return nil
		}
		if printed {
			fmt.Fprintln(a.stdout)
		}
		printed = true
		return a.print(nil, header, rows)
	}
	var disks, volumes, services, targets, servers, mappings, faults [][]string
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
		size := bytesText(uint64(d.Size))
		if d.SeenSize != d.Size {
			size += " (before rescan: " + bytesText(uint64(d.SeenSize)) + ")"
		}
		disks = append(disks, []string{number(d.Number), size, number(d.SectorSize), d.Style, mode, d.ID, d.Serial, d.Page83, d.Image})
	}
	for _, v := range state.Volumes {
		volumes = append(volumes, []string{v.ID, strings.Join(texts(v.Disks, number), "+"), bytesText(uint64(v.Size)), v.FileSystem, yesNo(v.Arrived), strings.Join(v.MountedAt, " ")})
	}
	for _, s := range state.Services {
		services = append(services, []string{s.Name, s.Status, s.StartType, strings.Join(s.DependsOn, " ")})
	}
	for _, t := range state.ISCSITargets {
		targets = append(targets, []string{t.IQN, portalTexts(t.Portals), strconv.Itoa(t.LUNs), t.CHAP, t.Through, strings.Join(texts(t.Disks, number), " "), strings.Join(t.State, " ")})
	}
	for _, s := range state.SMBServers {
		mode := "up"
		if s.Down {
			mode = "down"
		}
		servers = append(servers, []string{s.Name, mode, yesNo(s.Encryption), strings.Join(s.Shares, " "), strings.Join(s.Users, " ")})
	}
	for _, m := range state.SMBMappings {
		mappings = append(mappings, []string{m.Remote, m.User, m.Status, strings.Join(m.UsedBy, " ")})
	}
	for _, f := range state.Faults {
		times := "always"
		if f.Times != 0 {
			times = number(f.Times)
		}
		faults = append(faults, []string{f.Call, cmp.Or(f.CodeName, "any"), f.Error, f.Delay.String(), times, number(f.Hits)})
	}
	err := cmp.Or(
		table("DISK SIZE SECTOR STYLE STATE ID SERIAL PAGE83 IMAGE", disks),
		table("VOLUME DISK SIZE FILESYSTEM ARRIVED MOUNTED", volumes),
		table("SERVICE STATE START DEPENDS-ON", services),
		table("ISCSI-TARGET PORTALS LUNS CHAP SESSION-THROUGH DISKS STATE", targets),
		table("SMB-SERVER STATE ENCRYPTION SHARES USERS", servers),
		table("SHARE USER STATUS USED-BY", mappings),
		table("FAULT CODE ERROR DELAY TIMES HITS", faults))
	for _, l := range []struct{ name, text string }{
		{"registered iSCSI portals", portalTexts(state.ISCSIPortals)},
		{"detached", strings.Join(state.Detached, " ")},
		{"open handles", strings.Join(state.OpenHandles, " ")},
	} {
		if l.text != "" && err == nil {
			fmt.Fprintln(a.stdout)
			err = a.line("%s: %s", l.name, l.text)
		}
	}
	return err
}

// texts returns the texts of the elements of a list.
func texts[T any](list []T, text func(T) string) (all []string) {
	for _, v := range list {
		all = append(all, text(v))
	}
	return all
}

// portalTexts formats portals with their ports.
func portalTexts(portals []nodespec.ISCSIPortal) string {
	return strings.Join(texts(portals, nodespec.ISCSIPortal.String), " ")
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
			return a.print(nil, "DISK SIZE ID SERIAL PAGE83", [][]string{{number(info.Number), bytesText(uint64(info.Size)), info.ID, info.Serial, info.Page83}})
		},
	}
	diskFlags(c.Flags(), &d)
	return c
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
