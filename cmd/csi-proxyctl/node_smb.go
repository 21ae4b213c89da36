package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// passwordVariable is the environment variable for passwords of accounts of an SMB server.
const passwordVariable = "CSI_PROXY_SMB_PASSWORD"

func (a *app) nodeSMBCommand() *cobra.Command {
	change := func(use, short string, set func(in *simcontrol.ChangeSmbServerRequest, args []string) error) *cobra.Command {
		return a.nodeChange(use, "smb", short, func(ctx context.Context, n *simcontrol.Client, args []string) error {
			in := &simcontrol.ChangeSmbServerRequest{Name: args[0]}
			if err := set(in, args); err != nil {
				return err
			}
			return n.ChangeSMBServer(ctx, in)
		})
	}
	yes, no := true, false
	password := change("password SERVER USER", "Set the password of an account, or create the account",
		func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			in.User, in.Password = args[1], os.Getenv(passwordVariable)
			return nil
		})
	password.Long = "Set the password of an account of an SMB server, or create the account. The\npassword is read from the environment variable " + passwordVariable + "."
	return group("smb", "Control the SMB servers that the node can reach",
		a.nodeSMBAddCommand(),
		change("share SERVER NAME", "Add an empty share to a server", func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			in.AddShare = args[1]
			return nil
		}),
		change("mkdir SERVER SHARE\\PATH", "Create a directory on a share, with its parents", func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			in.AddDirectory = args[1]
			return nil
		}),
		password,
		change("down SERVER", "Disconnect a server from the network", func(in *simcontrol.ChangeSmbServerRequest, _ []string) error {
			in.Down = &yes
			return nil
		}),
		change("up SERVER", "Reconnect a server, and restore the connections that it still accepts", func(in *simcontrol.ChangeSmbServerRequest, _ []string) error {
			in.Down = &no
			return nil
		}),
		change("encryption SERVER on|off", "Enable or disable encryption on a server", func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			switch args[1] {
			case "on":
				in.Encryption = &yes
			case "off":
				in.Encryption = &no
			default:
				return fmt.Errorf("encryption %q: want on or off", args[1])
			}
			return nil
		}),
		a.nodeChange("status SHARE STATUS", "smb status", "Set the status that Windows reports for a mapping", func(ctx context.Context, n *simcontrol.Client, args []string) error {
			return n.SetSMBMappingStatus(ctx, args[0], args[1])
		}))
}

func (a *app) nodeSMBAddCommand() *cobra.Command {
	var s nodespec.SMBServer
	c := &cobra.Command{
		Use:     "add SERVER",
		Short:   "Add an SMB server to the network of the node",
		Example: "  csi-proxyctl node smb add files.example.com --share data --share logs",
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			s.Name = args[0]
			return a.changeNode(c, "smb add", func(ctx context.Context, n *simcontrol.Client) error { return n.AddSMBServer(ctx, s) })
		},
	}
	serverFlags(c.Flags(), &s)
	return c
}
