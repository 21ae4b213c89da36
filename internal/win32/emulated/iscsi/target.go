package iscsi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func portalOf(c nodespec.ISCSIPortal) win32.ISCSIPortal {
	return win32.ISCSIPortal{Address: c.Address, Socket: cmp.Or(c.Port, nodespec.ISCSIPort)}
}

// isPortal reports whether c has an address. Brackets may enclose an address, but
// are not part of it.
func isPortal(c nodespec.ISCSIPortal) bool {
	return c.Address != "" && !strings.ContainsAny(c.Address, "[]")
}

// Validate refuses descriptions of targets and portals that cannot be.
func Validate(c nodespec.ISCSI) error {
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
		return fmt.Errorf("iSCSI target %q: not a valid iSCSI name", c.IQN)
	}
	if len(c.Portals) == 0 || slices.ContainsFunc(c.Portals, func(p nodespec.ISCSIPortal) bool { return !isPortal(p) }) {
		return fmt.Errorf("iSCSI target %q: want at least one portal, each with an address", c.IQN)
	}
	if c.ArrivalDelay < 0 {
		return fmt.Errorf("iSCSI target %q: the arrival delay is negative", c.IQN)
	}
	var luns []uint8
	for i, l := range c.LUNs {
		if l.Number != nil || i > 255 {
			return fmt.Errorf("iSCSI target %q: LUN %d: want no disk number, and at most 256 LUNs", c.IQN, i)
		}
		if err := disk.Validate(l.Disk); err != nil {
			return fmt.Errorf("iSCSI target %q: LUN %d: %w", c.IQN, i, err)
		}
		n := numberOf(l, i)
		if slices.Contains(luns, n) {
			return fmt.Errorf("iSCSI target %q: two LUNs with number %d", c.IQN, n)
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

// defaultISCSI is the storage of a node whose configuration has none.
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
	got, err := kernel.HashPassword(secret.Reveal(), a.Salt)
	return err == nil && subtle.ConstantTimeCompare(got, a.Hash) == 1
}

// Make creates the configured targets.
func (n *Initiator) Make() error {
	c := n.Config.ISCSI
	if c.Targets == nil && c.Portals == nil {
		c = defaultISCSI
	}
	for _, p := range c.Portals {
		n.extra = append(n.extra, portalOf(p))
	}
	for _, t := range c.Targets {
		if _, twice := n.targets[foldIQN(t.IQN)]; twice {
			return fmt.Errorf("iSCSI target %q is in the configuration twice", t.IQN)
		}
		if err := n.setTarget(t); err != nil {
			return err
		}
	}
	return nil
}

// setTarget creates or replaces a target. The caller holds the node's lock.
func (n *Initiator) setTarget(c nodespec.ISCSITarget) error {
	target := iscsiTarget{ISCSITarget: c}
	target.ISCSITarget.CHAP = nil
	target.Portals, target.LUNs = slices.Clone(c.Portals), slices.Clone(c.LUNs)
	if c.CHAP != nil {
		a := &chapAccount{User: c.CHAP.User, Salt: make([]byte, 16)}
		if _, err := io.ReadFull(n.Rand, a.Salt); err != nil {
			return fmt.Errorf("random salt: %w", err)
		}
		var err error
		if a.Hash, err = kernel.HashPassword(c.CHAP.Secret, a.Salt); err != nil {
			return err
		}
		if c.CHAP.MutualSecret != "" {
			if a.Mutual, err = n.hashMutual(c.CHAP.MutualSecret); err != nil {
				return err
			}
		}
		target.CHAP = a
	}
	return n.Cause(n.Transact(func(t *kernel.Tx) error {
		kernel.PutIn(t, n.targets, iscsiTargetPrefix, foldIQN(c.IQN), target)
		if c.Persistent {
			p := portalOf(c.Portals[0])
			kernel.PutIn(t, n.persistent, iscsiPersistentPrefix, foldIQN(c.IQN),
				win32.ISCSIPersistentLogin{TargetName: c.IQN, Initiator: AdapterName, InitiatorPort: 0xFFFFFFFF, Portal: p})
		}
		return nil
	}))
}

// hashMutual returns what is stored of a secret for mutual CHAP.
func (n *Initiator) hashMutual(secret string) ([]byte, error) {
	s := n.secret
	if s.Salt == nil {
		s.Salt = make([]byte, 16)
		if _, err := io.ReadFull(n.Rand, s.Salt); err != nil {
			return nil, fmt.Errorf("random salt: %w", err)
		}
		if err := n.Transact(func(t *kernel.Tx) error { n.putSecret(t, s); return nil }); err != nil {
			return nil, err
		}
	}
	return kernel.HashPassword(secret, s.Salt)
}

func (n *Initiator) putSecret(t *kernel.Tx, s iscsiSecret) {
	t.Put(iscsiSecretKey, s)
	t.OnCommit(func() { n.secret = s })
}

// SetISCSITarget creates a target, or replaces the one with its IQN. Existing
// sessions and disks do not change.
func (n *Initiator) SetISCSITarget(c nodespec.ISCSITarget) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	if err := validateISCSITarget(c); err != nil {
		return err
	}
	return n.setTarget(c)
}

// RemoveISCSITarget removes a target with its sessions and disks, also the content of the
// disks, except of those that programs have open or that other targets have, too. The
// initiator's knowledge of it stays until its portals are refreshed.
func (n *Initiator) RemoveISCSITarget(iqn string) error {
	if err := n.Lock(); err != nil {
		return err
	}
	defer n.Unlock()
	target, ok := n.targets[foldIQN(iqn)]
	if !ok {
		return fmt.Errorf("no iSCSI target %q", iqn)
	}
	open := map[string]bool{}
	for _, c := range target.luns() {
		d := n.byDiskID(c.ID)
		open[c.ID] = d != nil && n.InUse(d, nil)
	}
	for _, s := range n.sessionsOf(iqn) {
		if err := n.endSession(target, s); err != nil {
			return err
		}
	}
	err := n.Transact(func(t *kernel.Tx) error {
		kernel.DeleteFrom(t, n.targets, iscsiTargetPrefix, foldIQN(iqn))
		return nil
	})
	if err != nil {
		return n.Cause(err)
	}
	for _, other := range n.targets {
		for _, c := range other.luns() {
			open[c.ID] = true
		}
	}
	for _, c := range target.luns() {
		if !open[c.ID] && n.disks.IsDetached(c.ID) {
			if err := n.disks.Erase(c.ID); err != nil {
				return err
			}
		}
	}
	return nil
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
