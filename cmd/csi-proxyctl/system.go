package main

import (
	"context"

	"github.com/spf13/cobra"

	v1alpha1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
)

func (a *app) systemCommand() *cobra.Command {
	return group("system", "Show, start and stop Windows services, and show the machine's serial number",
		a.systemServiceCommand(), a.systemStartCommand(), a.systemStopCommand())
}

// onSystem makes one call to the API.
func (a *app) onSystem(ctx context.Context, method string, call func(context.Context, v1alpha1.SystemClient) error) error {
	return onAPI(ctx, a, "system/v1alpha1", v1alpha1.NewSystemClient, method, call)
}

// serviceEntry is a service in the output.
type serviceEntry struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	StartType   string `json:"startType"`
	Status      string `json:"status"`
}

// serviceWords completes the services that volumes need.
var serviceWords = cobra.FixedCompletions([]string{"MSiSCSI", "kubelet"}, cobra.ShellCompDirectiveNoFileComp)

func (a *app) systemServiceCommand() *cobra.Command {
	return a.listing(serviceEntry{}, &cobra.Command{
		Use:               "service NAME...",
		Short:             "Show services",
		Example:           "  csi-proxyctl system service MSiSCSI",
		Args:              needed(1),
		ValidArgsFunction: serviceWords,
		RunE: func(c *cobra.Command, args []string) error {
			entries, rows := []serviceEntry{}, [][]string{}
			for _, name := range args {
				err := a.onSystem(c.Context(), "GetService", func(ctx context.Context, client v1alpha1.SystemClient) error {
					s, err := client.GetService(ctx, &v1alpha1.GetServiceRequest{Name: name})
					if err != nil {
						return err
					}
					e := serviceEntry{name, s.DisplayName, s.StartType.String(), s.Status.String()}
					entries = append(entries, e)
					rows = append(rows, []string{e.Name, e.Status, e.StartType, e.DisplayName})
					return nil
				})
				if err != nil {
					return err
				}
			}
			return a.print(entries, "NAME STATUS START DISPLAY-NAME", rows)
		},
	})
}

func (a *app) systemStartCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "start NAME",
		Short:             "Start a service and wait until it is running",
		Example:           "  csi-proxyctl system start MSiSCSI",
		Args:              exactly(1),
		ValidArgsFunction: serviceWords,
		RunE: func(c *cobra.Command, args []string) error {
			return a.onSystem(c.Context(), "StartService", func(ctx context.Context, client v1alpha1.SystemClient) error {
				_, err := client.StartService(ctx, &v1alpha1.StartServiceRequest{Name: args[0]})
				return err
			})
		},
	}
}

func (a *app) systemStopCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:               "stop NAME",
		Short:             "Stop a service and wait until it has stopped",
		Args:              exactly(1),
		ValidArgsFunction: serviceWords,
		RunE: func(c *cobra.Command, args []string) error {
			return a.onSystem(c.Context(), "StopService", func(ctx context.Context, client v1alpha1.SystemClient) error {
				_, err := client.StopService(ctx, &v1alpha1.StopServiceRequest{Name: args[0], Force: force})
				return err
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "stop services that depend on it first")
	return c
}
