package emulated

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// This is the node's iSCSI initiator and the targets that it can reach.
//
// The initiator works only while the service MSiSCSI runs. What it knows of a
// portal's targets is what the portal reported when it was last registered or
// refreshed. A login attaches the target's LUNs as disks, after a delay. They
// keep their content from one login to the next. The logout detaches them; it is
// refused while one of them is open. Sessions outlive MSiSCSI, but not a restart
// of Windows (general knowledge; no source says what stopping the service does to
// sessions). A target has one session at a time, like Windows without multipath.
//
// Targets and the initiator store salted hashes of their CHAP secrets. The
// secrets for mutual CHAP must be comparable, because a target must know the
// initiator's secret, so these hashes have one salt per node.

func portalOf(c nodespec.ISCSIPortal) win32.ISCSIPortal {
	return win32.ISCSIPortal{Address: c.Address, Socket: cmp.Or(c.Port, nodespec.ISCSIPort)}
}

// isPortal reports whether c has an address. Brackets stand around an address and
// are not part of it.
func isPortal(c nodespec.ISCSIPortal) bool {
	return c.Address != "" && !strings.ContainsAny(c.Address, "[]")
}

func validateISCSI(c nodespec.ISCSI) error {
	for _, p := range c.Portals {
		if !isPortal(p) {
			return fmt.Errorf("iSCSI portal %q: want an address", p.Address)
		}
	}
	for _, t := range c.Targets {
		if err := validateISCSITarget(t); err != nil {
			return err
		}
	}
	return nil
}

func validateISCSITarget(c nodespec.ISCSITarget) error {
	if c.IQN == "" || len(c.IQN) > 223 || strings.ContainsAny(c.IQN, "\x00 /") {
		return fmt.Errorf("iSCSI target %q: not an iSCSI name", c.IQN)
	}
	if len(c.Portals) == 0 || slices.ContainsFunc(c.Portals, func(p nodespec.ISCSIPortal) bool { return !isPortal(p) }) {
		return fmt.Errorf("iSCSI target %q: want at least one portal, each with an address", c.IQN)
	}
	if c.ArrivalDelay < 0 {
		return fmt.Errorf("iSCSI target %q: a delay is negative", c.IQN)
	}
	var luns []uint8
	for i, l := range c.LUNs {
		if l.Number != nil || i > 255 {
			return fmt.Errorf("iSCSI target %q: LUN %d: want no disk number, and at most 256 LUNs", c.IQN, i)
		}
		if err := validateDisk(l.Disk); err != nil {
			return fmt.Errorf("iSCSI target %q: LUN %d: %w", c.IQN, i, err)
		}
		n := numberOf(l, i)
		if slices.Contains(luns, n) {
			return fmt.Errorf("iSCSI target %q: LUN %d twice", c.IQN, n)
		}
		luns = append(luns, n)
	}
	return nil
}

func numberOf(l nodespec.LUN, position int) uint8 {
	if l.LUN != nil {
		return *l.LUN
	}
	return uint8(position)
}

// defaultISCSI is what a node reaches whose configuration names nothing.
var defaultISCSI = nodespec.ISCSI{Targets: []nodespec.ISCSITarget{{
	IQN: "iqn.2025-01.com.example:data", Portals: []nodespec.ISCSIPortal{{Address: "192.0.2.10"}},
	LUNs: []nodespec.LUN{{}},
}}}

// iscsiTarget is stored under "iscsi/target/<folded IQN>": its description, with
// hashes instead of secrets.
type iscsiTarget struct {
	nodespec.ISCSITarget
	CHAP *chapAccount `json:"chap,omitempty"` // hides the CHAP of nodespec.ISCSITarget
}

type chapAccount struct {
	User   string `json:"user"`
	Salt   []byte `json:"salt"`
	Hash   []byte `json:"hash"`
	Mutual []byte `json:"mutual,omitempty"`
}

// verify reports whether secret is the account's.
func (a *chapAccount) verify(secret *win32.Secret) bool {
	if secret == nil {
		return false
	}
	got, err := hashPassword(secret.Reveal(), a.Salt)
	return err == nil && subtle.ConstantTimeCompare(got, a.Hash) == 1
}

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

// iscsiState is the iSCSI state of a node in memory.
type iscsiState struct {
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

func newISCSIState() iscsiState {
	return iscsiState{
		targets: map[string]iscsiTarget{}, registered: map[string]iscsiRegistered{},
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

// putIn stores a record, and puts it into a map in memory on commit.
func putIn[V any](t *tx, m map[string]V, prefix, key string, v V) {
	t.Put(prefix+key, v)
	t.onCommit(func() { m[key] = v })
}

// deleteFrom is the opposite of putIn.
func deleteFrom[V any](t *tx, m map[string]V, prefix, key string) {
	t.Delete(prefix + key)
	t.onCommit(func() { delete(m, key) })
}

// loadIn reads the records with a prefix.
func loadIn[V any](n *Node, m map[string]V, prefix string) error {
	for _, k := range n.store.keys(prefix) {
		var v V
		if err := json.Unmarshal(n.store.data[k], &v); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		m[strings.TrimPrefix(k, prefix)] = v
	}
	return nil
}

// loadISCSI reads the stored state. LUNs that had not arrived arrive at once.
func (n *Node) loadISCSI() error {
	s := &n.iscsi
	err := errors.Join(loadIn(n, s.targets, iscsiTargetPrefix), loadIn(n, s.registered, iscsiPortalPrefix),
		loadIn(n, s.sessions, iscsiSessionPrefix), loadIn(n, s.persistent, iscsiPersistentPrefix))
	if raw, ok := n.store.data[iscsiSecretKey]; ok {
		if bad := json.Unmarshal(raw, &s.secret); bad != nil {
			return fmt.Errorf("%s: %w", iscsiSecretKey, bad)
		}
	}
	for _, session := range s.sessions {
		s.last = max(s.last, session.ID.AdapterSpecific)
		n.scheduleDisks(session, 0)
	}
	s.loggedIn = true
	for _, p := range n.cfg.ISCSI.Portals {
		s.extra = append(s.extra, portalOf(p))
	}
	return err
}

// makeISCSI creates the configured targets.
func (n *Node) makeISCSI() error {
	c := n.cfg.ISCSI
	if c.Targets == nil && c.Portals == nil {
		c = defaultISCSI
	}
	for _, p := range c.Portals {
		n.iscsi.extra = append(n.iscsi.extra, portalOf(p))
	}
	for _, t := range c.Targets {
		if _, twice := n.iscsi.targets[foldIQN(t.IQN)]; twice {
			return fmt.Errorf("iSCSI target %q is in the configuration twice", t.IQN)
		}
		if err := n.setTarget(t); err != nil {
			return err
		}
	}
	return nil
}

// setTarget creates or replaces a target. The caller holds the node's lock.
func (n *Node) setTarget(c nodespec.ISCSITarget) error {
	target := iscsiTarget{ISCSITarget: c}
	target.ISCSITarget.CHAP = nil
	target.Portals, target.LUNs = slices.Clone(c.Portals), slices.Clone(c.LUNs)
	if c.CHAP != nil {
		a := &chapAccount{User: c.CHAP.User, Salt: make([]byte, 16)}
		if _, err := io.ReadFull(n.rand, a.Salt); err != nil {
			return fmt.Errorf("random salt: %w", err)
		}
		var err error
		if a.Hash, err = hashPassword(c.CHAP.Secret, a.Salt); err != nil {
			return err
		}
		if c.CHAP.MutualSecret != "" {
			if a.Mutual, err = n.hashMutual(c.CHAP.MutualSecret); err != nil {
				return err
			}
		}
		target.CHAP = a
	}
	return n.because(n.transact(func(t *tx) error {
		putIn(t, n.iscsi.targets, iscsiTargetPrefix, foldIQN(c.IQN), target)
		if c.Persistent {
			p := portalOf(c.Portals[0])
			putIn(t, n.iscsi.persistent, iscsiPersistentPrefix, foldIQN(c.IQN),
				win32.ISCSIPersistentLogin{TargetName: c.IQN, Initiator: iscsiInitiator, InitiatorPort: 0xFFFFFFFF, Portal: p})
		}
		return nil
	}))
}

// hashMutual returns what is stored of a secret for mutual CHAP.
func (n *Node) hashMutual(secret string) ([]byte, error) {
	s := n.iscsi.secret
	if s.Salt == nil {
		s.Salt = make([]byte, 16)
		if _, err := io.ReadFull(n.rand, s.Salt); err != nil {
			return nil, fmt.Errorf("random salt: %w", err)
		}
		if err := n.transact(func(t *tx) error { n.putSecret(t, s); return nil }); err != nil {
			return nil, err
		}
	}
	return hashPassword(secret, s.Salt)
}

func (n *Node) putSecret(t *tx, s iscsiSecret) {
	t.Put(iscsiSecretKey, s)
	t.onCommit(func() { n.iscsi.secret = s })
}

// iscsiInitiator is the name of the software initiator's adapter (docs/contract/iscsi.md).
const iscsiInitiator = `Root\ISCSIPRT\0000_0`

// SetISCSITarget creates a target, or replaces the one with its IQN. Existing
// sessions and disks do not change.
func (n *Node) SetISCSITarget(c nodespec.ISCSITarget) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := validateISCSITarget(c); err != nil {
		return err
	}
	return n.setTarget(c)
}

// RemoveISCSITarget removes a target with its sessions and disks. The initiator's
// knowledge of it stays until its portals are refreshed.
func (n *Node) RemoveISCSITarget(iqn string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	target, ok := n.iscsi.targets[foldIQN(iqn)]
	if !ok {
		return fmt.Errorf("no iSCSI target %q", iqn)
	}
	for _, s := range n.sessionsOf(iqn) {
		if err := n.endSession(target, s); err != nil {
			return err
		}
	}
	return n.because(n.transact(func(t *tx) error {
		deleteFrom(t, n.iscsi.targets, iscsiTargetPrefix, foldIQN(iqn))
		return nil
	}))
}

// luns describes the disks of a target. They are iSCSI disks, with an identity
// derived from the target's name and their LUN.
func (t iscsiTarget) luns() []nodespec.Disk {
	var disks []nodespec.Disk
	for i, l := range t.LUNs {
		c := l.Disk
		n := numberOf(l, i)
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", foldIQN(t.IQN), n))
		c.ID = cmp.Or(c.ID, fmt.Sprintf("iscsi-%x-%d", sum[:6], n))
		c.Bus = "iscsi"
		c.Serial = cmp.Or(c.Serial, fmt.Sprintf("LUN%X", sum[:6]))
		if c.Address == nil {
			c.Address = &nodespec.Address{Port: 5, Target: sum[0], Lun: n}
		}
		if len(c.Identifiers) == 0 {
			sum[0] = sum[0]&0x0F | 0x60 // NAA 6: locally assigned, 16 bytes
			c.Identifiers = []nodespec.Identifier{{CodeSet: "binary", Type: win32.StorageIdTypeFCPHName, Hex: fmt.Sprintf("%x", sum[:16])}}
		}
		disks = append(disks, c)
	}
	return disks
}

// sessionsOf returns the sessions of a target, oldest first.
func (n *Node) sessionsOf(iqn string) []iscsiSession {
	var found []iscsiSession
	for _, s := range n.iscsi.sessions {
		if strings.EqualFold(s.IQN, iqn) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b iscsiSession) int { return cmp.Compare(a.ID.AdapterSpecific, b.ID.AdapterSpecific) })
	return found
}

// byDiskID returns the attached disk with this identity, or nil.
func (n *Node) byDiskID(id string) *disk {
	return n.attached(func(d *disk) bool { return strings.EqualFold(d.ID, id) })
}

// scheduleDisks makes the disks of a session arrive, one after the other, step
// apart.
func (n *Node) scheduleDisks(s iscsiSession, step time.Duration) {
	for i, c := range n.iscsi.targets[foldIQN(s.IQN)].luns() {
		n.iscsi.arrivals = append(n.iscsi.arrivals, lunArrival{s.ID, n.now().Add(time.Duration(i+1) * step), c})
	}
}

// iscsiServiceKey is serviceKey(iscsiService). It is a constant because every
// call uses it.
const iscsiServiceKey = "service/msiscsi"

func (n *Node) iscsiRuns() bool {
	s := n.services[iscsiServiceKey]
	return s != nil && s.status(n.now()).State == win32.SERVICE_RUNNING
}

// applyISCSIEvents applies what is due: persistent logins, once MSiSCSI runs, and
// arriving disks. It runs before every call, outside of the call's transaction.
func (n *Node) applyISCSIEvents() {
	s := &n.iscsi
	if !n.iscsiRuns() {
		s.loggedIn = false
	} else if !s.loggedIn {
		s.loggedIn = true
		for _, p := range s.persistent {
			if target, ok := s.targets[foldIQN(p.TargetName)]; ok && !target.Refuses && !target.Unreachable && len(n.sessionsOf(p.TargetName)) == 0 {
				if _, err := n.beginSession(target, p.Portal); err != nil {
					n.log.Error("Failed to make a persistent iSCSI login", "target", p.TargetName, "err", err)
				}
			}
		}
	}
	if len(s.arrivals) == 0 {
		return
	}
	now := n.now()
	var due []lunArrival
	s.arrivals = slices.DeleteFunc(s.arrivals, func(a lunArrival) bool {
		if a.at.After(now) {
			return false
		}
		due = append(due, a)
		return true
	})
	for _, a := range due {
		if _, lives := s.sessions[a.session.String()]; !lives || n.byDiskID(a.disk.ID) != nil {
			continue
		}
		if _, err := n.attach(a.disk, placeAttached); err != nil {
			n.log.Error("Failed to attach the disk of an iSCSI target", "disk", a.disk.ID, "err", n.because(err))
		}
	}
}

// beginSession starts a session, whose disks will arrive.
func (n *Node) beginSession(target iscsiTarget, p win32.ISCSIPortal) (iscsiSession, error) {
	s := iscsiSession{ID: win32.ISCSISessionID{AdapterUnique: 0xFFFFB80A, AdapterSpecific: n.iscsi.last + 1}, IQN: target.IQN, Portal: p}
	err := n.transact(func(t *tx) error {
		putIn(t, n.iscsi.sessions, iscsiSessionPrefix, s.ID.String(), s)
		return nil
	})
	if err != nil {
		return s, err
	}
	n.iscsi.last++
	n.scheduleDisks(s, time.Duration(target.ArrivalDelay))
	return s, nil
}

// endSession ends a session and detaches its disks.
func (n *Node) endSession(target iscsiTarget, s iscsiSession) error {
	n.iscsi.arrivals = slices.DeleteFunc(n.iscsi.arrivals, func(a lunArrival) bool { return a.session == s.ID })
	for _, c := range target.luns() {
		if d := n.byDiskID(c.ID); d != nil {
			if err := n.detach(d); err != nil {
				return err
			}
		}
	}
	return n.transact(func(t *tx) error {
		deleteFrom(t, n.iscsi.sessions, iscsiSessionPrefix, s.ID.String())
		return nil
	})
}

// bootISCSI ends all sessions, like a restart of Windows.
func (n *Node) bootISCSI() error {
	for _, s := range n.iscsi.sessions {
		if err := n.endSession(n.iscsi.targets[foldIQN(s.IQN)], s); err != nil {
			return err
		}
	}
	n.iscsi.loggedIn = false
	return nil
}

// initiator is do for a call of the iSCSI initiator. Such a call may consist of
// several transactions, and fails unless MSiSCSI runs.
func (n *Node) initiator(call func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.broken != nil {
		return win32.ERROR_IO_DEVICE
	}
	n.applyISCSIEvents()
	if !n.iscsiRuns() {
		return win32.ISDSC_SERVICE_NOT_RUNNING
	}
	return call()
}

// targetsAt returns the targets at a portal. ok is false if the portal is not
// reachable.
func (n *Node) targetsAt(p win32.ISCSIPortal) (found []iscsiTarget, ok bool) {
	ok = slices.Contains(n.iscsi.extra, p)
	for _, t := range n.iscsi.targets {
		if !t.Unreachable && slices.ContainsFunc(t.Portals, func(c nodespec.ISCSIPortal) bool { return portalOf(c) == p }) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b iscsiTarget) int { return cmp.Compare(a.IQN, b.IQN) })
	return found, ok || len(found) > 0
}

// discover queries a portal for its targets and registers the result.
func (n *Node) discover(p win32.ISCSIPortal) error {
	targets, ok := n.targetsAt(p)
	if !ok {
		return win32.ISDSC_CONNECTION_FAILED
	}
	r := iscsiRegistered{Address: p.Address, Socket: p.Socket}
	for _, t := range targets {
		r.Known = append(r.Known, t.IQN)
	}
	return n.transact(func(t *tx) error {
		putIn(t, n.iscsi.registered, iscsiPortalPrefix, portalKey(p), r)
		return nil
	})
}

// AddIScsiSendTargetPortal implements [win32.ISCSI].
func (n *Node) AddIScsiSendTargetPortal(p win32.ISCSIPortal) error {
	return n.initiator(func() error {
		if _, twice := n.iscsi.registered[portalKey(p)]; twice {
			return win32.ISDSC_TARGET_PORTAL_ALREADY_EXISTS
		}
		return n.discover(p)
	})
}

// ReportIScsiSendTargetPortals implements [win32.ISCSI].
func (n *Node) ReportIScsiSendTargetPortals() (list []win32.ISCSISendTargetPortal, err error) {
	err = n.initiator(func() error {
		for _, r := range n.iscsi.registered {
			list = append(list, win32.ISCSISendTargetPortal{
				Initiator: iscsiInitiator, InitiatorPort: 0xFFFFFFFF, ISCSIPortal: win32.ISCSIPortal{Address: r.Address, Socket: r.Socket},
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
func (n *Node) RefreshIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	return n.initiator(func() error {
		if _, ok := n.iscsi.registered[portalKey(p.ISCSIPortal)]; !ok {
			return win32.ISDSC_PORTAL_NOT_FOUND
		}
		return n.discover(p.ISCSIPortal)
	})
}

// RemoveIScsiSendTargetPortal implements [win32.ISCSI]. Sessions stay.
func (n *Node) RemoveIScsiSendTargetPortal(p win32.ISCSISendTargetPortal) error {
	return n.initiator(func() error {
		if _, ok := n.iscsi.registered[portalKey(p.ISCSIPortal)]; !ok || p.Initiator != "" && p.Initiator != iscsiInitiator {
			return win32.ISDSC_PORTAL_NOT_FOUND
		}
		return n.transact(func(t *tx) error {
			deleteFrom(t, n.iscsi.registered, iscsiPortalPrefix, portalKey(p.ISCSIPortal))
			return nil
		})
	})
}

// discovered returns the portals that reported each target, by folded IQN.
func (n *Node) discovered() map[string][]iscsiRegistered {
	found := map[string][]iscsiRegistered{}
	for _, r := range n.iscsi.registered {
		for _, iqn := range r.Known {
			found[foldIQN(iqn)] = append(found[foldIQN(iqn)], r)
		}
	}
	return found
}

// ReportIScsiTargets implements [win32.ISCSI].
func (n *Node) ReportIScsiTargets(force bool) (names []string, err error) {
	err = n.initiator(func() error {
		for _, r := range n.iscsi.registered {
			if force {
				if err := n.discover(win32.ISCSIPortal{Address: r.Address, Socket: r.Socket}); errors.Is(err, win32.ERROR_IO_DEVICE) {
					return err
				}
			}
		}
		for _, r := range n.iscsi.registered {
			names = append(names, r.Known...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		return nil
	})
	return names, err
}

// IScsiTargetDiscovery implements [win32.ISCSI].
func (n *Node) IScsiTargetDiscovery(target string) (texts []string, err error) {
	err = n.initiator(func() error {
		portals := n.discovered()[foldIQN(target)]
		if portals == nil {
			return win32.ISDSC_TARGET_NOT_FOUND
		}
		for _, r := range portals {
			texts = append(texts, fmt.Sprintf("SendTargets:*%s %07d %s", r.Address, r.Socket, iscsiInitiator))
		}
		slices.Sort(texts)
		return nil
	})
	return texts, err
}

// ReportIScsiTargetPortals implements [win32.ISCSI].
func (n *Node) ReportIScsiTargetPortals(target string) (list []win32.ISCSIPortal, err error) {
	err = n.initiator(func() error {
		if n.discovered()[foldIQN(target)] == nil {
			return win32.ISDSC_TARGET_NOT_FOUND
		}
		for _, p := range n.iscsi.targets[foldIQN(target)].Portals {
			list = append(list, portalOf(p))
		}
		return nil
	})
	return list, err
}

// minCHAP and maxCHAP limit a CHAP secret without IPsec, in bytes
// (docs/contract/iscsi.md#chap).
const minCHAP, maxCHAP = 12, 16

// authenticate returns the result of a login's authentication, of target and
// initiator.
func (n *Node) authenticate(target iscsiTarget, login win32.ISCSILogin) error {
	if login.AuthType == win32.ISCSI_NO_AUTH_TYPE {
		if target.CHAP != nil {
			return win32.ISDSC_AUTHENTICATION_FAILURE
		}
		return nil // a name without authentication is ignored (docs/contract/iscsi.md#chap)
	}
	if login.AuthType > win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE {
		return win32.ERROR_INVALID_PARAMETER
	}
	if login.Password == nil || len(login.Password.Reveal()) < minCHAP || len(login.Password.Reveal()) > maxCHAP {
		return win32.ISDSC_LOGIN_USER_INFO_BAD
	}
	a := target.CHAP
	if a == nil || login.User == nil || *login.User != a.User || !a.verify(login.Password) {
		return win32.ISDSC_AUTHENTICATION_FAILURE
	}
	if login.AuthType == win32.ISCSI_MUTUAL_CHAP_AUTH_TYPE && !n.proves(a) {
		return win32.ISDSC_AUTHENTICATION_FAILURE
	}
	return nil
}

// proves reports whether an account's target knows the initiator's secret.
func (n *Node) proves(a *chapAccount) bool {
	have := n.iscsi.secret.Hash
	return have != nil && subtle.ConstantTimeCompare(have, a.Mutual) == 1
}

// LoginIScsiTarget implements [win32.ISCSI].
func (n *Node) LoginIScsiTarget(target string, p win32.ISCSIPortal, login win32.ISCSILogin) (id win32.ISCSISessionID, err error) {
	err = n.initiator(func() error {
		if n.discovered()[foldIQN(target)] == nil {
			return win32.ISDSC_TARGET_NOT_FOUND
		}
		if len(n.sessionsOf(target)) > 0 {
			return win32.ISDSC_TARGET_ALREADY_LOGGED_IN
		}
		there, ok := n.targetsAt(p)
		if !ok {
			return win32.ISDSC_CONNECTION_FAILED
		}
		i := slices.IndexFunc(there, func(t iscsiTarget) bool { return strings.EqualFold(t.IQN, target) })
		if i < 0 {
			return win32.ISDSC_NOT_FOUND
		}
		if there[i].Refuses {
			return win32.ISDSC_AUTHORIZATION_FAILURE
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

// inUse reports whether a disk has open handles for data: of the disk, of a
// volume on it, or of a file.
func (n *Node) inUse(d *disk) bool {
	for _, h := range n.handles {
		if o, ok := h.object.(*deviceHandle); ok && o.device == device(d) && (o.read || o.write) {
			return true
		}
		if o, ok := h.object.(volumeUser); ok {
			if v := o.usedVolume(); v != nil && slices.ContainsFunc(v.extents, func(e extent) bool { return e.disk == d }) {
				return true
			}
		}
	}
	return false
}

// LogoutIScsiTarget implements [win32.ISCSI].
func (n *Node) LogoutIScsiTarget(session win32.ISCSISessionID) error {
	return n.initiator(func() error {
		s, ok := n.iscsi.sessions[session.String()]
		if !ok {
			return win32.ISDSC_INVALID_SESSION_ID
		}
		target := n.iscsi.targets[foldIQN(s.IQN)]
		if target.Busy {
			return win32.ISDSC_DEVICE_BUSY_ON_SESSION
		}
		for _, c := range target.luns() {
			if d := n.byDiskID(c.ID); d != nil && n.inUse(d) {
				return win32.ISDSC_DEVICE_BUSY_ON_SESSION
			}
		}
		return n.endSession(target, s)
	})
}

// GetIScsiSessionList implements [win32.ISCSI].
func (n *Node) GetIScsiSessionList() (list []win32.ISCSISession, err error) {
	err = n.initiator(func() error {
		for _, s := range n.iscsi.sessions {
			list = append(list, win32.ISCSISession{
				ID: s.ID, TargetName: s.IQN,
				Connections: []win32.ISCSIConnection{{TargetAddress: s.Portal.Address, TargetSocket: s.Portal.Socket}},
			})
		}
		slices.SortFunc(list, func(a, b win32.ISCSISession) int { return cmp.Compare(a.ID.AdapterSpecific, b.ID.AdapterSpecific) })
		return nil
	})
	return list, err
}

// GetDevicesForIScsiSession implements [win32.ISCSI].
func (n *Node) GetDevicesForIScsiSession(session win32.ISCSISessionID) (list []win32.ISCSIDevice, err error) {
	err = n.initiator(func() error {
		s, ok := n.iscsi.sessions[session.String()]
		if !ok {
			return win32.ISDSC_INVALID_SESSION_ID
		}
		for _, c := range n.iscsi.targets[foldIQN(s.IQN)].luns() {
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
func (n *Node) ReportIScsiPersistentLogins() (list []win32.ISCSIPersistentLogin, err error) {
	err = n.initiator(func() error {
		for _, p := range n.iscsi.persistent {
			list = append(list, p)
		}
		slices.SortFunc(list, func(a, b win32.ISCSIPersistentLogin) int { return cmp.Compare(a.TargetName, b.TargetName) })
		return nil
	})
	return list, err
}

// RemoveIScsiPersistentTarget implements [win32.ISCSI].
func (n *Node) RemoveIScsiPersistentTarget(l win32.ISCSIPersistentLogin) error {
	return n.initiator(func() error {
		key := foldIQN(l.TargetName)
		if have, ok := n.iscsi.persistent[key]; !ok || have.Portal != l.Portal || have.Initiator != l.Initiator {
			return win32.ISDSC_TARGET_NOT_FOUND
		}
		return n.transact(func(t *tx) error {
			deleteFrom(t, n.iscsi.persistent, iscsiPersistentPrefix, key)
			return nil
		})
	})
}

// SetIScsiInitiatorCHAPSharedSecret implements [win32.ISCSI]. An empty secret
// removes it.
func (n *Node) SetIScsiInitiatorCHAPSharedSecret(secret win32.Secret) error {
	return n.initiator(func() error {
		var hash []byte
		if size := len(secret.Reveal()); size > 0 {
			if size < minCHAP || size > maxCHAP {
				return win32.ERROR_INVALID_PARAMETER
			}
			var err error
			if hash, err = n.hashMutual(secret.Reveal()); err != nil {
				return err
			}
		}
		return n.transact(func(t *tx) error {
			n.putSecret(t, iscsiSecret{n.iscsi.secret.Salt, hash})
			return nil
		})
	})
}

// showISCSI returns the targets, sorted by IQN, and the registered portals.
func (n *Node) showISCSI() (targets []nodespec.ISCSITargetInfo, registered []nodespec.ISCSIPortal) {
	for _, t := range n.iscsi.targets {
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
		_, persistent := n.iscsi.persistent[foldIQN(t.IQN)]
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
	for _, r := range n.iscsi.registered {
		registered = append(registered, nodespec.ISCSIPortal{Address: r.Address, Port: r.Socket})
	}
	slices.SortFunc(registered, func(a, b nodespec.ISCSIPortal) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
	})
	return targets, registered
}
