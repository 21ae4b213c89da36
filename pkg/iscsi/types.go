// Package iscsi connects a Windows node to iSCSI targets.
//
// It uses the iSCSI initiator of Windows. The service MSiSCSI must run; package system can
// start it. A target has an iSCSI qualified name (IQN) and is reached through a target
// portal, which is an address with a TCP port. The disks of a connected target are disks
// of the node; see package disk.
//
// The requests and responses here have no version. The daemon translates every published
// version of the API to them; a driver in a HostProcess container calls the same
// [Interface] in process.
package iscsi

import (
	"context"
	"fmt"
)

// Interface is the published API of the iSCSI initiator of one node.
//
// The methods may be called concurrently; calls for one portal or one target wait for
// each other. They fail with hosterr.ErrInvalid if a request has no portal, and with
// hosterr.ErrFailedPrecondition if MSiSCSI does not run. No error and no log message
// contains a secret.
type Interface interface {
	// AddTargetPortal registers a portal with the initiator, which then queries it for
	// its targets. It succeeds if the portal is already registered.
	AddTargetPortal(context.Context, *AddTargetPortalRequest) (*AddTargetPortalResponse, error)

	// ConnectTarget logs in to a target through a portal and waits up to 10 seconds for
	// its disks. It succeeds if the target is already connected through that portal,
	// without checking the credentials. It fails with hosterr.ErrFailedPrecondition if
	// the target is connected through another portal, and with
	// hosterr.ErrPermissionDenied if the credentials are wrong.
	ConnectTarget(context.Context, *ConnectTargetRequest) (*ConnectTargetResponse, error)

	// DisconnectTarget ends all sessions of a target and removes its persistent logins.
	// It succeeds if the target is known and not connected. It fails with
	// hosterr.ErrFailedPrecondition if a volume of the target's disks is mounted in a folder,
	// and then changes nothing; and if Windows says that the disks are in use: then the
	// sessions stay, and the persistent logins are gone.
	DisconnectTarget(context.Context, *DisconnectTargetRequest) (*DisconnectTargetResponse, error)

	// DiscoverTargetPortal queries a registered portal for its targets and returns their
	// IQNs.
	DiscoverTargetPortal(context.Context, *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error)

	// GetTargetDisks returns the numbers of a target's disks as decimal strings. A target
	// that is not connected has none.
	GetTargetDisks(context.Context, *GetTargetDisksRequest) (*GetTargetDisksResponse, error)

	// ListTargetPortals returns all registered portals.
	ListTargetPortals(context.Context, *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error)

	// RemoveTargetPortal removes a portal from the initiator. It fails with
	// hosterr.ErrNotFound if the portal is not registered.
	RemoveTargetPortal(context.Context, *RemoveTargetPortalRequest) (*RemoveTargetPortalResponse, error)

	// SetMutualChapSecret sets the secret with which targets authenticate to this node.
	// A node has one secret, so all drivers on a node must use the same.
	SetMutualChapSecret(context.Context, *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// TargetPortal is the address and port of an iSCSI target.
type TargetPortal struct {
	// TargetAddress is an IPv4 address, an IPv6 address with or without brackets, or a
	// host name.
	TargetAddress string
	// TargetPort is a TCP port up to 65535. 0 means 3260.
	TargetPort uint32
}

// AuthenticationType is how a login is authenticated.
type AuthenticationType uint32

// The authentication types. They are untyped constants, as published.
const (
	// NONE is a login without authentication.
	NONE = 0
	// ONE_WAY_CHAP is a login that authenticates the node to the target.
	ONE_WAY_CHAP = 1
	// MUTUAL_CHAP is a login that also authenticates the target to the node. It needs
	// SetMutualChapSecret first.
	MUTUAL_CHAP = 2
)

// AuthTypeToString returns the name of an authentication type for a HostAPI: NONE,
// ONEWAYCHAP or MUTUALCHAP.
func AuthTypeToString(authType AuthenticationType) (string, error) {
	switch authType {
	case NONE:
		return "NONE", nil
	case ONE_WAY_CHAP:
		return "ONEWAYCHAP", nil
	case MUTUAL_CHAP:
		return "MUTUALCHAP", nil
	}
	return "", fmt.Errorf("invalid authentication type authType=%v", authType)
}

// AddTargetPortalRequest is the request of AddTargetPortal.
type AddTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// AddTargetPortalResponse is empty.
type AddTargetPortalResponse struct{}

// DiscoverTargetPortalRequest is the request of DiscoverTargetPortal.
type DiscoverTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// DiscoverTargetPortalResponse has the IQNs of the targets.
type DiscoverTargetPortalResponse struct {
	IQNs []string
}

// RemoveTargetPortalRequest is the request of RemoveTargetPortal.
type RemoveTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// RemoveTargetPortalResponse is empty.
type RemoveTargetPortalResponse struct{}

// ListTargetPortalsRequest has no parameters.
type ListTargetPortalsRequest struct{}

// ListTargetPortalsResponse has the registered portals.
type ListTargetPortalsResponse struct {
	TargetPortals []*TargetPortal
}

// ConnectTargetRequest has a target and its credentials.
type ConnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
	AuthType     AuthenticationType
	// ChapUsername and ChapSecret are used only with ONE_WAY_CHAP and MUTUAL_CHAP.
	// Without a user name Windows uses the name of its initiator. The secret has 12 to
	// 16 bytes.
	ChapUsername string
	ChapSecret   string
}

// ConnectTargetResponse is empty.
type ConnectTargetResponse struct{}

// GetTargetDisksRequest is the request of GetTargetDisks.
type GetTargetDisksRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

// GetTargetDisksResponse has disk numbers as decimal strings.
type GetTargetDisksResponse struct {
	DiskIDs []string
}

// DisconnectTargetRequest is the request of DisconnectTarget.
type DisconnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

// DisconnectTargetResponse is empty.
type DisconnectTargetResponse struct{}

// SetMutualChapSecretRequest is the request of SetMutualChapSecret.
type SetMutualChapSecretRequest struct {
	// MutualChapSecret has 12 to 16 bytes.
	MutualChapSecret string
}

// SetMutualChapSecretResponse is empty.
type SetMutualChapSecretResponse struct{}
