package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// The results of a check. What was not looked at is unknown, and never ok.
const (
	resultOK      = "ok"
	resultNote    = "note"    // may be intended
	resultUnknown = "unknown" // could not be checked; the text has the reason
	resultProblem = "problem" // should be fixed
)

// worse reports whether a result is worse than another one.
func worse(result, than string) bool {
	order := []string{resultOK, resultNote, resultUnknown, resultProblem}
	return slices.Index(order, result) > slices.Index(order, than)
}

// The errors of doctor and why by their worst result. What they found has been printed.
var (
	errFindings = errors.New("problems were found")
	errUnknown  = errors.New("something could not be checked")
)

func failureOf(worst string) error {
	switch worst {
	case resultProblem:
		return &failure{err: errFindings}
	case resultUnknown:
		return &failure{err: errUnknown}
	}
	return nil
}

// standing is what a disk or volume is used for. It decides what may be advised about it.
type standing int

const (
	free      standing = iota
	used               // it is mounted, or may be
	ofWindows          // it has a drive letter, or is on a disk with such a volume
)

// remedy returns what to do about a disk or volume: look, which neither destroys nor detaches it,
// and then change, which may, if nothing uses it or after its pods are deleted.
func (s standing) remedy(look, change string) string {
	switch s {
	case ofWindows:
		return look + "; the node itself uses it: keep it attached"
	case used:
		return look + "; if that does not help, delete the pods that use it first, so that the kubelet unmounts it; then " + change
	}
	return look + "; " + change
}

// diskStanding returns what the volumes of a disk, of those that are known, are used for.
func diskStanding(node *admin.DescribeResponse, d *admin.Disk) (s standing) {
	for _, v := range node.Volumes {
		switch {
		case slices.Contains(v.Disks, d.Number):
			s = max(s, ownStanding(v))
		case placeUnknown(v) && (d.Error != "" || len(d.Partitions) > 0):
			s = max(s, used, ownStanding(v))
		}
	}
	if node.VolumesError != "" {
		s = max(s, used)
	}
	return s
}

func volumeStanding(node *admin.DescribeResponse, v *admin.Volume) standing {
	s := ownStanding(v)
	for _, o := range node.Volumes {
		onSame := slices.ContainsFunc(o.Disks, func(n uint32) bool { return slices.Contains(v.Disks, n) })
		if ownStanding(o) == ofWindows && (onSame || placeUnknown(v) || placeUnknown(o)) {
			return ofWindows
		}
	}
	return s
}

func ownStanding(v *admin.Volume) standing {
	switch {
	case slices.ContainsFunc(v.MountedAt, func(at string) bool { return len(at) == len(`C:\`) }):
		return ofWindows
	case mayBeMounted(v):
		return used
	}
	return free
}

// allSilent reports whether none of the node's volumes answers, which is no problem of one of
// them.
func allSilent(node *admin.DescribeResponse) bool {
	return len(node.Volumes) > 1 && !slices.ContainsFunc(node.Volumes, func(v *admin.Volume) bool { return v.Error == "" || v.Offline })
}

// inUse are the errors of Windows for something that a program has open.
var inUse = []string{"being used by another process", "The requested resource is in use", "locked a portion of the file", "in use by an active process"}

// heldRemedy is what to do about something that a program has open.
const heldRemedy = "end the programs that have it open: the pod's containers, or a shell or service on the node; handle.exe of Sysinternals and the Resource Monitor show which; " +
	`exclude C:\var\lib\kubelet from virus scanners. The kubelet tries again; if nothing has it open, kubectl drain and restart the node`

// heldTrouble says that a call could not undo something because a program uses it, and what to
// do; or "". links are where the pods' links lead.
func heldTrouble(f *admin.FailedCall, links []*admin.Way) (cause, remedy string) {
	if !undoing(f.Call) || !slices.ContainsFunc(inUse, func(text string) bool { return strings.Contains(f.Error, text) }) {
		return "", ""
	}
	var pods []string
	for _, way := range links {
		for _, h := range way.Hops[min(1, len(way.Hops)):] { // the first is the link itself
			if !slices.Contains(pods, way.Path) && slices.ContainsFunc(fieldsOf(f.Call.GetTarget()), func(v field) bool { return samePath(v.value, h.Path) }) {
				pods = append(pods, way.Path)
			}
		}
	}
	remedy = heldRemedy
	if len(pods) > 0 {
		remedy = fmt.Sprintf("delete the pods that still link to it: %s; then ", strings.Join(pods, ", ")) + remedy
	}
	return f.Call.GetMethod() + " failed " + howFailed(f), remedy
}
