// Package iscsi is the published surface of the iscsi service.
package iscsi

import (
	"context"

	iscsiapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi/hostapi"
)

type Interface interface {
	AddTargetPortal(context.Context, *AddTargetPortalRequest) (*AddTargetPortalResponse, error)
	ConnectTarget(context.Context, *ConnectTargetRequest) (*ConnectTargetResponse, error)
	DisconnectTarget(context.Context, *DisconnectTargetRequest) (*DisconnectTargetResponse, error)
	DiscoverTargetPortal(context.Context, *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error)
	GetTargetDisks(context.Context, *GetTargetDisksRequest) (*GetTargetDisksResponse, error)
	ListTargetPortals(context.Context, *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error)
	RemoveTargetPortal(context.Context, *RemoveTargetPortalRequest) (*RemoveTargetPortalResponse, error)
	SetMutualChapSecret(context.Context, *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error)
}

type ISCSI struct {
	hostAPI iscsiapi.HostAPI
}

var _ Interface = &ISCSI{}

func New(hostAPI iscsiapi.HostAPI) (*ISCSI, error)

func (*ISCSI) AddTargetPortal(context.Context, *AddTargetPortalRequest) (*AddTargetPortalResponse, error)

func (*ISCSI) ConnectTarget(context.Context, *ConnectTargetRequest) (*ConnectTargetResponse, error)

func (*ISCSI) DisconnectTarget(context.Context, *DisconnectTargetRequest) (*DisconnectTargetResponse, error)

func (*ISCSI) DiscoverTargetPortal(context.Context, *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error)

func (*ISCSI) GetTargetDisks(context.Context, *GetTargetDisksRequest) (*GetTargetDisksResponse, error)

func (*ISCSI) ListTargetPortals(context.Context, *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error)

func (*ISCSI) RemoveTargetPortal(context.Context, *RemoveTargetPortalRequest) (*RemoveTargetPortalResponse, error)

func (*ISCSI) SetMutualChapSecret(context.Context, *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error)

type AddTargetPortalResponse struct{}

type ConnectTargetResponse struct{}

type DisconnectTargetResponse struct{}

type ListTargetPortalsRequest struct{}

type RemoveTargetPortalResponse struct{}

type SetMutualChapSecretResponse struct{}

type TargetPortal struct {
	TargetAddress string
	TargetPort    uint32
}

type AuthenticationType uint32

const (
	NONE         = 0
	ONE_WAY_CHAP = 1
	MUTUAL_CHAP  = 2
)

type AddTargetPortalRequest struct{ TargetPortal *TargetPortal }

type DiscoverTargetPortalRequest struct{ TargetPortal *TargetPortal }

type DiscoverTargetPortalResponse struct{ IQNs []string }

type RemoveTargetPortalRequest struct{ TargetPortal *TargetPortal }

type ListTargetPortalsResponse struct{ TargetPortals []*TargetPortal }

type ConnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
	AuthType     AuthenticationType
	ChapUsername string
	ChapSecret   string
}

type GetTargetDisksRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

type GetTargetDisksResponse struct{ DiskIDs []string }

type DisconnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

type SetMutualChapSecretRequest struct{ MutualChapSecret string }

func AuthTypeToString(authType AuthenticationType) (string, error)
