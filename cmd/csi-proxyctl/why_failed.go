package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
)

// recently is the age up to which a failed call explains why something is not done. The kubelet
// tries again after about two minutes at most, and a call may take as long.
const recently = 10 * time.Minute

// recent removes the failed calls that are old, those of this process and of administrators, such as InspectDisk, by
// which why looks at the content of a disk, those that continue although their caller gave
// up, and those that no longer matter.
func recent(node *admin.DescribeResponse, flying []*admin.Call, all []*admin.FailedCall) []*admin.FailedCall {
	return slices.DeleteFunc(all, func(f *admin.FailedCall) bool {
		return ageOf(f.Call) >= recently || f.Call.GetPipe() == admin.Pipe || f.Call.GetProcess() == uint32(os.Getpid()) || goesOn(flying, f) || f.Overcome || isOver(node, f)
	})
}

func goesOn(flying []*admin.Call, f *admin.FailedCall) bool {
	return f.Code == codes.DeadlineExceeded.String() && slices.ContainsFunc(flying, func(c *admin.Call) bool {
		return c.Method == f.Call.GetMethod() && c.Target == f.Call.GetTarget()
	})
}

// isOver reports whether the volume of a failed call has since been formatted or mounted, or is
// no longer on the node.
func isOver(node *admin.DescribeResponse, f *admin.FailedCall) bool {
	fields := fieldsOf(f.Call.GetTarget())
	return node.VolumesError == "" && slices.ContainsFunc(fields, func(id field) bool {
		if !volumeName.MatchString(id.value) {
			return false
		}
		at := slices.IndexFunc(node.Volumes, func(v *admin.Volume) bool { return samePath(id.value, v.Id) })
		if at < 0 {
			return true
		}
		v := node.Volumes[at]
		switch f.Call.GetMethod() {
		case "FormatVolume":
			return v.FileSystem != ""
		case "MountVolume":
			return slices.ContainsFunc(v.MountedAt, func(m string) bool {
				return slices.ContainsFunc(fields, func(target field) bool { return samePath(target.value, m) })
			})
		}
		return false
	})
}

func ageOf(c *admin.Call) time.Duration {
	return time.Duration(c.GetAgeMilliseconds()) * time.Millisecond
}

// failures adds a step for each failed call whose request has a field that matches, or whose error
// is in the text of the subject, and returns them. Methods that only read are left out unless the
// text has their error: drivers ask for things that may not exist, such as the volume of a plain
// directory.
func (q *inquiry) failures(match func(field) bool) (found []*admin.FailedCall) {
	for _, f := range q.failed {
		matches := f.Call.GetChanges() && slices.ContainsFunc(fieldsOf(f.Call.GetTarget()), match)
		if !matches && !q.quotes(f) {
			continue
		}
		found = append(found, f)
		if !slices.Contains(q.seen, f) {
			q.seen = append(q.seen, f)
		}
		q.step("failed", "%s %s", f.Call.GetMethod(), howFailed(f))
	}
	return found
}

// quotes reports whether the text of the subject has the error of a failed call. Quoting
// doubles backslashes.
func (q *inquiry) quotes(f *admin.FailedCall) bool {
	plain := func(text string) string { return strings.NewReplacer(`\`, "", `"`, "").Replace(text) }
	text := plain(f.Error)
	return len(text) > len(context.DeadlineExceeded.Error()) && strings.Contains(plain(q.text), text)
}

// howFailed says when a call failed, how often, and with which error.
func howFailed(f *admin.FailedCall) string {
	times := ""
	if f.Times > 1 {
		times = fmt.Sprintf(", %d times", f.Times)
	}
	return fmt.Sprintf("%v ago%s: %s", ageOf(f.Call).Round(time.Second), times, errorOf(f))
}

// errorOf returns the error of a failed call. If that says only that it took too long, the call of
// Windows that failed last in it says why.
func errorOf(f *admin.FailedCall) string {
	if n := len(f.Win32); n > 0 && strings.HasSuffix(f.Error, context.DeadlineExceeded.Error()) {
		last := f.Win32[n-1]
		return fmt.Sprintf("%s; until then, %s failed: %s", f.Error, last.Call, last.Error)
	}
	return f.Error
}

// failedTrouble returns what is wrong with a failed call.
func failedTrouble(f *admin.FailedCall) trouble {
	return problem(f.Call.GetMethod()+" failed "+howFailed(f),
		"correct what the error names; the driver tries again. csi-proxyctl calls --failed -o json shows which calls of Windows failed in it")
}

// undoes are the verbs of methods that undo something: their failure is not the reason why
// something is not done.
var undoes = []string{"Disconnect", "Dismount", "Remove", "Rmdir", "Stop", "Unmount"}

func undoing(c *admin.Call) bool {
	return slices.ContainsFunc(undoes, func(verb string) bool { return strings.HasPrefix(c.GetMethod(), verb) })
}

// blameFailed blames the failed call that the text is about, or else the last one that should
// have changed something. One that names a disk by its number may have been about another disk:
// it is a note.
func (q *inquiry) blameFailed(failed []*admin.FailedCall) {
	if at := slices.IndexFunc(failed, q.quotes); at >= 0 {
		q.take(failedTrouble(failed[at]))
		return
	}
	for _, f := range failed {
		if !undoing(f.Call) && diskOf(f.Call) == "" {
			q.take(failedTrouble(f))
			return
		}
	}
	for _, f := range failed {
		if n := diskOf(f.Call); n != "" && !undoing(f.Call) {
			t := failedTrouble(f)
			q.conclude(resultNote, fmt.Sprintf("%s; it may be the cause, if disk %s was this disk then", trimStop(t.cause), n), t.remedy)
			return
		}
	}
}

// diskOf returns the number of the disk that a call names, or "". Windows gives the number of a
// disk that was removed to the next one.
func diskOf(c *admin.Call) string {
	for _, f := range fieldsOf(c.GetTarget()) {
		if isDisk(f) {
			return f.value
		}
	}
	return ""
}

// trimStop removes the full stop at the end of an error of Windows, so that a text can continue.
func trimStop(text string) string { return strings.TrimSuffix(text, ".") }

// blameQuoted blames the failed call that the text is about if nothing else is wrong.
func (q *inquiry) blameQuoted() {
	if at := slices.IndexFunc(q.failed, q.quotes); at >= 0 {
		q.take(failedTrouble(q.failed[at]))
	}
}

// blameHeld blames a call that could not undo something because a program uses it, if nothing else
// is wrong. That another call failed is a note: what it was to make may be there.
func (q *inquiry) blameHeld(ctx context.Context) {
	for _, f := range q.seen {
		if heldTrouble(f, nil).result != "" && q.Result != resultProblem {
			q.take(heldTrouble(f, q.links(ctx)))
		}
	}
	if len(q.seen) > 0 && q.Result == resultOK {
		t := failedTrouble(q.seen[0])
		q.conclude(resultNote, q.Cause+"; but "+t.cause, t.remedy)
	}
}

// blameUnstaged explains a volume that is not mounted if no call names its path. Calls that a
// driver makes before it mounts, such as FormatVolume, name only a disk or a volume, so those
// that hang or failed may be the cause. So may calls for shares, if the volume may be a share.
func (q *inquiry) blameUnstaged(result, cause, remedy string, groups ...string) {
	if q.Result == resultProblem {
		return
	}
	var suspect trouble
	suspected := func(kind, step string, c *admin.Call, t trouble) {
		q.step(kind, "%s; it may be the cause: %s", trimStop(step), cmp.Or(c.GetTarget(), "it names no disk and no volume")+q.onDisks(c))
		suspect = cmp.Or(suspect, t)
	}
	groups = append(groups, "disk", "volume", "iscsi")
	for _, c := range likelyFirst(q.calls, func(c *admin.Call) *admin.Call { return c }) {
		if hanging(c) && q.mayBeOf(c, groups) { // one that only looks keeps a driver from the next step, too
			suspected("call", callText(c), c, hangTrouble(q.calls, c))
		}
	}
	for _, f := range likelyFirst(q.failed, (*admin.FailedCall).GetCall) {
		if f.Call.GetChanges() && q.mayBeOf(f.Call, groups) {
			suspected("failed", f.Call.GetMethod()+" "+howFailed(f), f.Call, failedTrouble(f))
		}
	}
	if suspect.result != "" {
		result = resultProblem
		cause += "; the cause may be: " + suspect.cause
		what := "the disk"
		if slices.Contains(groups, "smb") {
			what = "the disk or share"
		}
		remedy = "if that is about " + what + " of this volume: " + suspect.remedy + ". Otherwise: " + remedy
	}
	q.conclude(result, cause, remedy)
}

// onDisks names the disks of the volume that a call names.
func (q *inquiry) onDisks(c *admin.Call) (text string) {
	for _, v := range q.node.Volumes {
		if !slices.ContainsFunc(fieldsOf(c.GetTarget()), func(f field) bool { return samePath(f.value, v.Id) }) {
			continue
		}
		for _, n := range v.Disks {
			text += ", on " + nameOfDisk(n, map[uint32]string{n: q.ids[n].GetSerialNumber()})
		}
	}
	return text
}

// likely are the methods that are most often the reason why a volume is not staged.
var likely = []string{"FormatVolume", "PartitionDisk", "SetDiskState"}

// likelyFirst sorts calls by whether they are likely to be the cause.
func likelyFirst[T any](all []T, of func(T) *admin.Call) []T {
	rank := func(t T) int {
		if slices.Contains(likely, of(t).GetMethod()) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(rank(a), rank(b)) })
}

// mayBeOf reports whether a call of one of these groups of the API may belong to a volume that is
// not mounted yet.
func (q *inquiry) mayBeOf(c *admin.Call, groups []string) bool {
	group, _, _ := strings.Cut(apiOf(c.GetPipe()), "/")
	return slices.Contains(groups, group) && !undoing(c) && !slices.ContainsFunc(fieldsOf(c.GetTarget()), q.ofAnother)
}

// isPath reports whether a field is a path, and not a volume or a share.
func isPath(f field) bool {
	return strings.ContainsAny(f.value, `\/`) && !volumeName.MatchString(f.value) && f.name != "remote_path"
}

// ofAnother reports whether a field cannot be about a volume that is not mounted: it is a path, a
// mounted volume, or the disk of one.
func (q *inquiry) ofAnother(f field) bool {
	return isPath(f) || slices.ContainsFunc(q.node.Volumes, func(v *admin.Volume) bool {
		return len(v.MountedAt) > 0 && (samePath(f.value, v.Id) || slices.ContainsFunc(v.Disks, func(n uint32) bool { return onDisk(n)(f) }))
	})
}

// onShare reports whether a path is a share, or on it.
func onShare(path, share string) bool {
	p, err := parsePath(path)
	on, isUNC := p.Share()
	of, failed := winpath.ParseShare(share)
	return err == nil && isUNC && failed == nil && on == of
}
