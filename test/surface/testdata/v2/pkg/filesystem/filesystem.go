// Package filesystem is the published surface of the filesystem service.
package filesystem

import (
	"context"

	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
)

type Interface interface {
	CreateSymlink(context.Context, *CreateSymlinkRequest) (*CreateSymlinkResponse, error)
	IsSymlink(context.Context, *IsSymlinkRequest) (*IsSymlinkResponse, error)
	Mkdir(context.Context, *MkdirRequest) (*MkdirResponse, error)
	PathExists(context.Context, *PathExistsRequest) (*PathExistsResponse, error)
	PathValid(context.Context, *PathValidRequest) (*PathValidResponse, error)
	Rmdir(context.Context, *RmdirRequest) (*RmdirResponse, error)
	RmdirContents(context.Context, *RmdirContentsRequest) (*RmdirContentsResponse, error)
}

type Filesystem struct {
	hostAPI filesystemapi.HostAPI
}

var _ Interface = &Filesystem{}

func New(hostAPI filesystemapi.HostAPI) (*Filesystem, error)

func (*Filesystem) CreateSymlink(context.Context, *CreateSymlinkRequest) (*CreateSymlinkResponse, error)

func (*Filesystem) IsSymlink(context.Context, *IsSymlinkRequest) (*IsSymlinkResponse, error)

func (*Filesystem) Mkdir(context.Context, *MkdirRequest) (*MkdirResponse, error)

func (*Filesystem) PathExists(context.Context, *PathExistsRequest) (*PathExistsResponse, error)

func (*Filesystem) PathValid(context.Context, *PathValidRequest) (*PathValidResponse, error)

func (*Filesystem) Rmdir(context.Context, *RmdirRequest) (*RmdirResponse, error)

func (*Filesystem) RmdirContents(context.Context, *RmdirContentsRequest) (*RmdirContentsResponse, error)

type CreateSymlinkResponse struct{}

type MkdirResponse struct{}

type RmdirResponse struct{}

type RmdirContentsResponse struct{}

type PathExistsRequest struct{ Path string }

type PathExistsResponse struct{ Exists bool }

type PathValidRequest struct{ Path string }

type PathValidResponse struct{ Valid bool }

type MkdirRequest struct{ Path string }

type RmdirRequest struct {
	Path  string
	Force bool
}

type RmdirContentsRequest struct{ Path string }

type CreateSymlinkRequest struct {
	SourcePath string
	TargetPath string
}

type IsSymlinkRequest struct{ Path string }

type IsSymlinkResponse struct{ IsSymlink bool }

func ValidatePathWindows(path string) error
