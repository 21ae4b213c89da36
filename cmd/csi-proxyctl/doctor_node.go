package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// The limits of the checks of disks and volumes.
const (
	// nearlyFull is the used part of a volume, in percent, from which it is reported.
	nearlyFull = 95
	// mostLooked is the number of disks whose content is checked. Each check reads some MiB.
	mostLooked = 8
	// mostCalls is the number of calls that are reported one by one.
	mostCalls = 5
	// unused is the minimum space behind a volume that is reported, in bytes: partition
	// tables and clusters may leave less.
	unused = 64 << 20
)

// examineNode checks disks, volumes, links and calls, from a single description by csi-proxy.
func (a *app) examineNode(ctx context.Context) []finding {
	l := a.look(ctx, &admin.DescribeRequest{Links: true, Sessions: true})
	flying, node := l.calls, l.node
	found := examineCalls(flying)
	if l.callsErr != nil {
		found = checkFailed("calls", l.callsErr)
	}
	switch {
	case statusIn(l.nodeErr) != nil:
		return slices.Concat(checkFailed("disks", l.nodeErr), found, a.examineISCSI(ctx, nil))
	case l.nodeErr != nil:
		text, _ := explain(l.nodeErr)
		return append(a.examineISCSI(ctx, nil), finding{resultNote, "disks", "disks, volumes, links, calls, SMB mappings and iSCSI sessions were not checked: " + text,
			"use the csi-proxy of the same release as csi-proxyctl, without -admin-pipe=false, as an administrator"})
	}
	if l.idsErr != nil {
		a.note("serial numbers of disks are unknown: %s", brief(l.idsErr))
	}
	serials := map[uint32]string{}
	for n, id := range l.ids {
		serials[n] = id.SerialNumber
	}
	if l.failedErr != nil {
		found = append(found, checkFailed("calls", l.failedErr)...)
	}
	last := l.failed
	found = append(found, examineFailed(recent(node, flying, last), node.Links)...)
	disks := examineDisks(node, serials)
	disks = append(disks, a.examineContent(ctx, node, serials, flying)...)
	if node.DisksError != "" {
		disks = append(disks, notListed("disks", node.DisksError)...)
	}
	if len(disks) == 0 {
		disks = []finding{{resultOK, "disks", plural(len(node.Disks), "1 disk, online and writable", "%d disks, all online and writable"), ""}}
	}
	volumes, links := examineVolumes(node), examineLinks(node)
	if node.VolumesError != "" {
		volumes = notListed("volumes", node.VolumesError)
	}
	if node.LinksError != "" {
		if len(node.Links) == 0 {
			links = nil
		}
		links = append(notListed("links", node.LinksError), links...)
	}
	broken := slices.ContainsFunc(links, func(f finding) bool { return f.Result == resultProblem })
	return slices.Concat(disks, volumes, links, found, a.examineMappings(ctx), a.examineISCSI(ctx, node), examineTargets(node, broken), examineDirs(node), examineProblems(node))
}

// look is what doctor and why ask csi-proxy for, side by side.
type look struct {
	node   *admin.DescribeResponse
	ids    map[uint32]*diskv1.DiskIDs
	calls  []*admin.Call
	failed []*admin.FailedCall

	nodeErr, idsErr, callsErr, failedErr error
}

func (a *app) look(ctx context.Context, in *admin.DescribeRequest) (l look) {
	if l.calls, l.callsErr = a.othersInFlight(ctx); statusIn(l.callsErr) != nil { // nothing else would answer
		l.nodeErr = l.callsErr
		return l
	}
	var group sync.WaitGroup
	group.Go(func() { l.node, l.nodeErr = a.describe(ctx, in) })
	group.Go(func() { l.failed, l.failedErr = a.lastFailed(ctx) })
	group.Go(func() { l.ids, l.idsErr = a.diskIDs(ctx) })
	group.Wait()
	return l
}

// examineDirs finds working directories that let requests reach too much, or nothing.
func examineDirs(node *admin.DescribeResponse) (found []finding) {
	for _, problem := range winpath.DirProblems(node.WorkingDirs) {
		what, remedy, _ := strings.Cut(problem, "; ")
		found = append(found, finding{resultProblem, "kubelet", what, remedy + " in -working-dir or -kubelet-path"})
	}
	return found
}

// examineProblems finds what csi-proxy itself cannot do.
func examineProblems(node *admin.DescribeResponse) (found []finding) {
	for _, p := range node.Problems {
		found = append(found, finding{resultNote, "log", p.What, p.Remedy})
	}
	return found
}

// devicesHang is the remedy if Windows does not answer about devices.
const devicesHang = "look for errors of disks in the System event log, and for calls that hang with csi-proxyctl calls; restart the node if that persists"

// notListed is the finding of a check for which csi-proxy has no list.
func notListed(check, why string) []finding {
	return []finding{{resultProblem, check, "csi-proxy cannot list them: " + why, devicesHang}}
}

func nameOfDisk(n uint32, serials map[uint32]string) string {
	if serials[n] == "" {
		return fmt.Sprintf("disk %d", n)
	}
	return fmt.Sprintf("disk %d (%s)", n, printable(serials[n]))
}

// examineDisks finds disks that are not usable for volumes.
func examineDisks(node *admin.DescribeResponse, serials map[uint32]string) []finding {
	var found []finding
	for _, d := range node.Disks {
		what := nameOfDisk(d.Number, serials)
		for _, t := range []trouble{diskTrouble(node, d, what), twinTrouble(node, d, serials)} {
			if t.result != "" && !slices.Contains(found, t.of("disks")) {
				found = append(found, t.of("disks"))
			}
		}
	}
	return found
}

// examineContent finds disks without a volume that csi-proxy would not partition, because they
// have content. It leaves out disks that a call is using, because it would have to wait for them.
func (a *app) examineContent(ctx context.Context, node *admin.DescribeResponse, serials map[uint32]string, flying []*admin.Call) []finding {
	ctx, cancel := a.withShortLimit(ctx, openLimit)
	defer cancel()
	var blank []*admin.Disk
	volumesOn := map[uint32]bool{}
	for _, d := range node.Disks {
		used, hasVolumes := false, false
		matches := []func(field) bool{onDisk(d.Number)}
		for _, v := range node.Volumes {
			used = used || mayBeOn(v, d) || silentVolume(v) // a look at a disk asks all volumes
			if slices.Contains(v.Disks, d.Number) {
				hasVolumes = true
				used = used || v.FileSystem != "" || mayBeMounted(v)
				matches = append(matches, func(f field) bool { return samePath(f.value, v.Id) })
			}
		}
		busy := slices.ContainsFunc(flying, func(c *admin.Call) bool {
			return slices.ContainsFunc(matches, func(match func(field) bool) bool { return slices.ContainsFunc(fieldsOf(c.Target), match) })
		})
		if d.Error != "" || !d.Online || used || busy {
			continue
		}
		blank, volumesOn[d.Number] = append(blank, d), hasVolumes
	}
	looked := blank[:min(len(blank), mostLooked)]
	on := make([][]finding, len(looked))
	admin.EachDevice(len(looked), func(i int) {
		d := looked[i]
		if _, t := a.contentTrouble(ctx, d, volumesOn[d.Number], nameOfDisk(d.Number, serials)); t.result != "" {
			on[i] = []finding{t.of("disks")}
		}
	})
	found := slices.Concat(on...)
	left := len(blank) - len(looked)
	if left > 0 {
		found = append(found, finding{resultNote, "disks", plural(left, "the content of 1 more disk without a volume was not looked at", "the content of %d more disks without a volume was not looked at"), "csi-proxyctl why NUMBER looks at one disk"})
	}
	return found
}

// examineVolumes finds mounted volumes that do not work, are full, or do not use their disk.
func examineVolumes(node *admin.DescribeResponse) []finding {
	const check = "volumes"
	var found []finding
	mounted := 0
	if allSilent(node) {
		return []finding{volumeTrouble(node, node.Volumes[0]).of(check)}
	}
	for _, v := range node.Volumes {
		if len(v.MountedAt) == 0 {
			if v.Error != "" { // it may be mounted
				found = append(found, volumeTrouble(node, v).of(check))
			}
			continue
		}
		mounted++
		at := v.MountedAt[0]
		if t := volumeTrouble(node, v); t.result != "" {
			t.cause = fmt.Sprintf("at %s, %s", at, t.cause)
			found = append(found, t.of(check))
			continue
		}
		for _, t := range volumeNotes(node, v) {
			found = append(found, t.of(check))
		}
	}
	if len(found) == 0 {
		return []finding{{resultOK, check, plural(mounted, "1 mounted volume, working and with free space", "%d mounted volumes, all working and with free space"), ""}}
	}
	return found
}

// volumeNotes returns what may become a trouble of a mounted volume.
func volumeNotes(node *admin.DescribeResponse, v *admin.Volume) (notes []trouble) {
	if v.SizeBytes == 0 || len(v.MountedAt) == 0 {
		return nil
	}
	at := v.MountedAt[0]
	if used := v.SizeBytes - min(v.FreeBytes, v.SizeBytes); used >= v.SizeBytes/100*nearlyFull {
		notes = append(notes, trouble{resultNote, fmt.Sprintf("the volume at %s is %s full", at, percent(int64(used), int64(v.SizeBytes))), "expand the persistent volume claim, or remove files"})
	}
	if more := unusedBehind(v, node.Disks); more >= unused && more >= v.SizeBytes/100 && ownStanding(v) != ofWindows {
		notes = append(notes, trouble{resultNote, fmt.Sprintf("the volume at %s does not use %s that its disk has", at, bytesText(more)),
			fmt.Sprintf("the driver extends it when the pod starts again; or: csi-proxyctl call volume/v1 ResizeVolume 'volume_id=%s'", v.Id)})
	}
	return notes
}

// examineSessions finds sessions with iSCSI targets of which Windows does not report the disks.
func examineSessions(node *admin.DescribeResponse) (found []finding) {
	const check, look = "iscsi", "look for errors of MSiSCSI and iScsiPrt in the System event log"
	if node.SessionsError != "" {
		return []finding{{resultProblem, check, "csi-proxy cannot list the sessions with iSCSI targets: " + node.SessionsError, look}}
	}
	for _, s := range node.Sessions {
		if s.Error != "" {
			found = append(found, finding{resultProblem, check, "the disks of iSCSI target " + printable(s.Target) + " are unknown: " + s.Error, "check the network to its portal " + printable(portalOf(s)) + ", and " + look})
		}
	}
	return found
}

func portalOf(s *admin.Session) string {
	if len(s.Portals) > 0 {
		return s.Portals[0]
	}
	return "PORTAL"
}

// examineTargets finds iSCSI targets of which no volume is mounted. A driver that was cut off may
// leave their sessions. If links are broken, a target may be needed although it has no volume.
func examineTargets(node *admin.DescribeResponse, linksBroken bool) []finding {
	const check = "iscsi"
	type target struct {
		name, portal string
		disks        []uint32
	}
	var targets []*target
	found := examineSessions(node)
	for _, s := range node.Sessions { // several may be with one target
		portal := portalOf(s)
		i := slices.IndexFunc(targets, func(t *target) bool { return strings.EqualFold(t.name, s.Target) })
		if i < 0 {
			i = len(targets)
			targets = append(targets, &target{name: s.Target, portal: portal})
		}
		targets[i].disks = append(targets[i].disks, s.Disks...)
	}
	if len(found) > 0 || len(targets) == 0 {
		return found
	}
	if linksBroken || node.VolumesError != "" || slices.ContainsFunc(node.Volumes, silentVolume) {
		return []finding{{resultUnknown, check, "which iSCSI targets have no mounted volume is unknown, because a volume does not answer, or a link of the kubelet leads nowhere", "solve the problems above first"}}
	}
	for _, t := range targets {
		slices.Sort(t.disks)
		t.disks = slices.Compact(t.disks)
		// The volumes of a disk that is offline are unknown. That it is offline is a finding.
		needed := func(disk uint32) bool {
			return slices.ContainsFunc(node.Volumes, func(v *admin.Volume) bool { return slices.Contains(v.Disks, disk) && mayBeMounted(v) }) ||
				slices.ContainsFunc(node.Disks, func(d *admin.Disk) bool {
					return d.Number == disk && (d.Error != "" || !d.Online && len(d.Partitions) > 0)
				})
		}
		if slices.ContainsFunc(t.disks, needed) {
			continue
		}
		text := "iSCSI target " + printable(t.name) + " is connected and has no disks"
		if len(t.disks) > 0 {
			text = fmt.Sprintf("iSCSI target %s is connected, and no volume on its %s is mounted", printable(t.name), disksText(t.disks))
		}
		found = append(found, finding{resultNote, check, text, "if no pod needs it: " + disconnecting(t.portal, t.name)})
	}
	return found
}

// disconnecting returns the command that logs out of a target.
func disconnecting(portal, iqn string) string {
	command := "csi-proxyctl call iscsi/v1alpha2 DisconnectTarget " + quoted("iqn="+iqn)
	address, port, err := net.SplitHostPort(portal)
	if err != nil { // it has no port
		return command + " " + quoted("target_portal.target_address="+portal)
	}
	return command + " " + quoted("target_portal.target_address="+address) + " " + quoted("target_portal.target_port="+port)
}

// disksText returns "disk 1" or "disks 1, 2".
func disksText(disks []uint32) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(disks), " ", ", "), "[]")
	if len(disks) == 1 {
		return "disk " + text
	}
	return "disks " + text
}

// mayBeMounted reports whether a volume is mounted, or does not answer, so that it may be.
func mayBeMounted(v *admin.Volume) bool { return len(v.MountedAt) > 0 || v.Error != "" }

// silentVolume reports whether a volume does not even answer where it is.
func silentVolume(v *admin.Volume) bool { return placeUnknown(v) && v.Error != "" }

// placeUnknown reports whether it is unknown on which disk a volume is, because it does not answer
// or is offline.
func placeUnknown(v *admin.Volume) bool { return len(v.Disks) == 0 && (v.Error != "" || v.Offline) }

// mayBeOn reports whether a volume whose place is unknown may be on a disk.
func mayBeOn(v *admin.Volume, d *admin.Disk) bool { return placeUnknown(v) && len(d.Partitions) > 0 }

// unusedBehind returns how many bytes a volume could grow by: what its file system leaves unused
// in its partition, and what is free behind that. It returns 0 for a volume on several disks.
func unusedBehind(v *admin.Volume, disks []*admin.Disk) uint64 {
	if len(v.Disks) != 1 {
		return 0
	}
	for _, d := range disks {
		if d.Number != v.Disks[0] || d.Error != "" {
			continue
		}
		limit := d.SizeBytes
		for _, p := range d.Partitions {
			if p.OffsetBytes > v.OffsetBytes {
				limit = min(limit, p.OffsetBytes)
			}
		}
		if end := v.OffsetBytes + v.SizeBytes; limit > end {
			return limit - end
		}
	}
	return 0
}

// examineLinks finds paths of volumes of pods, and of staged volumes, at which there is no volume,
// directory or share, or another one than there should be.
func examineLinks(node *admin.DescribeResponse) []finding {
	const check = "links"
	type broken struct {
		finding
		more int
	}
	var all []*broken
	by := map[string]*broken{} // by what is gone, to which a pod's link and a mount point lead
	links := 0
	for _, w := range node.Links {
		links += min(1, len(w.Hops))
		gone, t := wayTrouble(node, w, func() []*admin.Way { return node.Links })
		switch {
		case t.result == "":
		case by[gone] != nil:
			by[gone].more++
		default:
			if !strings.Contains(t.cause, w.Path) {
				t.cause = w.Path + ": " + t.cause
			}
			by[gone] = &broken{finding: t.of(check)}
			all = append(all, by[gone])
		}
	}
	var found []finding
	for _, b := range all {
		if b.more > 0 {
			b.What += plural(b.more, "; the same is so for 1 more path", "; the same is so for %d more paths")
		}
		found = append(found, b.finding)
	}
	if !slices.ContainsFunc(found, func(f finding) bool { return f.Result == resultProblem }) {
		found = append(found, finding{resultOK, check, plural(links, "1 link or mount point of a volume, leading to a volume, share or directory", "%d links and mount points of volumes, each leading to a volume, share or directory"), ""})
	}
	return found
}

// examineCalls finds calls that hang, and pipes at which calls wait for others to end.
func examineCalls(flying []*admin.Call) []finding {
	const check = "calls"
	type load struct {
		running, queued int
		by              map[uint32]int
		program         map[uint32]string
	}
	found := []finding{}
	loads := map[string]*load{}
	var pipes []string
	hung := 0
	for _, c := range flying {
		l := loads[c.Pipe]
		if l == nil {
			l = &load{by: map[uint32]int{}, program: map[uint32]string{}}
			loads[c.Pipe], pipes = l, append(pipes, c.Pipe)
		}
		l.by[c.Process]++
		l.program[c.Process] = c.Program
		if c.Phase == "queued" {
			l.queued++
			continue
		}
		l.running++
		if !hanging(c) {
			continue
		}
		if hung++; hung <= mostCalls {
			found = append(found, hangTrouble(flying, c).of(check))
		}
	}
	if hung > mostCalls {
		found = append(found, finding{resultProblem, check, plural(hung-mostCalls, "1 more call hangs", "%d more calls hang"), "csi-proxyctl calls lists them"})
	}
	for _, name := range pipes {
		l := loads[name]
		if l.queued == 0 {
			continue
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(l.by)), func(x, y uint32) int { return cmp.Compare(l.by[x], l.by[y]) })
		found = append(found, finding{resultProblem, check,
			fmt.Sprintf("%s is overloaded: %s, and %s to end; %s of process %d (%s)", apiOf(name), plural(l.running, "1 call runs", "%d calls run"), plural(l.queued, "1 waits for them", "%d wait for them"),
				plural(l.by[most], "1 is", "%d are"), most, cmp.Or(l.program[most], "unknown")),
			"csi-proxyctl calls shows what the running ones do; if none hangs, the driver repeats calls too often: see its log"})
	}
	if len(found) == 0 {
		return []finding{{resultOK, check, fmt.Sprintf("%d in flight, none hangs", len(flying)), ""}}
	}
	return found
}

// examineFailed finds calls that failed and have not been overcome: each that could not undo
// something because a program uses it, and the number of the others.
func examineFailed(failed []*admin.FailedCall, links []*admin.Way) (found []finding) {
	var others []*admin.FailedCall
	for _, f := range failed {
		t := heldTrouble(f, links)
		switch {
		case t.result != "":
			found = append(found, t.of("calls"))
		case f.Call.GetChanges() || !slices.Contains([]string{"NotFound", "Canceled"}, f.Code): // drivers ask for what may not exist
			others = append(others, f)
		}
	}
	if len(others) > 0 {
		times := uint32(0)
		for _, f := range others {
			times += f.Times
		}
		found = append(found, finding{resultNote, "calls", fmt.Sprintf("%s, and no later one succeeded instead; the last is %s: %s",
			plural(int(times), "1 call failed within 10 minutes", "%d calls failed within 10 minutes"), others[0].Call.GetMethod(), errorOf(others[0])),
			"correct what the error names; csi-proxyctl calls --failed -o json shows them, and which calls of Windows failed in them"})
	}
	return found
}
