package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// passwordVariable is the environment variable for passwords. They must not be
// arguments, which are visible to every process.
const passwordVariable = "CSI_PROXY_SMB_PASSWORD"

// password reads a password from standard input or from the environment.
func (a *app) password(fromStdin bool) (string, error) {
	if !fromStdin {
		return os.Getenv(passwordVariable), nil
	}
	const longest = 1 << 16
	text, err := io.ReadAll(io.LimitReader(a.stdin, longest))
	if err != nil {
		return "", &failure{err: fmt.Errorf("standard input: %w", err)}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

func (a *app) smbCommand() *cobra.Command {
	return listGroup("smb", "List, create and remove the SMB mappings of the node", a.smbListCommand(), a.smbNewCommand(), a.smbRemoveCommand())
}

// smbMapping is a mapping in the list.
type smbMapping struct {
	Remote string `json:"remote"`
	User   string `json:"user"`
	Status string `json:"status"`
	// Requires is what the connection must have: privacy, integrity or nothing. Empty if unknown.
	Requires string   `json:"requires"`
	UsedBy   []string `json:"usedBy"`
}

// smbMappings returns the mappings of the node, through the pipe of administrators: the API has no
// method that lists all, with the links of all.
func (a *app) smbMappings(ctx context.Context) ([]smbMapping, error) {
	node, err := a.describe(ctx, &admin.DescribeRequest{Mappings: true})
	list := []smbMapping{}
	for _, m := range node.GetMappings() {
		list = append(list, smbMapping{m.Share, m.User, m.Status, m.Requires, append([]string{}, m.UsedBy...)})
	}
	return list, err
}

func (a *app) smbListCommand() *cobra.Command {
	return a.listing(smbMapping{}, &cobra.Command{
		Use:   "list",
		Short: "List the global mappings and the links that use them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.smbMappings(c.Context())
			if err != nil {
				return err
			}
			var rows [][]string
			for _, m := range list {
				rows = append(rows, []string{m.Remote, m.User, m.Status, m.Requires, strings.Join(m.UsedBy, " ")})
			}
			return a.print(list, "SHARE USER STATUS REQUIRES USED-BY", rows)
		},
	})
}

func (a *app) smbNewCommand() *cobra.Command {
	in := &v1.NewSmbGlobalMappingRequest{}
	stdin := false
	c := &cobra.Command{
		Use:   "new REMOTE",
		Short: "Map a share and create a link to it",
		Long: `Map a share for every account of the node and, with --local, create a link to it.

The password is read from the environment variable ` + passwordVariable + `,
or with --password-stdin from the first line of standard input.`,
		Example: `  csi-proxyctl smb new //files.example.com/data --user ann@corp.example.com --password-stdin
  csi-proxyctl smb new //files.example.com/data/team --user ann --local "C:\var\lib\kubelet\plugins\smb\v1\globalmount"`,
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			in.RemotePath = args[0]
			if in.Password, err = a.password(stdin); err != nil {
				return err
			}
			return a.onSMB(c.Context(), "NewSmbGlobalMapping", func(ctx context.Context, client v1.SmbClient) error {
				_, err := client.NewSmbGlobalMapping(ctx, in)
				return err
			})
		},
	}
	c.Flags().StringVar(&in.LocalPath, "local", "", "`path` of the link to create")
	c.Flags().StringVar(&in.Username, "user", "", "user `name` or DOMAIN\\name; default: the account of the node")
	c.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return c
}

func (a *app) smbRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove REMOTE",
		Short: "Remove the mapping of a share, unless a link uses it",
		Long: `Remove the mapping of a share. If links use the mapping, it is kept until the
last link is removed.`,
		Example: `  csi-proxyctl smb remove //files.example.com/data`,
		Args:    exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onSMB(c.Context(), "RemoveSmbGlobalMapping", func(ctx context.Context, client v1.SmbClient) error {
				_, err := client.RemoveSmbGlobalMapping(ctx, &v1.RemoveSmbGlobalMappingRequest{RemotePath: args[0]})
				if err == nil {
					a.noteKeptMapping(ctx, args[0])
				}
				return err
			})
		},
	}
}

// noteKeptMapping prints a note if the share is still mapped. A mapping that is used by
// links is removed with the last link, which the response does not report.
func (a *app) noteKeptMapping(ctx context.Context, remote string) {
	mappings, err := a.smbMappings(ctx)
	if err != nil {
		return
	}
	path, _ := winpath.Parse(remote) // if remote is not valid, path is the zero Path, which has no share
	share, _ := path.Share()
	for _, m := range mappings {
		switch {
		case !winpath.SameShare(m.Remote, share.String()):
		case len(m.UsedBy) > 0:
			a.note("%s is kept: %s links to it", m.Remote, m.UsedBy[0])
		default:
			a.note("%s is kept: a link that csi-proxyctl cannot find uses it; the log of csi-proxy names the link", m.Remote)
		}
	}
}

// onSMB makes one call to the API.
func (a *app) onSMB(ctx context.Context, method string, call func(context.Context, v1.SmbClient) error) error {
	return onAPI(ctx, a, "smb/v1", v1.NewSmbClient, method, call)
}
