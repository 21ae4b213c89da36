package main

import "github.com/spf13/cobra"

// listAnnotation marks commands that print a list.
const listAnnotation = "list"

// listing makes a command one that prints a list.
func (a *app) listing(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{listAnnotation: "yes"}
	return a.watchable(c)
}

// listGroup returns a group of commands that lists if it is called without a subcommand.
func listGroup(use, short string, list *cobra.Command, others ...*cobra.Command) *cobra.Command {
	c := group(use, short, append(others, list)...)
	c.Long = short + ".\n\nWithout a subcommand: " + list.Name() + "."
	c.Annotations, c.RunE = list.Annotations, list.RunE
	c.Flags().AddFlagSet(list.Flags())
	return c
}
