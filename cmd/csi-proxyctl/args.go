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
		if len(args) <= n {
			return needed(n)(c, args)
		}
		return fmt.Errorf("%s takes %s only: %q is too much", c.CommandPath(), names, args[n])
	}
}

// needed is a check that a command has at least n arguments. Its error names them as the usage does.
func needed(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		_, names, _ := strings.Cut(c.Use, " ")
		return &hinted{fmt.Errorf("%s needs %s", c.CommandPath(), names), c.CommandPath() + " --help says more"}
	}
}
