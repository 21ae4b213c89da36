package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1alpha2 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
)

// Environment variables for CHAP secrets. They must not be arguments, which are visible to
// every process.
const (
	chapVariable   = "CSI_PROXY_CHAP_SECRET"
	mutualVariable = "CSI_PROXY_MUTUAL_CHAP_SECRET"
)

func (a *app) iscsiCommand() *cobra.Command {
	return listGroup("iscsi", "Show and change the connections of the node's iSCSI initiator",
		a.iscsiPortalsCommand(),
		a.iscsiPortalCommand("add-portal", "Register a portal and discover its targets", "AddTargetPortal", func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal) ([]string, error) {
			_, err := c.AddTargetPortal(ctx, &v1alpha2.AddTargetPortalRequest{TargetPortal: p})
			return nil, err
		}),
		a.iscsiPortalCommand("discover", "List the targets of a registered portal", "DiscoverTargetPortal", func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal) ([]string, error) {
			out, err := c.DiscoverTargetPortal(ctx, &v1alpha2.DiscoverTargetPortalRequest{TargetPortal: p})
			return append([]string{}, out.GetIqns()...), err
		}),
		a.iscsiPortalCommand("remove-portal", "Remove a registered portal", "RemoveTargetPortal", func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal) ([]string, error) {
			_, err := c.RemoveTargetPortal(ctx, &v1alpha2.RemoveTargetPortalRequest{TargetPortal: p})
			return nil, err
		}),
		a.iscsiConnectCommand(), a.iscsiDisksCommand(), a.iscsiDisconnectCommand(), a.iscsiMutualCommand())
}

// onISCSI makes one call to the API.
func (a *app) onISCSI(ctx context.Context, method string, call func(context.Context, v1alpha2.IscsiClient) error) error {
	return onAPI(ctx, a, "iscsi/v1alpha2", v1alpha2.NewIscsiClient, method, call)
}

// portalArgument parses ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func portalArgument(text string) (*v1alpha2.TargetPortal, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return &v1alpha2.TargetPortal{TargetAddress: text}, nil
	}
	n, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("portal %q: %q is not a port", text, port)
	}
	return &v1alpha2.TargetPortal{TargetAddress: host, TargetPort: uint32(n)}, nil
}

func (a *app) iscsiPortalsCommand() *cobra.Command {
	return a.listing(portalEntry{}, &cobra.Command{
		Use:   "portals",
		Short: "List the registered portals",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onISCSI(c.Context(), "ListTargetPortals", func(ctx context.Context, client v1alpha2.IscsiClient) error {
				out, err := client.ListTargetPortals(ctx, &v1alpha2.ListTargetPortalsRequest{})
				if err != nil {
					return err
				}
				list, rows := []portalEntry{}, [][]string{}
				for _, p := range out.TargetPortals {
					list, rows = append(list, portalEntry{p.TargetAddress, p.TargetPort}), append(rows, []string{portalText(p)})
				}
				return a.print(list, "PORTAL", rows)
			})
		},
	})
}

// The entries of iSCSI lists.
type (
	portalEntry struct {
		Address string `json:"address"`
		Port    uint32 `json:"port"`
	}
	targetEntry struct {
		IQN string `json:"iqn"`
	}
	targetDiskEntry struct {
		Number uint32 `json:"number"`
	}
)

// portalText formats a portal for arguments and tables.
func portalText(p *v1alpha2.TargetPortal) string {
	return net.JoinHostPort(p.TargetAddress, number(p.TargetPort))
}

// iscsiPortalCommand returns a command with a portal as argument. call returns the targets
// to print, or nil.
func (a *app) iscsiPortalCommand(name, short, method string, call func(context.Context, v1alpha2.IscsiClient, *v1alpha2.TargetPortal) ([]string, error)) *cobra.Command {
	return &cobra.Command{
		Use:     name + " PORTAL",
		Short:   short,
		Example: "  csi-proxyctl iscsi " + name + " 10.0.0.1:3260\n  csi-proxyctl iscsi " + name + " [fd00::1]:3260",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := portalArgument(args[0])
			if err != nil {
				return err
			}
			return a.onISCSI(c.Context(), method, func(ctx context.Context, client v1alpha2.IscsiClient) error {
				iqns, err := call(ctx, client, p)
				if err != nil || iqns == nil {
					return err
				}
				list, rows := []targetEntry{}, [][]string{}
				for _, iqn := range iqns {
					list, rows = append(list, targetEntry{iqn}), append(rows, []string{iqn})
				}
				return a.print(list, "TARGET", rows)
			})
		},
	}
}

func (a *app) iscsiConnectCommand() *cobra.Command {
	in := &v1alpha2.ConnectTargetRequest{}
	auth := "none"
	c := &cobra.Command{
		Use:   "connect PORTAL TARGET",
		Short: "Log in to a target",
		Long: `Log in to a target through a portal.

With --auth chap or mutual the secret is read from the environment variable
` + chapVariable + `.`,
		Example: "  csi-proxyctl iscsi connect 10.0.0.1 iqn.2003-01.org.example:disk1\n" +
			"  csi-proxyctl iscsi connect 10.0.0.1 iqn.2003-01.org.example:disk1 --auth chap --user csi",
		Args: exactly(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if in.TargetPortal, err = portalArgument(args[0]); err != nil {
				return err
			}
			in.Iqn = args[1]
			switch auth {
			case "none":
			case "chap":
				in.AuthType = v1alpha2.AuthenticationType_ONE_WAY_CHAP
			case "mutual":
				in.AuthType = v1alpha2.AuthenticationType_MUTUAL_CHAP
			default:
				return &hinted{fmt.Errorf("--auth %q: want none, chap or mutual", auth), didYouMean(auth, []string{"none", "chap", "mutual"})}
			}
			if auth != "none" {
				in.ChapSecret = os.Getenv(chapVariable)
			}
			return a.onISCSI(c.Context(), "ConnectTarget", func(ctx context.Context, client v1alpha2.IscsiClient) error {
				_, err := client.ConnectTarget(ctx, in)
				return err
			})
		},
	}
	c.Flags().StringVar(&auth, "auth", auth, "authentication `method`: none, chap or mutual")
	c.RegisterFlagCompletionFunc("auth", cobra.FixedCompletions([]string{"none", "chap", "mutual"}, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVar(&in.ChapUsername, "user", "", "CHAP user `name`; default: the name of the initiator")
	return c
}

// iscsiTargetCommand returns a command with a portal and a target as arguments.
func (a *app) iscsiTargetCommand(name, short, method string, call func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal, iqn string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " PORTAL TARGET",
		Short: short,
		Args:  exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := portalArgument(args[0])
			if err != nil {
				return err
			}
			return a.onISCSI(c.Context(), method, func(ctx context.Context, client v1alpha2.IscsiClient) error {
				return call(ctx, client, p, args[1])
			})
		},
	}
}

func (a *app) iscsiDisksCommand() *cobra.Command {
	return a.iscsiTargetCommand("disks", "List the disks of a target", "GetTargetDisks", func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal, iqn string) error {
		out, err := c.GetTargetDisks(ctx, &v1alpha2.GetTargetDisksRequest{TargetPortal: p, Iqn: iqn})
		if err != nil {
			return err
		}
		list, rows := []targetDiskEntry{}, [][]string{}
		for _, d := range out.DiskIDs {
			n, err := diskNumber(d)
			if err != nil {
				return err
			}
			list, rows = append(list, targetDiskEntry{n}), append(rows, []string{d})
		}
		return a.print(list, "DISK", rows)
	})
}

func (a *app) iscsiDisconnectCommand() *cobra.Command {
	return a.iscsiTargetCommand("disconnect", "Log out of a target", "DisconnectTarget", func(ctx context.Context, c v1alpha2.IscsiClient, p *v1alpha2.TargetPortal, iqn string) error {
		_, err := c.DisconnectTarget(ctx, &v1alpha2.DisconnectTargetRequest{TargetPortal: p, Iqn: iqn})
		return err
	})
}

func (a *app) iscsiMutualCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mutual-secret",
		Short: "Set the secret with which targets authenticate to the node",
		Long: `Set the secret with which targets authenticate to the node. The node has one
secret for all targets. It is read from the environment variable
` + mutualVariable + `.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			secret := os.Getenv(mutualVariable)
			if strings.TrimSpace(secret) == "" {
				return fmt.Errorf("the environment variable %s is not set; set it to the secret", mutualVariable)
			}
			return a.onISCSI(c.Context(), "SetMutualChapSecret", func(ctx context.Context, client v1alpha2.IscsiClient) error {
				_, err := client.SetMutualChapSecret(ctx, &v1alpha2.SetMutualChapSecretRequest{MutualChapSecret: secret})
				return err
			})
		},
	}
}
