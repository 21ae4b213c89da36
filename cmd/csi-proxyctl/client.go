package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// onAPI makes one call with a client of an API, such as "smb/v1".
func onAPI[C io.Closer](ctx context.Context, a *app, api string, connect func() (C, error), method string, call func(context.Context, C) error) error {
	client, err := connect()
	if err != nil {
		return &failure{err: err}
	}
	defer client.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := call(ctx, client); err != nil {
		return &failure{api + " " + method, err}
	}
	return nil
}

// answer makes one call of a client, with its own time limit: in a list, a call that hangs does
// not delay the others.
func answer[In, Out any](ctx context.Context, a *app, call func(context.Context, In, ...grpc.CallOption) (Out, error), in In) (Out, error) {
	ctx, cancel := a.withShortLimit(ctx, answerLimit)
	defer cancel()
	return call(ctx, in)
}

// onAdmin makes one call on the pipe of administrators, for a command.
func onAdmin[T any](ctx context.Context, a *app, command string, call func(context.Context, admin.AdminClient) (T, error)) (out T, err error) {
	conn, err := connect(pipe.Path(admin.Pipe))
	if err != nil && nothingListens() {
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
func nothingListens() bool {
	return !slices.ContainsFunc(catalog(), func(svc api) bool {
		conn, err := connect(svc.pipe())
		if err == nil {
			conn.Close()
		}
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
	})
}
