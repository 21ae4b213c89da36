package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
)

// versionEntry is a version of an API in the list.
type versionEntry struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Served  bool   `json:"served"`
	Server  string `json:"server"`
	Detail  string `json:"detail"`
}

func (a *app) versionsCommand() *cobra.Command {
	return a.listing(&cobra.Command{
		Use:   "versions",
		Short: "List the API groups and versions, and which of them are served",
		Long: `List the API groups and versions, and which of them are served.

It fails if none is served, so it can be used as a probe.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var entries []versionEntry
			var rows [][]string
			pipes := a.probes(c.Context())
			for _, p := range pipes {
				e := versionEntry{p.group, p.version.String(), p.state == served, p.server, p.detail}
				entries = append(entries, e)
				rows = append(rows, []string{e.Group, e.Version, yesNo(e.Served), cmp.Or(e.Detail, e.Server)})
			}
			if err := a.print(entries, "GROUP VERSION SERVED DETAIL", rows); err != nil {
				return err
			}
			if silent(pipes) {
				return &failure{err: &hinted{errors.New(noAnswer), "csi-proxyctl doctor says what to do"}}
			}
			if !slices.ContainsFunc(entries, func(e versionEntry) bool { return e.Served }) {
				return &failure{err: &hinted{errors.New("no version is served"), "csi-proxyctl doctor shows the reason"}}
			}
			return nil
		},
	})
}

// pipeState is the state of a pipe.
type pipeState int

const (
	served    pipeState = iota
	absent              // the pipe does not exist
	stale               // a socket whose server was killed
	refused             // this account may not open the pipe
	unhealthy           // the server does not respond, or reports that it is not serving
)

// probed is the result of probing a pipe.
type probed struct {
	api
	state  pipeState
	server string // the build that serves it, if known
	detail string // additional information

	late bool // it did not answer in time

	serves   []string // the names of all pipes that its server should serve, if it says so
	readOnly bool     // its server refuses changes

	refuses bool // it has too many callers, and refuses newcomers
}

// probeLimit is the time limit for a health check, unless --timeout is given.
const probeLimit = 4 * time.Second

// awaitInterval is the time between two attempts of await.
const awaitInterval = 50 * time.Millisecond

// probe checks whether an API is served, with the health service of its pipe.
func (a *app) probe(ctx context.Context, svc api) probed {
	p := probed{api: svc}
	conn, err := a.connect(svc.pipe())
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		p.state = absent
		return p
	case errors.Is(err, syscall.ECONNREFUSED):
		p.state, p.detail = stale, "its server was killed"
		return p
	case errors.Is(err, fs.ErrPermission):
		p.state, p.detail = refused, "access is denied"
		return p
	default:
		p.state, p.detail = unhealthy, err.Error()
		return p
	}
	defer conn.Close()
	ctx, cancel := a.withShortLimit(ctx, probeLimit)
	defer cancel()
	var header metadata.MD
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: string(svc.service.FullName())}, grpc.Header(&header))
	switch {
	case status.Code(err) == codes.Unimplemented:
		p.detail = "a server without a health service"
	case err != nil:
		p.state, p.detail, p.late = unhealthy, status.Convert(err).Message(), status.Code(err) == codes.DeadlineExceeded
	case answer.Status != grpc_health_v1.HealthCheckResponse_SERVING:
		p.state, p.detail = unhealthy, answer.Status.String()
	}
	if v := header.Get(pipes.VersionHeader); len(v) == 1 {
		p.server = "csi-proxy " + v[0]
	}
	p.serves, p.readOnly = header.Get(pipes.ServesHeader), len(header.Get(pipes.ReadOnlyHeader)) > 0
	if r := header.Get(pipes.RefusalsHeader); len(r) == 1 {
		p.refuses, p.detail = true, "has too many callers: it "+r[0]
	}
	return p
}

// probes checks all APIs, side by side.
func (a *app) probes(ctx context.Context) []probed {
	all := catalog()
	found := make([]probed, len(all))
	var group sync.WaitGroup
	for i, svc := range all {
		group.Go(func() { found[i] = a.probe(ctx, svc) })
	}
	group.Wait()
	return found
}

// leftOut reports whether the servers of pipes say which pipes they serve, and this is none of
// them, as with -enable-api.
func leftOut(pipes []probed, svc api) bool {
	said := false
	for _, p := range pipes {
		said = said || len(p.serves) > 0
		if slices.Contains(p.serves, svc.name()) {
			return false
		}
	}
	return said
}

// silent reports whether csi-proxy has pipes, and none of them answers.
func silent(pipes []probed) bool {
	mute := 0
	for _, p := range pipes {
		if p.late {
			mute++
		} else if p.state != absent {
			return false
		}
	}
	return mute > 0
}

// noAnswer says that silent is true.
const noAnswer = "csi-proxy does not answer: its process exists, and none of its pipes responds"

// await waits until csi-proxy responds on a pipe. Then all its pipes exist.
func (a *app) await(ctx context.Context) error {
	limited, cancel := a.limited(ctx)
	defer cancel()
	err := poll(limited, awaitInterval, func() (bool, error) {
		return slices.ContainsFunc(catalog(), func(svc api) bool { return a.probe(limited, svc).state == served }), nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &failure{err: ctx.Err()}
	}
	return &hinted{&failure{err: fmt.Errorf("csi-proxy did not respond within %v", a.timeout)}, "run csi-proxyctl doctor for details"}
}
