// Package api implements operations of the iSCSI initiator of a Windows node: which calls
// of iscsidsc.dll are made, in which order. Package iscsi calls them. Drivers that need a
// single step can call it here.
//
// Methods may be repeated. They take no locks: package
// [github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi] prevents concurrent changes of one
// portal or target. All methods need the service MSiSCSI and fail with
// hosterr.ErrFailedPrecondition if it does not run. No error contains a secret.
//
// Portals are compared by address and port; different spellings of an IPv6 address are
// equal. Names of targets (IQNs) are compared without regard to case (RFC 3722).
//
// docs/develop/verification.md says what has been verified, and on which systems.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// HostAPI is what the iSCSI service needs from a node.
type HostAPI interface {
	// AddTargetPortal registers a portal, which Windows then queries for its targets. It
	// does nothing if the portal is registered.
	AddTargetPortal(portal *TargetPortal) error
	// DiscoverTargetPortal queries a registered portal and returns the IQNs of its
	// targets.
	DiscoverTargetPortal(portal *TargetPortal) ([]string, error)
	// ListTargetPortals returns the registered portals.
	ListTargetPortals() ([]TargetPortal, error)
	// RemoveTargetPortal removes a registered portal.
	RemoveTargetPortal(portal *TargetPortal) error
	// ConnectTarget logs in to a target through a portal. authType is NONE, ONEWAYCHAP or
	// MUTUALCHAP; user and secret are used only for CHAP.
	ConnectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error
	// DisconnectTarget removes persistent logins of a target and ends all its sessions,
	// through any portal.
	DisconnectTarget(portal *TargetPortal, iqn string) error
	// GetTargetDisks returns the numbers of the disks that a target provides.
	GetTargetDisks(portal *TargetPortal, iqn string) ([]string, error)
	// SetMutualChapSecret sets the secret with which targets authenticate to this node.
	SetMutualChapSecret(mutualChapSecret string) error
}

// TargetPortal is the address and port of an iSCSI target.
type TargetPortal struct {
	Address string `json:"TargetPortalAddress"`
	Port    uint32 `json:"TargetPortalPortNumber"` // 0 means 3260
}

// Session is a session with a target.
type Session struct {
	ID      string // as in WMI and in the log
	IQN     string
	Portals []TargetPortal // of its connections

	id win32.ISCSISessionID
}

// ISCSIAPI is the HostAPI of a node. Its methods may be called concurrently. The methods of
// the zero ISCSIAPI return errors.
type ISCSIAPI struct{ host node.Host }

var _ HostAPI = ISCSIAPI{}

// New returns the HostAPI of the Windows node that the process runs on. On other systems
// all methods fail with [errors.ErrUnsupported].
func New() HostAPI { return ISCSIAPI{host: node.NativeHost()} }

// On returns the HostAPI of a node.
func On(n *node.Node) ISCSIAPI { return ISCSIAPI{host: node.HostOf(n)} }

// WithContext returns the same HostAPI for one context. When ctx ends, its methods stop
// before their next Windows call.
func (i ISCSIAPI) WithContext(ctx context.Context) HostAPI {
	return ISCSIAPI{host: i.host.WithContext(ctx)}
}

// Node returns the node that the methods work on, or nil if there is none.
func (i ISCSIAPI) Node() *node.Node { return i.host.Node }
