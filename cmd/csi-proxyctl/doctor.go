package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// finding is something on the node that somebody should look at.
type finding struct {
	What string `json:"what"`
	Why  string `json:"why"`
	Hint string `json:"hint"`
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong on the node",
		Long: `Look for what is wrong on the node: SMB mappings that no link uses any more, and
mappings that do not work. Nothing is changed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			mappings, err := a.smbMappings(c.Context())
			if err != nil {
				return err
			}
			found := examineSMB(mappings)
			var rows [][]string
			for _, f := range found {
				rows = append(rows, []string{f.What, f.Why, f.Hint})
			}
			if len(found) == 0 && a.output != "json" {
				_, err := fmt.Fprintf(a.stdout, "nothing found: %d SMB mappings\n", len(mappings))
				return err
			}
			return a.print(found, "WHAT WHY HINT", rows)
		},
	}
}

// examineSMB finds mappings that were left behind or do not work.
func examineSMB(mappings []smbMapping) []finding {
	found := []finding{}
	for _, m := range mappings {
		what := "SMB mapping " + m.Remote
		switch {
		case len(m.UsedBy) == 0:
			found = append(found, finding{what, "no CSI volume links to it (" + m.Status + ")", "csi-proxyctl smb remove " + m.Remote + ", unless somebody uses it by its path"})
		case m.Status != "ok":
			found = append(found, finding{what, "is " + m.Status + ", and used by " + m.UsedBy[0], "the next NewSmbGlobalMapping makes it anew; restart the pod, or check the server"})
		}
	}
	return found
}
