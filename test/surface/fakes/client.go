package fakes

import (
	"context"

	"google.golang.org/grpc"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskv1beta1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta1"
	fsv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	volumev1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	fsclient "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
)

// files is a mock of a generated client that embeds nothing.
type files struct{}

var _ fsv1.FilesystemClient = files{}

func (files) PathExists(context.Context, *fsv1.PathExistsRequest, ...grpc.CallOption) (*fsv1.PathExistsResponse, error) {
	return &fsv1.PathExistsResponse{Exists: true}, nil
}

func (files) Mkdir(context.Context, *fsv1.MkdirRequest, ...grpc.CallOption) (*fsv1.MkdirResponse, error) {
	return &fsv1.MkdirResponse{}, nil
}

func (files) Rmdir(context.Context, *fsv1.RmdirRequest, ...grpc.CallOption) (*fsv1.RmdirResponse, error) {
	return &fsv1.RmdirResponse{}, nil
}

func (files) CreateSymlink(context.Context, *fsv1.CreateSymlinkRequest, ...grpc.CallOption) (*fsv1.CreateSymlinkResponse, error) {
	return &fsv1.CreateSymlinkResponse{}, nil
}

func (files) IsSymlink(context.Context, *fsv1.IsSymlinkRequest, ...grpc.CallOption) (*fsv1.IsSymlinkResponse, error) {
	return &fsv1.IsSymlinkResponse{IsSymlink: true}, nil
}

// shares is another mock of a generated client.
type shares struct{}

var _ smbv1.SmbClient = shares{}

func (shares) NewSmbGlobalMapping(context.Context, *smbv1.NewSmbGlobalMappingRequest, ...grpc.CallOption) (*smbv1.NewSmbGlobalMappingResponse, error) {
	return &smbv1.NewSmbGlobalMappingResponse{}, nil
}

func (shares) RemoveSmbGlobalMapping(context.Context, *smbv1.RemoveSmbGlobalMappingRequest, ...grpc.CallOption) (*smbv1.RemoveSmbGlobalMappingResponse, error) {
	return &smbv1.RemoveSmbGlobalMappingResponse{}, nil
}

// The mocks and the clients implement interfaces that embed the generated ones, in which
// drivers such as NetApp Trident keep clients.
type (
	filesystemClient interface{ fsv1.FilesystemClient }
	smbClient        interface{ smbv1.SmbClient }
)

var (
	_, _ filesystemClient = files{}, (*fsclient.Client)(nil)
	_, _ smbClient        = shares{}, (*smbclient.Client)(nil)
)

// server implements a generated server and embeds nothing.
type server struct{}

var _ smbv1.SmbServer = server{}

func (server) NewSmbGlobalMapping(context.Context, *smbv1.NewSmbGlobalMappingRequest) (*smbv1.NewSmbGlobalMappingResponse, error) {
	return &smbv1.NewSmbGlobalMappingResponse{}, nil
}

func (server) RemoveSmbGlobalMapping(context.Context, *smbv1.RemoveSmbGlobalMappingRequest) (*smbv1.RemoveSmbGlobalMappingResponse, error) {
	return &smbv1.RemoveSmbGlobalMappingResponse{}, nil
}

// Functions in variables.
var (
	_ func() (*diskclient.Client, error)       = diskclient.NewClient
	_ func(string) (*diskclient.Client, error) = diskclient.NewClientWithPipePath
	_ diskv1.DiskClient                        = (*diskclient.Client)(nil)
	_ apiversion.Version                       = diskclient.Version
	_                                          = func(s *grpc.Server) { smbv1.RegisterSmbServer(s, server{}) }
	_ string                                   = diskclient.GroupName
)

// In some older versions only the constructors of clients from connections were published.
func older(c *grpc.ClientConn) (diskv1beta1.DiskClient, volumev1beta2.VolumeClient) {
	return diskv1beta1.NewDiskClient(c), volumev1beta2.NewVolumeClient(c)
}

var _ = older
