package simnode

import (
	"fmt"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
)

// ISCSI is the storage that a node can reach by iSCSI.
type ISCSI struct {
	// Portals answer even though no target is there. Those of targets need not
	// be listed.
	Portals []ISCSIPortal `json:"portals,omitempty"`
	Targets []ISCSITarget `json:"targets,omitempty"`
}

// ISCSIPortal is where something listens.
type ISCSIPortal struct {
	Address string `json:"address"`        // IP address or host name
	Port    uint16 `json:"port,omitempty"` // 3260 without it
}

// ISCSITarget is an iSCSI target. A login brings its LUNs as disks of the node,
// which keep their content from one login to the next.
type ISCSITarget struct {
	IQN     string        `json:"iqn"`
	Portals []ISCSIPortal `json:"portals"` // at least one
	LUNs    []LUN         `json:"luns,omitempty"`
	// CHAP is what a login needs; without it none is taken.
	CHAP *CHAP `json:"chap,omitempty"`

	// ArrivalDelay passes between a login and the appearance of the disks, for
	// the second disk twice and so on.
	ArrivalDelay Duration `json:"arrivalDelay,omitempty"`
	// Refuses makes it refuse every login, as one that does not list the node.
	Refuses bool `json:"refuses,omitempty"`
	// Unreachable makes its portals answer nobody, if no other target is there.
	Unreachable bool `json:"unreachable,omitempty"`
	// Busy makes Windows refuse a logout, as if somebody used a disk.
	Busy bool `json:"busy,omitempty"`
	// Persistent is a login that Windows makes by itself whenever MSiSCSI begins,
	// through the first portal.
	Persistent bool `json:"persistent,omitempty"`
}

// LUN is a logical unit. Its disk has no number of its own choice.
type LUN struct {
	LUN  *uint8 `json:"lun,omitempty"` // the position in the list without it
	Disk `json:"disk,omitzero"`
}

// CHAP is an account of a target. It prints without its secrets.
type CHAP struct {
	User   string `json:"user"`
	Secret string `json:"secret"` // 12 to 16 bytes
	// MutualSecret is the secret that the target proves to know, where the node
	// wants mutual CHAP.
	MutualSecret string `json:"mutualSecret,omitempty"`
}

// Format implements [fmt.Formatter].
func (c CHAP) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s ***}", c.User) }

// ISCSITargetInfo is a target as the node sees it.
type ISCSITargetInfo struct {
	IQN     string
	Portals []ISCSIPortal
	CHAP    string // the user, or "" without CHAP
	LUNs    int
	Session string   // its ID, if the node is logged in
	Through string   // portal of the session, as 10.0.0.1:3260
	Disks   []uint32 // that have arrived
	State   []string // "refuses", "unreachable", "busy", "persistent"
}

// SetISCSITarget makes a target, or replaces the one of that IQN. Sessions and
// disks that it has stay as they are.
func (n *Node) SetISCSITarget(t ISCSITarget) error {
	c, err := translate[emulated.ISCSITargetConfig](t)
	if err != nil {
		return refused(err)
	}
	return refused(n.emulated.SetISCSITarget(c))
}

// RemoveISCSITarget makes a target vanish, with its sessions and disks.
func (n *Node) RemoveISCSITarget(iqn string) error { return refused(n.emulated.RemoveISCSITarget(iqn)) }

// iscsiTargets are those of the emulation, in our types.
func iscsiTargets(all []emulated.ISCSITargetInfo) []ISCSITargetInfo {
	var list []ISCSITargetInfo
	for _, t := range all {
		info := ISCSITargetInfo{IQN: t.IQN, CHAP: t.CHAP, LUNs: t.LUNs, Session: t.Session, Through: t.Through, Disks: t.Disks, State: t.State}
		for _, p := range t.Portals {
			info.Portals = append(info.Portals, ISCSIPortal(p))
		}
		list = append(list, info)
	}
	return list
}
