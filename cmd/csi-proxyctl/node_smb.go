package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (a *app) nodeSMBCommand() *cobra.Command {
	change := func(use, short string, args int, set func(in *simcontrol.ChangeSmbServerRequest, args []string) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: exactly(args),
			RunE: func(c *cobra.Command, args []string) error {
				in := &simcontrol.ChangeSmbServerRequest{Name: args[0]}
				if err := set(in, args); err != nil {
					return err
				}
				return a.changeNode(c, "smb", func(ctx context.Context, n *simcontrol.Client) error { return n.ChangeSMBServer(ctx, in) })
			},
		}
	}
	yes, no := true, false
	stdin := false
	password := change("password SERVER USER", "Set the password of an account, or create the account", 2,
		func(in *simcontrol.ChangeSmbServerRequest, args []string) (err error) {
			in.User = args[1]
			in.Password, err = a.password(stdin)
			return err
		})
	password.Long = "Set the password of an account of an SMB server, or create the account. The\npassword is read from the environment variable " + passwordVariable + ",\nor with --password-stdin from standard input."
	password.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return group("smb", "Control the SMB servers that the node can reach",
		a.nodeSMBAddCommand(),
		change("share SERVER NAME", "Add an empty share to a server", 2, func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			in.AddShare = args[1]
			return nil
		}),
		change("mkdir SERVER SHARE\\PATH", "Create a directory on a share, with its parents", 2, func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
			in.AddDirectory = args[1]
			return nil
		}),
		password,
		change("down SERVER", "Disconnect a server from the network", 1, func(in *simcontrol.ChangeSmbServerRequest, _ []string) error {
			in.Down = &yes
			return nil
		}),
		change("up SERVER", "Reconnect a server, and restore the connections that it still accepts", 1, func(in *simcontrol.ChangeSmbServerRequest, _ []string) error {
			in.Down = &no
			return nil
		}),
		change("encryption SERVER on|off", "Enable or disable encryption on a server", 2, func(in *simcontrol.ChangeSmbServerRequest, args []string) error {
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
		a.nodeSMBStatusCommand())
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

func (a *app) nodeSMBStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status SHARE STATUS",
		Short:   "Set the status that Windows reports for a mapping",
		Example: `  csi-proxyctl node smb status //files.example.com/data reconnecting`,
		Args:    exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeNode(c, "smb status", func(ctx context.Context, n *simcontrol.Client) error {
				return n.SetSMBMappingStatus(ctx, args[0], args[1])
			})
		},
	}
}

// printSMB prints the SMB servers and mappings of node show.
func (a *app) printSMB(state nodespec.State) error {
	var rows [][]string
	for _, s := range state.SMBServers {
		mode := "up"
		if s.Down {
			mode = "down"
		}
		rows = append(rows, []string{s.Name, mode, yesNo(s.Encryption), strings.Join(s.Shares, " "), strings.Join(s.Users, " ")})
	}
	if len(rows) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.print(nil, "SMB-SERVER STATE ENCRYPTION SHARES USERS", rows); err != nil {
			return err
		}
	}
	rows = nil
	for _, m := range state.SMBMappings {
		rows = append(rows, []string{m.Remote, m.User, m.Status, strings.Join(m.UsedBy, " ")})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	return a.print(nil, "SHARE USER STATUS USED-BY", rows)
}
