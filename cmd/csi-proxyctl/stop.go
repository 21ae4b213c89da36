package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop csi-proxy, and wait until no call runs",
		Long: `Stop csi-proxy. It takes no new calls; running calls finish, or are cut off after a
minute. The command returns when no call runs, up to --timeout, and then the process ends.

The pod of csi-proxy has it as preStop hook, because the runtime of HostProcess
containers ends the process five seconds after its signal. A Windows service refuses:
Stop-Service stops it. With CSI_PROXY_POD in the environment, so does a csi-proxy in whose
environment it is not the same, as that of another pod. It uses a pipe that only administrators of the node can open.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := onAdmin(c.Context(), a, "stop", func(ctx context.Context, c admin.AdminClient) (*admin.StopResponse, error) {
				return c.Stop(ctx, &admin.StopRequest{Pod: os.Getenv(admin.PodVariable)})
			})
			if errors.Is(err, fs.ErrNotExist) && !a.nothingListens() {
				return &failure{err: &hinted{errors.New("csi-proxy serves without the pipe of administrators, so it cannot be asked to stop, and was not stopped"),
					"Stop-Service, Ctrl-C or the signal of its container stop it, the last within seconds: start it without -admin-pipe=false, so that this lets its calls end first"}}
			}
			switch status.Code(err) {
			case codes.DeadlineExceeded, codes.Unavailable:
				return &failure{err: &hinted{err, "it stops when its calls have ended, and cuts them off after a minute: its log names them"}}
			case codes.Unimplemented:
				return &failure{err: &hinted{err, "csi-proxy is of another release than csi-proxyctl"}}
			case codes.OK:
				a.note("csi-proxy stops: no call runs")
			}
			return err
		},
	}
}
