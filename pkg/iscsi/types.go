// Package iscsi connects a Windows node to iSCSI targets.
//
// It drives the iSCSI initiator that is part of Windows. The service MSiSCSI
// must run; see package system for starting it. A target is named by its iSCSI
// qualified name (IQN) and reached through a target portal, an address with a
// TCP port. The disks of a connected target appear as disk numbers; see package disk.
//
// The requests and responses here have no version. The gRPC daemon translates
// every published API version to them; a driver that runs as a HostProcess
// container calls the same [Interface] in process.
package iscsi

import (
	"context"
	"fmt"
)

// Interface is what can be asked of the iSCSI initiator of one node.
//
// Every method may be called from several goroutines at once; calls for one
// portal, and for one target, wait for each other. A request without a portal, where one is needed,
// is an error that is invalid. No error text and no log line holds a secret.
type Interface interface {
	// AddTargetPortal registers a portal with the initiator, which then asks
	// it for its targets. A portal that is registered already is success.
	AddTargetPortal(context.Context, *AddTargetPortalRequest) (*AddTargetPortalResponse, error)

	// ConnectTarget logs in to a target through a portal and waits, for a
	// bounded time, for its disks. A target that is connected through that portal
	// already is success, whatever credentials it was connected with; one that is
	// connected through another portal is an error that is a failed
	// precondition. Wrong credentials are an error that is permission-denied.
	ConnectTarget(context.Context, *ConnectTargetRequest) (*ConnectTargetResponse, error)

	// DisconnectTarget ends all sessions of a target and forgets persistent
	// logins to it. A target that is known and not connected is success. One
	// whose disks are in use is an error that is a failed precondition.
	DisconnectTarget(context.Context, *DisconnectTargetRequest) (*DisconnectTargetResponse, error)

	// DiscoverTargetPortal asks a registered portal for its targets and returns
	// their IQNs.
	DiscoverTargetPortal(context.Context, *DiscoverTargetPortalRequest) (*DiscoverTargetPortalResponse, error)

	// GetTargetDisks returns the disk numbers, as decimal texts, that a target
	// provides. A target that is not connected provides none.
	GetTargetDisks(context.Context, *GetTargetDisksRequest) (*GetTargetDisksResponse, error)

	// ListTargetPortals returns all registered portals.
	ListTargetPortals(context.Context, *ListTargetPortalsRequest) (*ListTargetPortalsResponse, error)

	// RemoveTargetPortal makes the initiator forget a portal. A portal that is
	// not registered is an error that is not-found.
	RemoveTargetPortal(context.Context, *RemoveTargetPortalRequest) (*RemoveTargetPortalResponse, error)

	// SetMutualChapSecret sets the secret by which targets prove themselves to
	// this node. There is one per node, so drivers on a node must agree on it.
	SetMutualChapSecret(context.Context, *SetMutualChapSecretRequest) (*SetMutualChapSecretResponse, error)
}

// Service is [Interface] and the methods that this project adds to it. The
// daemon, package remote and package simnode use it. It grows with the API:
// implement Interface instead, which changes only when the published one does.
type Service interface {
	Interface
}

// TargetPortal is where an iSCSI target listens.
type TargetPortal struct {
	// TargetAddress is an IPv4 or IPv6 address, the latter in brackets or not, or
	// a host name.
	TargetAddress string
	// TargetPort is a TCP port; 0 means 3260, more than 65535 is invalid.
	TargetPort uint32
}

// AuthenticationType says how a login proves who it is.
type AuthenticationType uint32

// The authentication types. They are untyped constants, as published.
const (
	// NONE is a login without authentication.
	NONE = 0
	// ONE_WAY_CHAP is a login at which the node proves itself to the target.
	ONE_WAY_CHAP = 1
	// MUTUAL_CHAP is a login at which both prove themselves; it needs
	// SetMutualChapSecret first.
	MUTUAL_CHAP = 2
)

// AuthTypeToString returns the text for an authentication type that a HostAPI
// takes: NONE, ONEWAYCHAP or MUTUALCHAP.
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

// AddTargetPortalRequest names the portal to be registered.
type AddTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// AddTargetPortalResponse is empty.
type AddTargetPortalResponse struct{}

// DiscoverTargetPortalRequest names the portal that is asked.
type DiscoverTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// DiscoverTargetPortalResponse holds the names of the targets.
type DiscoverTargetPortalResponse struct {
	IQNs []string
}

// RemoveTargetPortalRequest names the portal to be forgotten.
type RemoveTargetPortalRequest struct {
	TargetPortal *TargetPortal
}

// RemoveTargetPortalResponse is empty.
type RemoveTargetPortalResponse struct{}

// ListTargetPortalsRequest has no parameters.
type ListTargetPortalsRequest struct{}

// ListTargetPortalsResponse holds the registered portals.
type ListTargetPortalsResponse struct {
	TargetPortals []*TargetPortal
}

// ConnectTargetRequest names a target and how to log in to it.
type ConnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
	AuthType     AuthenticationType
	// ChapUsername and ChapSecret are used with ONE_WAY_CHAP and MUTUAL_CHAP, and
	// not passed on otherwise. Without a name Windows uses that of its initiator;
	// the secret is 12 to 16 bytes long.
	ChapUsername string
	ChapSecret   string
}

// ConnectTargetResponse is empty.
type ConnectTargetResponse struct{}

// GetTargetDisksRequest names a target.
type GetTargetDisksRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

// GetTargetDisksResponse holds disk numbers as decimal texts.
type GetTargetDisksResponse struct {
	DiskIDs []string
}

// DisconnectTargetRequest names the target to log out of.
type DisconnectTargetRequest struct {
	TargetPortal *TargetPortal
	IQN          string
}

// DisconnectTargetResponse is empty.
type DisconnectTargetResponse struct{}

// SetMutualChapSecretRequest holds the secret of the node.
type SetMutualChapSecretRequest struct {
	// MutualChapSecret is 12 to 16 bytes long.
	MutualChapSecret string
}

// SetMutualChapSecretResponse is empty.
type SetMutualChapSecretResponse struct{}
