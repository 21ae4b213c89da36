package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exactly is a check that a command has n arguments. Its errors name them as the usage does.
func exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		_, names, _ := strings.Cut(c.Use, " ")
		switch {
		case len(args) < n:
			return &hinted{fmt.Errorf("%s needs %s", c.CommandPath(), names), c.CommandPath() + " --help says more"}
		case len(args) > n:
			return fmt.Errorf("%s takes %s only: %q is too much", c.CommandPath(), names, args[n])
		}
		return nil
	}
}
