package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

func (a *app) nodeServiceCommand() *cobra.Command {
	s := &simcontrol.Service{}
	var startDelay, stopDelay, waitHint time.Duration
	c := &cobra.Command{
		Use:   "service NAME",
		Short: "Make a Windows service, or replace the one of that name",
		Example: `  csi-proxyctl node service storagevendor --depends-on MSiSCSI --state running
  csi-proxyctl node service storagevendor --dies 1067`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			s.StartDelayMilliseconds, s.StopDelayMilliseconds, s.WaitHintMilliseconds = startDelay.Milliseconds(), stopDelay.Milliseconds(), waitHint.Milliseconds()
			_, err := onNode(a, c.Context(), "service", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.SetServiceResponse, error) {
				return n.SetService(ctx, &simcontrol.SetServiceRequest{Service: s})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
	f := c.Flags()
	f.StringVar(&s.DisplayName, "display-name", "", "`name` that people see")
	f.StringVar(&s.StartType, "start", "", "boot, system, auto, manual or disabled; manual without it")
	f.StringVar(&s.State, "state", "", "running, stopped or paused; without it, what follows from --start")
	f.StringArrayVar(&s.DependsOn, "depends-on", nil, "`service` that must run for this one to run; repeatable")
	f.DurationVar(&startDelay, "start-delay", 0, "how long it takes to start")
	f.DurationVar(&stopDelay, "stop-delay", 0, "how long it takes to stop")
	f.DurationVar(&waitHint, "wait-hint", 0, "what it estimates while it does")
	f.Uint32Var(&s.StartError, "start-error", 0, "Win32 `number` with which starting is refused")
	f.Uint32Var(&s.Dies, "dies", 0, "Win32 `number` with which it ends instead of running")
	f.BoolVar(&s.RefusesStop, "refuses-stop", false, "accepts no stop")
	f.StringVar(&s.Hangs, "hangs", "", "stays for good at start or stop")
	return c
}

func (a *app) nodeISCSICommand() *cobra.Command {
	return group("iscsi", "Control the iSCSI targets that the node can reach", a.nodeISCSISetCommand(), a.nodeISCSIRemoveCommand())
}

func (a *app) nodeISCSISetCommand() *cobra.Command {
	in := &simcontrol.SetIscsiTargetRequest{}
	var luns []string
	var arrival time.Duration
	c := &cobra.Command{
		Use:   "set IQN",
		Short: "Make a target, or replace the one of that name",
		Long: `Make an iSCSI target, or replace the one of that name.

With --chap-user the secrets are taken from the environment variables
` + chapVariable + ` and ` + mutualVariable + `.`,
		Example: "  csi-proxyctl node iscsi set iqn.2003-01.org.example:disk1 --portal 10.0.0.1 --lun 10GiB --lun 20GiB",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in.Iqn, in.LunBytes = args[0], nil
			for _, text := range luns {
				n, err := simnode.ParseSize(text)
				if err != nil {
					return err
				}
				in.LunBytes = append(in.LunBytes, uint64(n))
			}
			if in.ChapUser != "" {
				in.ChapSecret, in.MutualSecret = os.Getenv(chapVariable), os.Getenv(mutualVariable)
				if in.ChapSecret == "" {
					return fmt.Errorf("--chap-user without a secret in the environment variable %s", chapVariable)
				}
			}
			in.ArrivalDelayMilliseconds = arrival.Milliseconds()
			_, err := onNode(a, c.Context(), "iscsi set", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.SetIscsiTargetResponse, error) {
				return n.SetIscsiTarget(ctx, in)
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
	f := c.Flags()
	f.StringArrayVar(&in.Portals, "portal", nil, "`address` where it listens, with a port or without; repeatable")
	f.StringArrayVar(&luns, "lun", nil, "`size` of the next LUN, as 10GiB; repeatable")
	f.StringVar(&in.ChapUser, "chap-user", "", "user `name` that logins need")
	f.DurationVar(&arrival, "arrival-delay", 0, "passes between a login and each further disk")
	f.BoolVar(&in.Refuses, "refuses", false, "refuses every login")
	f.BoolVar(&in.Unreachable, "unreachable", false, "answers nobody")
	f.BoolVar(&in.Busy, "busy", false, "makes Windows refuse a logout")
	f.BoolVar(&in.Persistent, "persistent", false, "Windows logs in by itself whenever MSiSCSI begins")
	return c
}

func (a *app) nodeISCSIRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove IQN",
		Short: "Take a target away, with its sessions and disks",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			_, err := onNode(a, c.Context(), "iscsi remove", func(ctx context.Context, n simcontrol.NodeClient) (*simcontrol.RemoveIscsiTargetResponse, error) {
				return n.RemoveIscsiTarget(ctx, &simcontrol.RemoveIscsiTargetRequest{Iqn: args[0]})
			})
			if err != nil {
				return err
			}
			return a.printEmpty()
		},
	}
}

// printServices is the part of node show about services and iSCSI.
func (a *app) printServices(state *simcontrol.ShowResponse) error {
	var rows [][]string
	for _, s := range state.Services {
		rows = append(rows, []string{s.Name, s.State, s.StartType, strings.Join(s.DependsOn, " ")})
	}
	if len(rows) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.print(nil, "SERVICE STATE START DEPENDS-ON", rows); err != nil {
			return err
		}
	}
	rows = nil
	for _, t := range state.IscsiTargets {
		var disks []string
		for _, d := range t.DiskNumbers {
			disks = append(disks, number(d))
		}
		rows = append(rows, []string{t.Iqn, strings.Join(t.Portals, " "), number(t.Luns), t.ChapUser, t.Through, strings.Join(disks, " "), strings.Join(t.State, " ")})
	}
	if len(rows) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.print(nil, "ISCSI-TARGET PORTALS LUNS CHAP SESSION-THROUGH DISKS STATE", rows); err != nil {
			return err
		}
	}
	if len(state.IscsiPortals) > 0 {
		fmt.Fprintf(a.stdout, "\nregistered iSCSI portals: %s\n", strings.Join(state.IscsiPortals, " "))
	}
	return nil
}
