package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Environment variables for CHAP secrets. They must not be arguments, which are visible to
// every process.
const (
	chapVariable   = "CSI_PROXY_CHAP_SECRET"
	mutualVariable = "CSI_PROXY_MUTUAL_CHAP_SECRET"
)

func (a *app) nodeServiceCommand() *cobra.Command {
	var s nodespec.Service
	c := &cobra.Command{
		Use:   "service NAME",
		Short: "Create or replace a Windows service",
		Example: `  csi-proxyctl node service storagevendor --depends-on MSiSCSI --state running
  csi-proxyctl node service storagevendor --dies 1067`,
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			return a.changeNode(c, "service", func(ctx context.Context, n *simcontrol.Client) error { return n.SetService(ctx, s) })
		},
	}
	serviceFlags(c.Flags(), &s)
	return c
}

func (a *app) nodeISCSICommand() *cobra.Command {
	return group("iscsi", "Control the iSCSI targets that the node can reach", a.nodeISCSISetCommand(),
		a.nodeChange("remove IQN", "iscsi remove", "Remove a target with its sessions and disks", func(ctx context.Context, n *simcontrol.Client, args []string) error {
			return n.RemoveISCSITarget(ctx, args[0])
		}))
}

func (a *app) nodeISCSISetCommand() *cobra.Command {
	var t nodespec.ISCSITarget
	var user string
	c := &cobra.Command{
		Use:   "set IQN",
		Short: "Create or replace a target",
		Long: `Create or replace an iSCSI target.

With --chap-user the secrets are read from the environment variables
` + chapVariable + ` and ` + mutualVariable + `.`,
		Example: "  csi-proxyctl node iscsi set iqn.2003-01.org.example:disk1 --portal 10.0.0.1 --lun 10GiB --lun 20GiB",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.IQN = args[0]
			if user != "" {
				t.CHAP = &nodespec.CHAP{User: user, Secret: os.Getenv(chapVariable), MutualSecret: os.Getenv(mutualVariable)}
				if t.CHAP.Secret == "" {
					return fmt.Errorf("--chap-user needs a secret in the environment variable %s", chapVariable)
				}
			}
			return a.changeNode(c, "iscsi set", func(ctx context.Context, n *simcontrol.Client) error { return n.SetISCSITarget(ctx, t) })
		},
	}
	targetFlags(c.Flags(), &t)
	c.Flags().StringVar(&user, "chap-user", "", "CHAP user `name` for logins")
	return c
}
