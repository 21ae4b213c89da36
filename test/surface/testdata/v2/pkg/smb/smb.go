// Package smb is the published surface of the smb service.
package smb

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
)

type Interface interface {
	NewSMBGlobalMapping(context.Context, *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error)
	RemoveSMBGlobalMapping(context.Context, *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error)
}

type SMB struct {
	hostAPI  smbapi.HostAPI
	fsServer filesystem.Interface
}

var _ Interface = &SMB{}

func New(hostAPI smbapi.HostAPI, fsClient filesystem.Interface) (*SMB, error)

func (*SMB) NewSMBGlobalMapping(context.Context, *NewSMBGlobalMappingRequest) (*NewSMBGlobalMappingResponse, error)

func (*SMB) RemoveSMBGlobalMapping(context.Context, *RemoveSMBGlobalMappingRequest) (*RemoveSMBGlobalMappingResponse, error)

type NewSMBGlobalMappingResponse struct{}

type RemoveSMBGlobalMappingResponse struct{}

type NewSMBGlobalMappingRequest struct {
	RemotePath string
	LocalPath  string
	Username   string
	Password   string
}

type RemoveSMBGlobalMappingRequest struct{ RemotePath string }
