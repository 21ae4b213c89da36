package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) smbCommand() *cobra.Command {
	return listGroup("smb", "Show the SMB mappings of the node", a.smbListCommand())
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
	return a.listing(&cobra.Command{
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
