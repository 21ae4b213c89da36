package iscsi

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
)

// sessionsOf returns the sessions of a target, oldest first.
func (n *Initiator) sessionsOf(iqn string) []iscsiSession {
	var found []iscsiSession
	for _, s := range n.sessions {
		if strings.EqualFold(s.IQN, iqn) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b iscsiSession) int { return cmp.Compare(a.ID.AdapterSpecific, b.ID.AdapterSpecific) })
	return found
}

// byDiskID returns the attached disk with this identity, or nil.
func (n *Initiator) byDiskID(id string) *disk.Disk {
	return n.disks.Find(func(d *disk.Disk) bool { return strings.EqualFold(d.ID, id) })
}

// scheduleDisks makes the disks of a session arrive, one after the other, step
// apart.
func (n *Initiator) scheduleDisks(s iscsiSession, step time.Duration) {
	for i, c := range n.targets[foldIQN(s.IQN)].luns() {
		n.arrivals = append(n.arrivals, lunArrival{s.ID, n.Now().Add(time.Duration(i+1) * step), c})
	}
}

// ApplyDue applies what is due: persistent logins, once MSiSCSI runs, and
// arriving disks. It runs before every call, outside of the call's transaction.
func (n *Initiator) ApplyDue() {
	s := n
	if !n.services.ISCSIRuns() {
		s.loggedIn = false
	} else if !s.loggedIn {
		s.loggedIn = true
		for _, p := range byKey(s.persistent) {
			if target, ok := s.targets[foldIQN(p.TargetName)]; ok && !target.Refuses && !target.Unreachable && len(n.sessionsOf(p.TargetName)) == 0 {
				if _, err := n.beginSession(target, p.Portal); err != nil {
					n.Log.Error("Failed to make a persistent iSCSI login", "target", p.TargetName, "err", err)
				}
			}
		}
	}
	if len(s.arrivals) == 0 {
		return
	}
	now := n.Now()
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
		if _, err := n.disks.Add(a.disk, disk.Attached); err != nil {
			n.Log.Error("Failed to attach the disk of an iSCSI target", "disk", a.disk.ID, "err", n.Cause(err))
		}
	}
}

// beginSession starts a session, whose disks will arrive.
func (n *Initiator) beginSession(target iscsiTarget, p win32.ISCSIPortal) (iscsiSession, error) {
	s := iscsiSession{ID: win32.ISCSISessionID{AdapterUnique: 0xFFFFB80A, AdapterSpecific: n.last + 1}, IQN: target.IQN, Portal: p}
	err := n.Transact(func(t *kernel.Tx) error {
		kernel.PutIn(t, n.sessions, iscsiSessionPrefix, s.ID.String(), s)
		return nil
	})
	if err != nil {
		return s, err
	}
	n.last++
	n.scheduleDisks(s, time.Duration(target.ArrivalDelay))
	return s, nil
}

// endSession ends a session and detaches its disks.
func (n *Initiator) endSession(target iscsiTarget, s iscsiSession) error {
	n.arrivals = slices.DeleteFunc(n.arrivals, func(a lunArrival) bool { return a.session == s.ID })
	for _, c := range target.luns() {
		if d := n.byDiskID(c.ID); d != nil {
			if err := n.disks.Remove(d); err != nil {
				return err
			}
		}
	}
	return n.Transact(func(t *kernel.Tx) error {
		kernel.DeleteFrom(t, n.sessions, iscsiSessionPrefix, s.ID.String())
		return nil
	})
}

// byKey iterates over a map in an order that is the same in every run: disks get their numbers
// in it, and it decides what was done before an error.
func byKey[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// Boot ends all sessions, like a restart of Windows.
func (n *Initiator) Boot() error {
	for _, s := range byKey(n.sessions) {
		if err := n.endSession(n.targets[foldIQN(s.IQN)], s); err != nil {
			return err
		}
	}
	n.loggedIn = false
	return nil
}
