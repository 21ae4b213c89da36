package iscsi

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// AdapterName is the name of the software initiator's adapter (docs/develop/contract/iscsi.md).
const AdapterName = `Root\ISCSIPRT\0000_0`

// initiator is do for a call of the iSCSI initiator. Such a call may consist of
// several transactions, and fails unless MSiSCSI runs.
func (n *Initiator) initiator(call func() error) error {
	if n.Lock() != nil {
		return win32.ERROR_IO_DEVICE // Source: node, it cannot store its state
	}
	defer n.Unlock()
	n.ApplyDue()
	if !n.services.ISCSIRuns() {
		// Source: program, HPE common-host-libs; the text of the code in iscsierr.h.
		return win32.ISDSC_SERVICE_NOT_RUNNING
	}
	return call()
}

// targetsAt returns the targets at a portal. ok is false if the portal is not
// reachable.
func (n *Initiator) targetsAt(p win32.ISCSIPortal) (found []iscsiTarget, ok bool) {
	ok = slices.Contains(n.extra, p)
	for _, t := range n.targets {
		if !t.Unreachable && slices.ContainsFunc(t.Portals, func(c nodespec.ISCSIPortal) bool { return portalOf(c) == p }) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b iscsiTarget) int { return cmp.Compare(a.IQN, b.IQN) })
	return found, ok || len(found) > 0
}

// discover queries a portal for its targets and registers the result.
func (n *Initiator) discover(p win32.ISCSIPortal) error {
	targets, ok := n.targetsAt(p)
	if !ok {
		return win32.ISDSC_CONNECTION_FAILED // Source: inference, by the text of the code in iscsierr.h
	}
	r := iscsiRegistered{Address: p.Address, Socket: p.Socket}
	for _, t := range targets {
		r.Known = append(r.Known, t.IQN)
	}
	return n.Transact(func(t *kernel.Tx) error {
		kernel.PutIn(t, n.registered, iscsiPortalPrefix, portalKey(p), r)
		return nil
	})
}

// AddIScsiSendTargetPortal implements [win32.ISCSI].
//
// Source: document, AddIScsiSendTargetPortalW.
func (n *Initiator) AddIScsiSendTargetPortal(p win32.ISCSIPortal) error {
	return n.initiator(func() error {
		if _, twice := n.registered[portalKey(p)]; twice {
			// Source: program, HPE common-host-libs; the text of the code in iscsierr.h.
			return win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS
		}
		return n.discover(p)
	})
}

// ReportIScsiSendTargetPortals implements [win32.ISCSI].
//
// Source: document, ReportIScsiSendTargetPortalsW.
func (n *Initiator) ReportIScsiSendTargetPortals() (list []win32.ISCSISendTargetPortal, err error) {
	err = n.initiator(func() error {
		for _, r := range n.registered {
			list = append(list, win32.ISCSISendTargetPortal{
				Initiator: AdapterName, InitiatorPort: 0xFFFFFFFF, ISCSIPortal: win32.ISCSIPortal{Address: r.Address, Socket: r.Socket},
			})
		}
		slices.SortFunc(list, func(a, b win32.ISCSISendTargetPortal) int {
			return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Socket, b.Socket))
		})
		return nil
	})
	return list, err
}

// RefreshIScsiSendTargetPortal implements [win32.ISCSI].
//
// Source: document, RefreshIScsiSendTargetPortalW.
func (n *Initiator) RefreshIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	return n.initiator(func() error {
		if _, ok := n.registered[portalKey(p.ISCSIPortal)]; !ok {
			return win32.ISDSC_PORTAL_NOT_FOUND // Source: inference, by the text of the code in iscsierr.h
		}
		return n.discover(p.ISCSIPortal)
	})
}

// RemoveIScsiSendTargetPortal implements [win32.ISCSI]. Sessions stay.
//
// Source: document, RemoveIScsiSendTargetPortalW.
func (n *Initiator) RemoveIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	return n.initiator(func() error {
		if _, ok := n.registered[portalKey(p.ISCSIPortal)]; !ok || p.Initiator != "" && p.Initiator != AdapterName {
			return win32.ISDSC_PORTAL_NOT_FOUND // Source: inference, by the text of the code in iscsierr.h
		}
		return n.Transact(func(t *kernel.Tx) error {
			kernel.DeleteFrom(t, n.registered, iscsiPortalPrefix, portalKey(p.ISCSIPortal))
			return nil
		})
	})
}

// discovered returns the portals that reported each target, by folded IQN.
func (n *Initiator) discovered() map[string][]iscsiRegistered {
	found := map[string][]iscsiRegistered{}
	for _, r := range byKey(n.registered) {
		for _, iqn := range r.Known {
			found[foldIQN(iqn)] = append(found[foldIQN(iqn)], r)
		}
	}
	return found
}

// ReportIScsiTargets implements [win32.ISCSI].
//
// Source: document, ReportIScsiTargetsW.
func (n *Initiator) ReportIScsiTargets(force bool) (names []string, err error) {
	err = n.initiator(func() error {
		for _, r := range byKey(n.registered) {
			if force {
				if err := n.discover(win32.ISCSIPortal{Address: r.Address, Socket: r.Socket}); errors.Is(err, win32.ERROR_IO_DEVICE) {
					return err
				}
			}
		}
		for _, r := range n.registered {
			names = append(names, r.Known...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return nil
	})
	return names, err
}

// IScsiTargetDiscovery implements [win32.ISCSI].
//
// Source: program, NetApp's tools print such texts; their form is documented nowhere.
func (n *Initiator) IScsiTargetDiscovery(target string) (texts []string, err error) {
	err = n.initiator(func() error {
		portals := n.discovered()[foldIQN(target)]
		if portals == nil {
			return win32.ISDSC_TARGET_NOT_FOUND // Source: inference, by the text of the code in iscsierr.h
		}
		for _, r := range portals {
			if n.Windows.ISCSIDiscovery == behavior.ISCSIDiscoveryOther {
				texts = append(texts, "iSCSI portal") // without its address
				continue
			}
			texts = append(texts, fmt.Sprintf("SendTargets:*%s %07d %s", r.Address, r.Socket, AdapterName))
		}
		slices.Sort(texts)
		return nil
	})
	return texts, err
}

// ReportIScsiTargetPortals implements [win32.ISCSI].
//
// Source: document, ReportIScsiTargetPortalsW.
func (n *Initiator) ReportIScsiTargetPortals(target string) (list []win32.ISCSIPortal, err error) {
	err = n.initiator(func() error {
		if n.discovered()[foldIQN(target)] == nil {
			return win32.ISDSC_TARGET_NOT_FOUND // Source: inference, by the text of the code in iscsierr.h
		}
		for _, p := range n.targets[foldIQN(target)].Portals {
			list = append(list, portalOf(p))
		}
		return nil
	})
	return list, err
}

// minCHAP and maxCHAP limit a CHAP secret without IPsec, in bytes
// (docs/develop/contract/iscsi.md#chap).
const minCHAP, maxCHAP = 12, 16

// authenticate returns the result of a login's authentication, of target and
// initiator.
func (n *Initiator) authenticate(target iscsiTarget, login win32.ISCSILogin) error {
	if login.AuthType == win32.ISCSI_NO_AUTH_TYPE {
		if target.CHAP != nil {
			return win32.ISDSC_AUTHENTICATION_FAILURE // Source: inference, by the text of the code in iscsierr.h
		}
		return nil // a name without authentication is ignored (docs/develop/contract/iscsi.md#chap)
	}
	if login.AuthType > win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE {
		return win32.ERROR_INVALID_PARAMETER // Source: inference, of a type that iscsidsc.h does not have
	}
	if login.Password == nil || len(login.Password.Reveal()) < minCHAP || len(login.Password.Reveal()) > maxCHAP {
		return win32.ISDSC_LOGIN_USER_INFO_BAD // Source: inference, by the text of the code in iscsierr.h
	}
	a := target.CHAP
	if a == nil || login.User == nil || *login.User != a.User || !a.verify(login.Password) {
		return win32.ISDSC_AUTHENTICATION_FAILURE // Source: inference, by the text of the code in iscsierr.h
	}
	if login.AuthType == win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE && !n.proves(a) {
		return win32.ISDSC_AUTHENTICATION_FAILURE // Source: inference, by the text of the code in iscsierr.h
	}
	return nil
}

// proves reports whether an account's target knows the initiator's secret.
func (n *Initiator) proves(a *chapAccount) bool {
	have := n.secret.Hash
	return have != nil && subtle.ConstantTimeCompare(have, a.Mutual) == 1
}

// LoginIScsiTarget implements [win32.ISCSI].
//
// Source: document, LoginIScsiTargetW.
func (n *Initiator) LoginIScsiTarget(target string, p win32.ISCSIPortal, login win32.ISCSILogin) (id win32.ISCSISessionID, err error) {
	err = n.initiator(func() error {
		if n.discovered()[foldIQN(target)] == nil {
			// Source: document, LoginIScsiTargetW, "must already exist in the list of discovered
			// targets"; the number is inference.
			return win32.ISDSC_TARGET_NOT_FOUND
		}
		if len(n.sessionsOf(target)) > 0 {
			// Source: program, HPE common-host-libs; the text of the code in iscsierr.h.
			return win32.ISDSC_TARGET_ALREADY_LOGGED_IN
		}
		there, ok := n.targetsAt(p)
		if !ok {
			return win32.ISDSC_CONNECTION_FAILED // Source: inference, by the text of the code in iscsierr.h
		}
		i := slices.IndexFunc(there, func(t iscsiTarget) bool { return strings.EqualFold(t.IQN, target) })
		if i < 0 {
			return win32.ISDSC_NOT_FOUND // Source: inference, the portal does not report the target
		}
		if there[i].Refuses {
			return win32.ISDSC_AUTHORIZATION_FAILURE // Source: inference, by the text of the code in iscsierr.h
		}
		if err := n.authenticate(there[i], login); err != nil {
			return err
		}
		s, err := n.beginSession(there[i], p)
		id = s.ID
		return err
	})
	return id, err
}

// LogoutIScsiTarget implements [win32.ISCSI].
//
// Source: document, LogoutIScsiTarget.
func (n *Initiator) LogoutIScsiTarget(session win32.ISCSISessionID) error {
	return n.initiator(func() error {
		s, ok := n.sessions[session.String()]
		if !ok {
			return win32.ISDSC_INVALID_SESSION_ID // Source: inference, by the text of the code in iscsierr.h
		}
		target := n.targets[foldIQN(s.IQN)]
		if target.Busy {
			// Source: program, HPE common-host-libs; the text of the code in iscsierr.h.
			return win32.ISDSC_DEVICE_BUSY_ON_SESSION
		}
		for _, c := range target.luns() {
			if d := n.byDiskID(c.ID); d != nil && n.InUse(d, nil) {
				// Source: program, HPE common-host-libs; the text of the code in iscsierr.h.
				return win32.ISDSC_DEVICE_BUSY_ON_SESSION
			}
		}
		return n.endSession(target, s)
	})
}

// GetIScsiSessionList implements [win32.ISCSI]. A session whose target is away stays, without a
// connection, until the initiator has connected it again.
//
// Source: document, GetIScsiSessionListW; program, os-win counts only sessions that have a
// connection.
func (n *Initiator) GetIScsiSessionList() (list []win32.ISCSISession, err error) {
	err = n.initiator(func() error {
		for _, s := range n.sessions {
			session := win32.ISCSISession{ID: s.ID, TargetName: s.IQN}
			if !n.targets[foldIQN(s.IQN)].Unreachable {
				session.Connections = []win32.ISCSIConnection{{TargetAddress: s.Portal.Address, TargetSocket: s.Portal.Socket}}
			}
			list = append(list, session)
		}
		slices.SortFunc(list, func(a, b win32.ISCSISession) int { return cmp.Compare(a.ID.AdapterSpecific, b.ID.AdapterSpecific) })
		return nil
	})
	return list, err
}

// GetDevicesForIScsiSession implements [win32.ISCSI].
//
// Source: document, GetDevicesForIScsiSessionW.
func (n *Initiator) GetDevicesForIScsiSession(session win32.ISCSISessionID) (list []win32.ISCSIDevice, err error) {
	err = n.initiator(func() error {
		s, ok := n.sessions[session.String()]
		if !ok {
			return win32.ISDSC_INVALID_SESSION_ID // Source: inference, by the text of the code in iscsierr.h
		}
		for _, c := range n.targets[foldIQN(s.IQN)].luns() {
			if d := n.byDiskID(c.ID); d != nil {
				list = append(list, win32.ISCSIDevice{
					Interface: win32.GUID_DEVINTERFACE_DISK, Lun: c.Address.Lun,
					Number: win32.DeviceNumber{DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: d.Number},
				})
			}
		}
		return nil
	})
	return list, err
}

// ReportIScsiPersistentLogins implements [win32.ISCSI].
//
// Source: document, ReportIScsiPersistentLoginsW.
func (n *Initiator) ReportIScsiPersistentLogins() (list []win32.ISCSIPersistentLogin, err error) {
	err = n.initiator(func() error {
		for _, p := range n.persistent {
			list = append(list, p)
		}
		slices.SortFunc(list, func(a, b win32.ISCSIPersistentLogin) int { return cmp.Compare(a.TargetName, b.TargetName) })
		return nil
	})
	return list, err
}

// RemoveIScsiPersistentTarget implements [win32.ISCSI].
//
// Source: document, RemoveIScsiPersistentTargetW.
func (n *Initiator) RemoveIScsiPersistentTarget(l win32.ISCSIPersistentLogin) error {
	return n.initiator(func() error {
		key := foldIQN(l.TargetName)
		if have, ok := n.persistent[key]; !ok || have.Portal != l.Portal || have.Initiator != l.Initiator {
			return win32.ISDSC_TARGET_NOT_FOUND // Source: inference, by the text of the code in iscsierr.h
		}
		return n.Transact(func(t *kernel.Tx) error {
			kernel.DeleteFrom(t, n.persistent, iscsiPersistentPrefix, key)
			return nil
		})
	})
}

// SetIScsiInitiatorCHAPSharedSecret implements [win32.ISCSI]. An empty secret
// removes it.
//
// Source: document, SetIScsiInitiatorCHAPSharedSecret.
func (n *Initiator) SetIScsiInitiatorCHAPSharedSecret(secret win32.Secret) error {
	return n.initiator(func() error {
		var hash []byte
		if size := len(secret.Reveal()); size > 0 {
			if size < minCHAP || size > maxCHAP {
				// Source: inference, secrets have 12 to 16 bytes (ISCSI_LOGIN_OPTIONS).
				return win32.ERROR_INVALID_PARAMETER
			}
			var err error
			if hash, err = n.hashMutual(secret.Reveal()); err != nil {
				return err
			}
		}
		return n.Transact(func(t *kernel.Tx) error {
			n.putSecret(t, iscsiSecret{n.secret.Salt, hash})
			return nil
		})
	})
}
