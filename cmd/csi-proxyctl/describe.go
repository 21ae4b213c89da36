package main

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// describe asks csi-proxy for what the API does not report.
func (a *app) describe(ctx context.Context, in *admin.DescribeRequest) (*admin.DescribeResponse, error) {
	ctx, cancel := a.withShortLimit(ctx, describeLimit)
	defer cancel()
	out, err := onAdmin(ctx, a, "describe the node", func(ctx context.Context, c admin.AdminClient) (*admin.DescribeResponse, error) {
		return c.Describe(ctx, in)
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, &failure{err: errors.New("csi-proxy is of another release and cannot describe its node")}
	}
	return out, err
}
