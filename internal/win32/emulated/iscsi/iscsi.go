package iscsi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/services"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// iscsiSecret is the initiator's secret for mutual CHAP, stored under
// "iscsi/initiator".
type iscsiSecret struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash,omitempty"` // nil for none
}

// iscsiRegistered is a registered portal, stored under "iscsi/portal/<address>
// <port>".
type iscsiRegistered struct {
	Address string   `json:"address"`
	Socket  uint16   `json:"socket"`
	Known   []string `json:"known,omitempty"` // IQNs that it last reported
}

// iscsiSession is stored under "iscsi/session/<ID>".
type iscsiSession struct {
	ID     win32.ISCSISessionID `json:"id"`
	IQN    string               `json:"iqn"`
	Portal win32.ISCSIPortal    `json:"portal"`
}

// lunArrival is a disk that will arrive.
type lunArrival struct {
	session win32.ISCSISessionID
	at      time.Time
	disk    nodespec.Disk
}

// Initiator is the iSCSI initiator of a node, with the targets that it can reach.
type Initiator struct {
	*kernel.Kernel
	disks    *disk.Disks
	services *services.Services

	extra      []win32.ISCSIPortal // reachable portals without a target
	targets    map[string]iscsiTarget
	registered map[string]iscsiRegistered
	sessions   map[string]iscsiSession
	persistent map[string]win32.ISCSIPersistentLogin
	arrivals   []lunArrival
	last       uint64 // last session ID
	secret     iscsiSecret
	loggedIn   bool // persistent logins were made since MSiSCSI started
}

// New returns an initiator whose LUNs become disks.
func New(k *kernel.Kernel, d *disk.Disks, s *services.Services) *Initiator {
	return &Initiator{
		Kernel: k, disks: d, services: s, targets: map[string]iscsiTarget{}, registered: map[string]iscsiRegistered{},
		sessions: map[string]iscsiSession{}, persistent: map[string]win32.ISCSIPersistentLogin{},
	}
}

const (
	iscsiTargetPrefix     = "iscsi/target/"
	iscsiPortalPrefix     = "iscsi/portal/"
	iscsiSessionPrefix    = "iscsi/session/"
	iscsiPersistentPrefix = "iscsi/persistent/"
	iscsiSecretKey        = "iscsi/initiator"
)

// foldIQN returns the same text for all spellings of an iSCSI name (RFC 3722).
func foldIQN(s string) string { return strings.ToLower(s) }

func portalKey(p win32.ISCSIPortal) string { return fmt.Sprintf("%s %d", p.Address, p.Socket) }

// Load reads the stored state. LUNs that had not arrived arrive at once.
func (n *Initiator) Load() error {
	s := n
	err := errors.Join(kernel.LoadIn(n.Store, s.targets, iscsiTargetPrefix), kernel.LoadIn(n.Store, s.registered, iscsiPortalPrefix),
		kernel.LoadIn(n.Store, s.sessions, iscsiSessionPrefix), kernel.LoadIn(n.Store, s.persistent, iscsiPersistentPrefix))
	if raw, ok := n.Store.Get(iscsiSecretKey); ok {
		if bad := json.Unmarshal(raw, &s.secret); bad != nil {
			return fmt.Errorf("%s: %w", iscsiSecretKey, bad)
		}
	}
	for _, session := range byKey(s.sessions) {
		s.last = max(s.last, session.ID.AdapterSpecific)
		n.scheduleDisks(session, 0)
	}
	s.loggedIn = true
	for _, p := range n.Config.ISCSI.Portals {
		s.extra = append(s.extra, portalOf(p))
	}
	return err
}

// Show returns the targets, sorted by IQN, and the registered portals.
func (n *Initiator) Show() (targets []nodespec.ISCSITargetInfo, registered []nodespec.ISCSIPortal) {
	for _, t := range n.targets {
		info := nodespec.ISCSITargetInfo{IQN: t.IQN, LUNs: len(t.LUNs)}
		for _, p := range t.Portals {
			info.Portals = append(info.Portals, nodespec.ISCSIPortal{Address: p.Address, Port: cmp.Or(p.Port, nodespec.ISCSIPort)})
		}
		if t.CHAP != nil {
			info.CHAP = t.CHAP.User
		}
		for _, s := range n.sessionsOf(t.IQN) {
			info.Session, info.Through = s.ID.String(), net.JoinHostPort(s.Portal.Address, strconv.Itoa(int(s.Portal.Socket)))
			for _, c := range t.luns() {
				if d := n.byDiskID(c.ID); d != nil {
					info.Disks = append(info.Disks, d.Number)
				}
			}
		}
		_, persistent := n.persistent[foldIQN(t.IQN)]
		for _, s := range []struct {
			is   bool
			name string
		}{{t.Refuses, "refuses"}, {t.Unreachable, "unreachable"}, {t.Busy, "busy"}, {persistent, "persistent"}} {
			if s.is {
				info.State = append(info.State, s.name)
			}
		}
		targets = append(targets, info)
	}
	slices.SortFunc(targets, func(a, b nodespec.ISCSITargetInfo) int { return cmp.Compare(a.IQN, b.IQN) })
	for _, r := range n.registered {
		registered = append(registered, nodespec.ISCSIPortal{Address: r.Address, Port: r.Socket})
	}
	slices.SortFunc(registered, func(a, b nodespec.ISCSIPortal) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
	})
	return targets, registered
}
