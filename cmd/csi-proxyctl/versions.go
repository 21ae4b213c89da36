package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func (a *app) versionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "versions",
		Short: "List the API groups and versions, and which of them are served",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			type entry struct {
				Group   string `json:"group"`
				Version string `json:"version"`
				Served  bool   `json:"served"`
				Detail  string `json:"detail,omitempty"`
			}
			var entries []entry
			var rows [][]string
			for _, svc := range catalog() {
				served, detail := a.probe(c.Context(), svc)
				entries = append(entries, entry{svc.group, svc.version.String(), served, detail})
				rows = append(rows, []string{svc.group, svc.version.String(), yesNo(served), detail})
			}
			return a.print(entries, "GROUP VERSION SERVED DETAIL", rows)
		},
	}
}

// probe asks the pipe of an API whether it is served, by its health service.
func (a *app) probe(ctx context.Context, svc api) (served bool, detail string) {
	conn, err := connect(svc.pipe())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return false, "its server was killed"
	case err != nil:
		return false, err.Error()
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: string(svc.service.FullName())})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return true, "a server without a health service"
	case err != nil:
		return false, status.Convert(err).Message()
	case answer.Status != grpc_health_v1.HealthCheckResponse_SERVING:
		return false, answer.Status.String()
	}
	return true, ""
}
