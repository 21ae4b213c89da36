// Package api is what is done with the iSCSI initiator of a Windows node: which
// calls of iscsidsc.dll, in which order. Package iscsi decides about requests;
// drivers that need one step alone call it here.
//
// Methods may be repeated. They hold no locks: two at once on one portal or
// target are for [github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi] to keep apart. All
// of them need the service MSiSCSI; where it does not run, they answer a failed
// precondition that says so. No error holds a secret.
//
// Portals are the same if their ports and addresses are; an IPv6 address is
// the same in every spelling. Names of targets (IQNs) are the same whatever
// their case (RFC 3722).
//
// What has been verified, and on what: docs/evidence/verification.md.
package api

import (
	"context"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// HostAPI is what the iSCSI service asks of a node.
type HostAPI interface {
	// AddTargetPortal registers a portal, which is then asked for its targets.
	// One that is registered is left as it is.
	AddTargetPortal(portal *TargetPortal) error
	// DiscoverTargetPortal asks a registered portal again and returns the IQNs of
	// its targets.
	DiscoverTargetPortal(portal *TargetPortal) ([]string, error)
	// ListTargetPortals returns the registered portals.
	ListTargetPortals() ([]TargetPortal, error)
	// RemoveTargetPortal forgets a registered portal.
	RemoveTargetPortal(portal *TargetPortal) error
	// ConnectTarget logs in to a target through a portal. authType is NONE,
	// ONEWAYCHAP or MUTUALCHAP; user and secret are used for CHAP only.
	ConnectTarget(portal *TargetPortal, iqn, authType, chapUser, chapSecret string) error
	// DisconnectTarget forgets persistent logins of a target and ends all its
	// sessions, whichever portal they go through.
	DisconnectTarget(portal *TargetPortal, iqn string) error
	// GetTargetDisks returns the numbers of the disks that a target provides.
	GetTargetDisks(portal *TargetPortal, iqn string) ([]string, error)
	// SetMutualChapSecret sets the secret by which targets prove themselves to
	// this node.
	SetMutualChapSecret(mutualChapSecret string) error
}

// TargetPortal is where an iSCSI target listens.
type TargetPortal struct {
	Address string `json:"TargetPortalAddress"`
	Port    uint32 `json:"TargetPortalPortNumber"` // 0 means 3260
}

// ISCSIAPI is the HostAPI of a node. The zero ISCSIAPI answers every call with an
// error. It may be used by several goroutines at once.
type ISCSIAPI struct{ host node.Host }

var _ HostAPI = ISCSIAPI{}

// New is the HostAPI of the Windows node that the process runs on. Off Windows
// every method answers that there is none.
func New() HostAPI { return ISCSIAPI{host: node.NativeHost()} }

// On is the HostAPI of a node.
func On(n *node.Node) ISCSIAPI { return ISCSIAPI{host: node.HostOf(n)} }

// WithContext is the same HostAPI, whose methods end early, between two calls
// of Windows, when ctx ends.
func (i ISCSIAPI) WithContext(ctx context.Context) HostAPI {
	return ISCSIAPI{host: i.host.WithContext(ctx)}
}

// Node is the node that the methods work on; nil where there is none.
func (i ISCSIAPI) Node() *node.Node { return i.host.Node }
