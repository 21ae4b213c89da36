package remote

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
)

// PathValid fails with an error that matches [errors.ErrUnsupported]: no published version of
// the API has the method. [Filesystem.PathExists] is similar, but does not follow links. As in
// process, the response is "not valid" and not nil.
func (c *Filesystem) PathValid(_ context.Context, in *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	none := &filesystem.PathValidResponse{}
	if in == nil {
		return none, noRequest("PathValid")
	}
	return none, unpublished("filesystem", "PathValid", "call PathExists, or run the driver as a HostProcess container")
}

// CreateSymlink was LinkPath before v1beta2.
func v1beta1_CreateSymlink(ctx context.Context, c *connection, in *filesystem.CreateSymlinkRequest) (*filesystem.CreateSymlinkResponse, error) {
	request := &v1beta1.LinkPathRequest{SourcePath: in.SourcePath, TargetPath: in.TargetPath}
	if err := c.callAs(ctx, "CreateSymlink", "LinkPath", request, new(v1beta1.LinkPathResponse)); err != nil {
		return nil, err
	}
	return &filesystem.CreateSymlinkResponse{}, nil
}

// IsSymlink was IsMountPoint before v1beta2.
func v1beta1_IsSymlink(ctx context.Context, c *connection, in *filesystem.IsSymlinkRequest) (*filesystem.IsSymlinkResponse, error) {
	out := new(v1beta1.IsMountPointResponse)
	if err := c.callAs(ctx, "IsSymlink", "IsMountPoint", &v1beta1.IsMountPointRequest{Path: in.Path}, out); err != nil {
		return nil, err
	}
	return &filesystem.IsSymlinkResponse{IsSymlink: out.IsMountPoint}, nil
}
