package main

import (
	"context"
	"errors"
	"io/fs"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// describe asks csi-proxy, through the pipe of administrators, for what the API does not report.
func (a *app) describe(ctx context.Context, in *admin.DescribeRequest) (*admin.DescribeResponse, error) {
	conn, err := a.connect(pipe.Path(admin.Pipe))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &failure{err: errors.New("the pipe of administrators is not served: csi-proxy is of another release, or runs with -admin-pipe=false")}
	case errors.Is(err, fs.ErrPermission):
		return nil, &failure{err: errors.New("only administrators of the node can open the pipe of administrators")}
	case err != nil:
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := a.withShortLimit(ctx, describeLimit)
	defer cancel()
	out, err := admin.NewAdminClient(conn).Describe(ctx, in)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, &failure{err: errors.New("csi-proxy is of another release and cannot describe its node")}
	case err != nil:
		return nil, &failure{"describe the node", err}
	}
	return out, nil
}
