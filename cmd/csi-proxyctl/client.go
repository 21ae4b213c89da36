package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// onAPI makes one call with a client of an API, such as "smb/v1".
func onAPI[C any](ctx context.Context, a *app, api string, client func(grpc.ClientConnInterface) C, method string, call func(context.Context, C) error) error {
	conn, err := a.connectAPI(api)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := call(ctx, client(conn)); err != nil {
		return &failure{api + " " + method, err}
	}
	return nil
}

// connectAPI connects to the pipe of an API, such as "smb/v1".
func (a *app) connectAPI(api string) (*grpc.ClientConn, error) {
	return a.connect(pipe.Path("csi-proxy-" + strings.Replace(api, "/", "-", 1)))
}

// onAdmin makes one call on the pipe of administrators, for a command.
func onAdmin[T any](ctx context.Context, a *app, command string, call func(context.Context, admin.AdminClient) (T, error)) (out T, err error) {
	conn, err := a.connect(pipe.Path(admin.Pipe))
	if err != nil && a.nothingListens() {
		return out, &failure{err: &hinted{errors.New("csi-proxy is not running: none of its pipes can be opened"), "csi-proxyctl doctor says what to do"}}
	}
	if err != nil {
		return out, &failure{err: &hinted{err, "is csi-proxy running, without -admin-pipe=false? Only administrators of the node can open the pipe"}}
	}
	defer conn.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if out, err = call(ctx, admin.NewAdminClient(conn)); err != nil {
		return out, &failure{command, err}
	}
	return out, nil
}

// nothingListens reports whether no pipe exists, or all are sockets that were left by a process
// that was killed.
func (a *app) nothingListens() bool {
	return !slices.ContainsFunc(catalog(), func(svc api) bool {
		conn, err := a.connect(svc.pipe())
		if err == nil {
			conn.Close()
		}
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
	})
}
