package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The results of a check. What was not looked at is unknown, and never ok.
const (
	resultOK      = "ok"
	resultNote    = "note"    // may be intended
	resultUnknown = "unknown" // could not be checked; the text has the reason
	resultProblem = "problem" // should be fixed
)

// trouble is what is wrong with something, and what to do. Doctor asks all objects for theirs, and
// why one. The zero trouble is none.
type trouble struct{ result, cause, remedy string }

// problem returns the trouble of something that should be fixed.
func problem(cause, remedy string) trouble { return trouble{resultProblem, cause, remedy} }

// of returns the finding of a check.
func (t trouble) of(check string) finding { return finding{t.result, check, t.cause, t.remedy} }

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

// heldTrouble says that a call could not undo something because a program uses it. links are where the pods' links lead.
func heldTrouble(f *admin.FailedCall, links []*admin.Way) trouble {
	if !undoing(f.Call) || !slices.ContainsFunc(inUse, func(text string) bool { return strings.Contains(f.Error, text) }) {
		return trouble{}
	}
	var pods []string
	for _, way := range links {
		for _, h := range way.Hops[min(1, len(way.Hops)):] { // the first is the link itself
			if !slices.Contains(pods, way.Path) && slices.ContainsFunc(fieldsOf(f.Call.GetTarget()), func(v field) bool { return samePath(v.value, h.Path) }) {
				pods = append(pods, way.Path)
			}
		}
	}
	remedy := heldRemedy
	if len(pods) > 0 {
		remedy = fmt.Sprintf("delete the pods that still link to it: %s; then ", strings.Join(pods, ", ")) + remedy
	}
	return problem(f.Call.GetMethod()+" failed "+howFailed(f), remedy)
}

// The paths at which the kubelet publishes a persistent volume to a pod, and stages one: by the hash
// of its volume handle, and by its name before Kubernetes 1.24.
var (
	publishPath = regexp.MustCompile(`(?i)^(.*\\pods\\[^\\]+\\volumes\\kubernetes\.io~csi\\([^\\]+))\\mount$`)
	stagingPath = regexp.MustCompile(`(?i)\\plugins\\kubernetes\.io\\csi\\(?:pv\\([^\\]+)|[^\\]+\\([^\\]+))\\globalmount$`)
)

// wayTrouble returns what is wrong with the path of a volume of a pod, or of a staged one. gone is
// what is missing, to which other paths may lead. links returns all such paths of the node.
func wayTrouble(node *admin.DescribeResponse, w *admin.Way, links func() []*admin.Way) (gone string, t trouble) {
	last := &admin.Hop{}
	if n := len(w.Hops); n > 0 {
		last = w.Hops[n-1]
	}
	base := strings.ToLower(w.Location[strings.LastIndexByte(w.Location, '\\')+1:])
	switch {
	case w.Share != "" && w.ShareStatus == "" && w.Error != "":
		return w.Error, trouble{resultProblem, "Windows does not list its SMB mappings: " + w.Error, "check the service LanmanWorkstation: sc.exe query LanmanWorkstation"}
	case w.Share != "" && w.ShareStatus == "":
		return w.Share, trouble{resultProblem, w.Share + " is not mapped on this node", mapAgain(w.Share)}
	case w.Share != "": // the check of mappings has it
		return "", trouble{}
	case last.Volume != "" && node.VolumesError == "" && !slices.ContainsFunc(node.Volumes, func(v *admin.Volume) bool { return strings.EqualFold(v.Id, last.Volume) }):
		return last.Volume, goneTrouble(node, "that is mounted at "+last.Path)
	case w.Error != "":
		return w.Location, trouble{resultProblem, w.Location + " cannot be opened: " + w.Error, "look for a volume or disk that does not answer: csi-proxyctl doctor"}
	case w.Missing != "" && len(w.Hops) > 0:
		return w.Location + `\` + w.Missing, trouble{resultProblem, fmt.Sprintf("%s leads to %s, below which %s does not exist", last.Path, w.Location, w.Missing),
			"the volume was unstaged, or its content is another one: delete the pod, so that the kubelet unpublishes the volume and stages it again"}
	case w.Missing != "":
		return "missing", trouble{resultNote, w.Path + " does not exist", "the driver or the kubelet has not made it on this node: see the driver's log"}
	case last.Volume == "" && base == "globalmount":
		result := resultNote // no pod needs it yet
		if len(w.Hops) > 0 {
			result = resultProblem
		}
		return w.Location, trouble{result, "no volume is mounted at " + w.Location + ": it is a plain directory",
			"the driver has not staged the volume, or it was unmounted: delete the pod, so that the kubelet stages it again"}
	case last.Volume == "" && base == "mount":
		return "plain", trouble{resultNote, "no volume is mounted at " + w.Location + ": it is a plain directory",
			"a driver that writes files, as for secrets, needs no volume; otherwise the volume was unmounted: delete the pod, so that the kubelet publishes it again"}
	}
	return w.Path, strayTrouble(w, links)
}

// strayTrouble says that the path of a pod leads to where another persistent volume is staged. The
// kubelet notes the volume handle beside the path; without that, two pods with different volumes
// must not lead to one.
func strayTrouble(w *admin.Way, links func() []*admin.Way) trouble {
	pod, path, staged := publishPath.FindStringSubmatch(w.Path), "", []string(nil)
	of := func(w *admin.Way) (string, []string) {
		for _, h := range w.Hops[min(1, len(w.Hops)):] {
			if m := stagingPath.FindStringSubmatch(h.Path); m != nil {
				return h.Path, m
			}
		}
		return w.Location, stagingPath.FindStringSubmatch(w.Location)
	}
	if path, staged = of(w); pod == nil || staged == nil || len(w.Hops) == 0 {
		return trouble{}
	}
	const remedy = "delete the pod, so that the kubelet publishes its volume again, and see the driver's log for why it linked another one"
	if handle := volumeHandle(pod[1]); handle != "" && staged[2] != "" {
		if !strings.EqualFold(staged[2], hashOf(handle)) {
			return trouble{resultProblem, fmt.Sprintf("%s is for the volume %s, and leads to %s, where another one is staged", w.Path, hosterr.Quote(handle), path), remedy}
		}
		return trouble{}
	}
	for _, o := range links() {
		other := publishPath.FindStringSubmatch(o.Path)
		if other == nil || len(o.Hops) == 0 || strings.EqualFold(other[2], pod[2]) {
			continue
		}
		at, m := of(o)
		if handle := volumeHandle(other[1]); strings.EqualFold(at, path) && (handle == "" || m[2] == "" || strings.EqualFold(m[2], hashOf(handle))) {
			return trouble{resultProblem, fmt.Sprintf("%s and %s are different persistent volumes, and both lead to %s", w.Path, o.Path, path), remedy}
		}
	}
	return trouble{}
}

// hashOf returns the name of the directory in which the kubelet stages a volume.
func hashOf(handle string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(handle))) }

// mapAgain is the remedy for a share that is not mapped, or whose mapping does not work.
func mapAgain(share string) string {
	return "check that the server is up and has the share; then delete the pod, so that the driver maps the share again; New-SmbGlobalMapping -RemotePath " + quoted(share) + " -Credential (Get-Credential) -RequirePrivacy $true maps it by hand"
}

// goneTrouble explains a volume that the node does not have.
func goneTrouble(node *admin.DescribeResponse, which string) trouble {
	var offline []string
	for _, d := range node.Disks {
		if !d.Online && d.Error == "" {
			offline = append(offline, number(d.Number))
		}
	}
	cause := "the volume " + which + " is not on this node: its disk was detached"
	switch len(offline) {
	case 0:
		return problem(cause, "attach the disk again and run: csi-proxyctl call disk/v1 Rescan; or delete the pod, so that the kubelet unmounts it")
	case 1:
		cause += ", or is the offline disk " + offline[0]
	default:
		cause += ", or is one of the offline disks " + strings.Join(offline, ", ")
	}
	return problem(cause, fmt.Sprintf("csi-proxyctl why %s shows why the disk is offline; if it is another disk, attach that one again and run: csi-proxyctl call disk/v1 Rescan", offline[0]))
}

// twinTrouble says that another disk has the serial number of a disk. A second path to the same
// device has it, too.
func twinTrouble(node *admin.DescribeResponse, d *admin.Disk, serials map[uint32]string) trouble {
	serial := serials[d.Number]
	if serial == "" {
		return trouble{}
	}
	var each []string
	for _, o := range node.Disks {
		if serials[o.Number] != serial || o.OfflineReason == redundantPath {
			continue
		}
		var at []string
		for _, v := range node.Volumes {
			if slices.Contains(v.Disks, o.Number) {
				at = append(at, v.MountedAt...)
			}
		}
		is := "mounted nowhere"
		if len(at) > 0 {
			is = "mounted at " + strings.Join(at, " and ")
		}
		each = append(each, fmt.Sprintf("disk %d is %s", o.Number, is))
	}
	if len(each) < 2 {
		return trouble{}
	}
	return trouble{resultProblem, fmt.Sprintf("several disks have the serial number %s, so a driver may take the wrong one: %s", hosterr.Quote(serial), strings.Join(each, "; ")),
		"csi-proxyctl why NUMBER looks at one of them; detach one only if it is mounted nowhere and no pod needs it"}
}
