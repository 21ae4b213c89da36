package wire

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
)

// Before v1beta2 CreateSymlink was called LinkPath, and IsSymlink IsMountPoint.
// Responses had a field for an error text, which was never used: in every version,
// failures are gRPC errors.

func v1beta1_LinkPath(ctx context.Context, to target[filesystem.Service], in *v1beta1.LinkPathRequest) (*v1beta1.LinkPathResponse, error) {
	if _, err := ask(ctx, to, filesystem.Service.CreateSymlink, &filesystem.CreateSymlinkRequest{SourcePath: in.SourcePath, TargetPath: in.TargetPath}); err != nil {
		return nil, err
	}
	return &v1beta1.LinkPathResponse{}, nil
}

func v1beta1_IsMountPoint(ctx context.Context, to target[filesystem.Service], in *v1beta1.IsMountPointRequest) (*v1beta1.IsMountPointResponse, error) {
	out, err := ask(ctx, to, filesystem.Service.IsSymlink, &filesystem.IsSymlinkRequest{Path: in.Path})
	if err != nil {
		return nil, err
	}
	return &v1beta1.IsMountPointResponse{IsMountPoint: out.IsSymlink}, nil
}
