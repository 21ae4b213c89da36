package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v2alpha1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/similar"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func (a *app) whyCommand() *cobra.Command {
	return a.watchable(&cobra.Command{
		Use:   "why PATH|VOLUME|DISK|PIPE|TEXT...",
		Short: "Say what is wrong with a path, volume, disk or pipe, and what to do",
		Long: `Follow a path of the kubelet through links and mount points to its volume, partition
and disk, or to its share, and say in one sentence what is wrong and what to do. It also
takes the ID of a volume, the number of a disk or what identifies it in disk list -o wide
(serial number, page 83h, WWN, EUI-64, NGUID, location; or "azure-lun 3", "namespace 4"),
the name of a pipe, the name or the volume handle of a persistent volume, the UID of a pod, and the text of an
event that kubectl describe prints: it looks for one of them there. It changes nothing.

It uses the pipe of administrators. The exit code is 3 if something is wrong, and 1 if
that is unknown.`,
		Example: `  csi-proxyctl why "C:\var\lib\kubelet\plugins\kubernetes.io\csi\v1\globalmount"
  csi-proxyctl why pvc-8f2c
  csi-proxyctl why 2
  csi-proxyctl why disk/v1`,
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, "")) == "" {
				return &hinted{errors.New("why needs a path, the name of a persistent volume, the number of a disk, the name of a pipe, or the text of an event"),
					"csi-proxyctl why --help has examples; csi-proxyctl doctor looks at the whole node"}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			out, err := a.why(c.Context(), strings.Join(args, " "))
			if err != nil {
				return err
			}
			if err := a.printWhy(out); err != nil {
				return err
			}
			return failureOf(out.Result)
		},
	})
}

// explanation is the result of why.
type explanation struct {
	Result string    `json:"result"` // one of a finding
	Cause  string    `json:"cause"`
	Remedy string    `json:"remedy"`
	Steps  []whyStep `json:"steps"`
}

// whyStep is something on the way from the path to the disk.
type whyStep struct {
	Kind string `json:"kind"` // path, volume, users, disk, call, failed, share, target, pipe or text
	What string `json:"what"`
}

func (a *app) printWhy(e explanation) error {
	if a.output != formatTable {
		return a.printValue(e)
	}
	for _, s := range e.Steps {
		if err := a.line("%-7s  %s", s.Kind, s.What); err != nil {
			return err
		}
	}
	if err := a.line("%-7s  %s", e.Result, e.Cause); err != nil || e.Remedy == "" {
		return err
	}
	return a.line("%-7s  > %s", "", e.Remedy)
}

// inquiry collects an explanation. Its first cause stays, unless a worse one follows.
type inquiry struct {
	a      *app
	text   string // what is asked about
	node   *admin.DescribeResponse
	ids    map[uint32]*diskv1.DiskIDs
	info   map[uint32]*v2alpha1.DiskInfo // what only disk/v2alpha1 knows, once it was asked
	calls  []*admin.Call
	failed []*admin.FailedCall // recently, the last one first
	seen   []*admin.FailedCall // those of failed that are about what is explained
	// unmade is the path at which a pod does not have its volume yet, if the staging path is
	// explained instead.
	unmade string
	busy   bool      // a call is using what is explained
	iscsi  []finding // of doctor, if a disk is a LUN
	// others are the paths of the pod's other volumes.
	others []string
	explanation
}

// step adds a step. A call may name several things that are explained, but is added once.
func (q *inquiry) step(kind, format string, args ...any) {
	if s := (whyStep{kind, fmt.Sprintf(format, args...)}); !slices.Contains(q.Steps, s) {
		q.Steps = append(q.Steps, s)
	}
}

func (q *inquiry) conclude(result, cause, remedy string) {
	if q.Result == "" || worse(result, q.Result) {
		q.Result, q.Cause, q.Remedy = result, cause, remedy
	}
}

func (q *inquiry) blame(cause, remedy string) { q.conclude(resultProblem, cause, remedy) }

// take concludes a trouble, if there is one.
func (q *inquiry) take(t trouble) {
	if t.result != "" {
		q.conclude(t.result, t.cause, t.remedy)
	}
}

// why explains what a text names.
func (a *app) why(ctx context.Context, text string) (explanation, error) {
	q := &inquiry{a: a, text: text, explanation: explanation{Steps: []whyStep{}}}
	s := subjectOf(text)
	if s.kind == aPipe {
		q.pipe(ctx, s.text)
		q.causeInText()
		return q.explanation, nil
	}
	in := &admin.DescribeRequest{}
	switch s.kind {
	case aPath:
		in.Path = s.text
	case aName:
		in.Name = s.text
	}
	err := q.describe(ctx, in)
	if err == nil && s.kind == aPath {
		s.text, err = q.below(ctx, s.text)
	}
	if err == nil && s.kind == aName {
		switch s = q.named(ctx, s.text); {
		case s.kind == aPath && q.node.Way == nil:
			err = q.describe(ctx, &admin.DescribeRequest{Path: s.text})
		case s.kind == aPath:
			s.text, err = q.published(ctx)
		}
	}
	if err != nil {
		if q.notServed(ctx) {
			return q.explanation, nil
		}
		return q.explanation, err
	}
	switch s.kind {
	case aPath:
		q.path(ctx, s.text)
		if q.unmade != "" && !worse(q.Result, resultNote) {
			q.blameFailed(q.checkCalls(q.unmade))
			q.blame(q.unmade+" does not exist, although the volume is staged", "the driver has not published it to the pod: see the driver's log")
		}
		q.otherVolumes(ctx)
	case aVolume:
		q.volumeOnly(ctx, s.text)
	case aDisk:
		q.diskAndVolumes(ctx, s.disk)
	}
	q.blameQuoted()
	q.blameHeld(ctx)
	q.causeInText()
	return q.explanation, nil
}

// causeInText concludes what stands in the text of an event, unless something worse was found.
func (q *inquiry) causeInText() {
	key, result, cause, command := causeIn(q.text)
	if cause == "" {
		return
	}
	q.step("text", "%s", cause)
	for _, c := range q.calls {
		if key == waits && hanging(c) {
			q.step("call", "%s", callText(c))
			if result != resultProblem {
				t := hangTrouble(q.calls, c)
				result, cause, command = resultProblem, "the kubelet or the driver waited in vain, and a call hangs, which may be why: "+t.cause, t.remedy
			}
		}
	}
	if result == resultUnknown && q.Result == resultUnknown {
		q.Cause, q.Remedy = cause+"; and "+q.Cause, command
	}
	q.conclude(result, cause, command)
}

// otherVolumes explains the other volumes of a pod, until one has a problem.
func (q *inquiry) otherVolumes(ctx context.Context) {
	for _, path := range q.others {
		if q.Result == resultProblem {
			q.step("path", "%s belongs to the pod as well, and was not looked at", path)
			continue
		}
		other, err := q.a.why(ctx, strings.TrimSuffix(path, `\mount`))
		if err != nil {
			q.step("path", "%s belongs to the pod as well: %s", path, brief(err))
			continue
		}
		if other.Result == resultOK {
			q.step("path", "%s belongs to the pod as well: %s", path, other.Cause)
			continue
		}
		for _, s := range other.Steps {
			q.step(s.Kind, "%s", s.What)
		}
		q.conclude(other.Result, other.Cause, other.Remedy)
	}
}

func (q *inquiry) describe(ctx context.Context, in *admin.DescribeRequest) error {
	in.Sessions = true
	l := q.a.look(ctx, in)
	if err := cmp.Or(l.nodeErr, l.callsErr, l.failedErr); err != nil {
		return err
	}
	if l.idsErr != nil {
		q.a.note("serial numbers of disks are unknown: %s", brief(l.idsErr))
	}
	q.node, q.ids, q.calls = l.node, l.ids, l.calls
	q.failed = recent(q.node, q.calls, l.failed)
	if in.Name != "" && q.unmade == "" && q.others == nil {
		q.others = q.node.OtherPaths
	}
	if q.iscsi == nil && slices.ContainsFunc(q.node.Disks, func(d *admin.Disk) bool { return d.Bus == "iSCSI" }) {
		q.iscsi = q.a.examineISCSI(ctx, q.node)
	}
	silent := q.node.DisksError
	if len(q.node.Disks) > 0 { // the others are listed
		silent = ""
	}
	if why := cmp.Or(silent, q.node.VolumesError); why != "" {
		q.blame("csi-proxy cannot list the disks and volumes of the node: "+why, devicesHang)
	} else if q.node.DisksError != "" {
		q.step("disk", "a disk is not listed: %s", q.node.DisksError)
	}
	return nil
}

// hangs is the age from which a call in flight explains why something is not done.
const hangs = 10 * time.Second

// checkCalls explains calls in flight whose request has one of these values, such as the ID
// of a volume or a path, and returns those that failed.
func (q *inquiry) checkCalls(values ...string) []*admin.FailedCall {
	return q.checkCallsWith(func(f field) bool {
		return slices.ContainsFunc(values, func(v string) bool { return v != "" && samePath(f.value, v) })
	})
}

// checkCallsOn is checkCalls for calls that name a disk, in any version of the API.
func (q *inquiry) checkCallsOn(disk uint32) []*admin.FailedCall {
	return q.checkCallsWith(onDisk(disk))
}

// onDisk matches the fields of requests that name a disk.
func onDisk(disk uint32) func(field) bool {
	return func(f field) bool { return isDisk(f) && f.value == number(disk) }
}

func isDisk(f field) bool {
	return slices.Contains([]string{"disk_number", "disk_id", "diskID"}, f.name)
}

// samePath reports whether two texts are the same path or volume, in any spelling.
func samePath(a, b string) bool {
	if strings.EqualFold(strings.TrimRight(a, `\/`), strings.TrimRight(b, `\/`)) {
		return true
	}
	p, errA := parsePath(a)
	q, errB := parsePath(b)
	return errA == nil && errB == nil && p.Equal(q)
}

// parsePath parses a path as csi-proxy does in a request.
func parsePath(text string) (winpath.Path, error) {
	return winpath.Parse(strings.ReplaceAll(winpath.WithDrive(text), "/", `\`))
}

func (q *inquiry) checkCallsWith(match func(field) bool) []*admin.FailedCall {
	for _, c := range q.calls {
		if !slices.ContainsFunc(fieldsOf(c.Target), match) {
			continue
		}
		q.busy = true
		q.step("call", "%s", callText(c))
		if hanging(c) {
			q.take(hangTrouble(q.calls, c))
		}
	}
	return q.failures(match)
}

// hangTrouble returns what is wrong with a hanging call.
func hangTrouble(calls []*admin.Call, c *admin.Call) trouble {
	const unfinished = "Windows has not finished it, and it cannot be stopped: csi-proxyctl calls --watch shows whether it ends; if it does not, check the disk, and restart the node"
	switch holder := holderOf(calls, c); {
	case c.WaitsFor == "" && c.Phase == "running":
		return problem(callText(c), unfinished)
	case c.WaitsFor != "" && holder != nil && holder.WaitsFor == "" && hanging(holder):
		return problem(callText(holder)+fmt.Sprintf("; call %d, %s, waits for it", c.Id, c.Method), unfinished)
	default: // it may continue at any time
		return problem(callText(c), "it only waits: csi-proxyctl calls --watch shows whether the calls before it end")
	}
}

func callText(c *admin.Call) string {
	e := callEntry{Phase: c.Phase, Win32: c.Win32, WaitsFor: c.WaitsFor, HeldBy: c.HeldBy}
	return fmt.Sprintf("call %d, %s, has not ended for %v: %s", c.Id, c.Method, time.Duration(c.AgeMilliseconds)*time.Millisecond, e.does())
}

func hanging(c *admin.Call) bool {
	return c.CallerGone || time.Duration(c.AgeMilliseconds)*time.Millisecond >= hangs
}

// field is a field of a request.
type field struct{ name, value string }

// fieldsOf returns the fields in the target of a call, which quotes texts as Go does if
// necessary (docs/run/reference.md, audit log).
func fieldsOf(target string) (all []field) {
	for {
		name, rest, ok := strings.Cut(strings.TrimLeft(target, " "), "=")
		if !ok {
			return all
		}
		value, err := strconv.QuotedPrefix(rest)
		if err == nil {
			_, target, _ = strings.Cut(rest[len(value):], " ") // a long text has the length of what is left out there
			value, err = strconv.Unquote(value)
		}
		if err != nil {
			value, target, _ = strings.Cut(rest, " ")
		}
		all = append(all, field{name, value})
	}
}

// notServed reports whether csi-proxy does not serve its pipes, and then says so.
func (q *inquiry) notServed(ctx context.Context) bool {
	pipes := q.a.probes(ctx)
	if slices.ContainsFunc(pipes, func(p probed) bool { return p.state == served }) {
		return false
	}
	q.examined(examinePipes(pipes, version, nil))
	return q.Result != ""
}

// examined takes the first problem of doctor as the cause, or else what is unknown or a note.
func (q *inquiry) examined(found []finding) {
	for _, f := range found {
		if f.Result != resultOK {
			q.conclude(f.Result, f.What, f.Hint)
		}
	}
}

// named finds what a name stands for: the serial number or identifier of a disk, what the
// kubelet publishes or stages, or a directory on the path of a mount point or of a link to a
// share. A part of a name is not the name: pvc-1 is another volume than pvc-10.
func (q *inquiry) named(ctx context.Context, name string) subject {
	var disks []uint32
	for _, n := range slices.Sorted(maps.Keys(q.ids)) {
		if id := q.ids[n]; name == id.SerialNumber || name == id.Page83 {
			disks = append(disks, n)
		}
	}
	if len(disks) == 0 && q.node.Way == nil && isIdentity(name) {
		for n, d := range q.everything(ctx) {
			if hasIdentity(d, name) {
				disks = append(disks, n)
			}
		}
		slices.Sort(disks)
	}
	switch {
	case len(disks) > 1:
		for _, d := range q.node.Disks {
			if slices.Contains(disks, d.Number) {
				q.disk(d)
				q.checkDisk(d)
			}
		}
		q.conclude(resultUnknown, fmt.Sprintf("disks %s have this identifier", strings.Trim(fmt.Sprint(disks), "[]")), "csi-proxyctl why NUMBER looks at one of them")
		return subject{}
	case len(disks) == 1:
		return subject{kind: aDisk, disk: disks[0]}
	case q.node.Way != nil:
		return subject{kind: aPath, text: q.node.Way.Path}
	}
	at, unlisted := []string{}, q.node.LinksError
	if unlisted == "" {
		at, unlisted = q.places(ctx)
	}
	for _, path := range at {
		if slices.ContainsFunc(strings.Split(path, `\`), func(dir string) bool { return strings.EqualFold(dir, name) }) {
			return subject{kind: aPath, text: path}
		}
	}
	if unlisted != "" {
		q.conclude(resultUnknown, fmt.Sprintf("csi-proxy cannot look for %s everywhere: %s", hosterr.Quote(name), unlisted), devicesHang)
		return subject{}
	}
	q.unknown(name, at)
	return subject{}
}

// places returns the paths of mount points and of links to volumes and shares, and why some may
// be missing, or "".
func (q *inquiry) places(ctx context.Context) (at []string, missing string) {
	for _, v := range q.node.Volumes {
		at = append(at, v.MountedAt...)
	}
	mappings, err := q.a.smbMappings(ctx)
	if err != nil {
		missing = brief(err)
	}
	for _, m := range mappings {
		at = append(at, m.UsedBy...)
	}
	node, err := q.a.describe(ctx, &admin.DescribeRequest{Links: true})
	if err != nil {
		return at, brief(err)
	}
	for _, way := range node.Links {
		at = append(at, way.Path)
	}
	return at, missing
}

// unknown explains a name that nothing has. In the text of an event, it is the name of a volume
// that the kubelet wants. at are paths of volumes that there are.
func (q *inquiry) unknown(name string, at []string) {
	cause := fmt.Sprintf("no volume, pod or disk of this node has the name %s", hosterr.Quote(name))
	if q.ids == nil || q.node.DisksError != "" {
		cause += ", of those that answer"
	}
	remedy := "the volume is not published on this node: see the driver's log; or give its volume handle, a path, a disk number, a volume ID or a pipe"
	if version := newestOf(name); version != "" {
		remedy = fmt.Sprintf("give a pipe by its group and version, such as %s, a disk by its number, and a volume by its ID, its path or the name of the persistent volume", version)
	}
	if question := didYouMeanName(name, at); question != "" {
		cause += " (" + question + ")"
	}
	if strings.TrimSpace(q.text) == name {
		if isSentence(name) {
			cause, remedy = "the text names no path, volume, pod, disk, share or pipe", "give the name of the persistent volume, which kubectl get pvc shows as VOLUME, or a path"
		}
		q.conclude(resultUnknown, cause, remedy)
		return
	}
	q.blameFailed(q.failures(func(field) bool { return false }))
	q.blameUnstaged(resultUnknown, cause, remedy, "smb")
}

// usualDirs are directories of the kubelet that name no volume.
var usualDirs = strings.Fields("var lib kubelet plugins pods volumes kubernetes.io kubernetes.io~csi csi pv mount globalmount")

// didYouMeanName asks whether one of the directories in paths is meant: one whose name has this
// name in it or, if there is none, one with a similar name.
func didYouMeanName(name string, paths []string) string {
	var names, containing []string
	for _, path := range paths {
		for _, dir := range strings.Split(path, `\`)[1:] {
			if dir == "" || slices.Contains(usualDirs, dir) || slices.Contains(names, dir) {
				continue
			}
			names = append(names, dir)
			if strings.Contains(strings.ToLower(dir), strings.ToLower(name)) && len(containing) < 3 {
				containing = append(containing, hosterr.Quote(dir))
			}
		}
	}
	if containing == nil {
		return similar.Question(name, names)
	}
	return "did you mean " + strings.Join(containing, " or ") + "?"
}

// newestOf returns the newest version of an API group, or "".
func newestOf(group string) (version string) {
	for _, svc := range catalog() {
		if svc.group == group {
			version = svc.String()
		}
	}
	return version
}

// published returns the path that was found for a name. If the driver has not made the pod's
// path, it describes and returns the staging path instead: the kubelet has noted the volume
// handle beside the pod's path.
func (q *inquiry) published(ctx context.Context) (string, error) {
	node, path := q.node, q.node.Way.Path
	dir, isMount := strings.CutSuffix(path, `\mount`)
	if !isMount || node.Way.Missing != "mount" {
		return path, nil
	}
	handle := volumeHandle(dir)
	if handle == "" {
		return path, nil
	}
	if err := q.describe(ctx, &admin.DescribeRequest{Name: handle}); err != nil {
		return path, err
	}
	if q.node.Way == nil {
		q.node = node
		return path, nil
	}
	q.unmade = path
	q.step("path", "%s does not exist; the kubelet stages the volume %s for it", path, hosterr.Quote(handle))
	return q.node.Way.Path, nil
}

// The directories that the kubelet has for a pod, for a volume of a pod, and for staging a volume.
var (
	podDir     = regexp.MustCompile(`(?i)\\pods\\([^\\]+)(?:\\volumes(?:\\kubernetes\.io~csi)?)?$`)
	volumeDir  = regexp.MustCompile(`(?i)\\pods\\[^\\]+\\volumes\\kubernetes\.io~csi\\[^\\]+$`)
	stagingDir = regexp.MustCompile(`(?i)\\plugins\\kubernetes\.io\\csi\\[^\\]+\\[^\\]+$`)
)

// below describes the volume for which the kubelet has a directory, and returns where the kubelet
// wants it; for a pod, that is its first volume. It returns any other path unchanged.
func (q *inquiry) below(ctx context.Context, path string) (string, error) {
	node, way := q.node, q.node.Way
	if way == nil || len(way.Hops) > 0 || way.Missing+way.Error+way.Share != "" {
		return path, nil
	}
	in := &admin.DescribeRequest{}
	switch pod := podDir.FindStringSubmatch(way.Location); {
	case volumeDir.MatchString(way.Location):
		in.Path = way.Location + `\mount`
	case stagingDir.MatchString(way.Location):
		in.Path = way.Location + `\globalmount`
	case pod != nil:
		in.Name = pod[1]
	default:
		return path, nil
	}
	if err := q.describe(ctx, in); err != nil {
		return path, err
	}
	if q.node.Way == nil {
		q.node = node
		return path, nil
	}
	return q.published(ctx)
}

// path explains the path that the description of the node followed.
func (q *inquiry) path(ctx context.Context, path string) {
	way := q.node.Way
	volume := ""
	for _, h := range way.Hops {
		q.step("path", "%s is a %s to %s", h.Path, h.Kind, h.Target)
		volume = h.Volume
	}
	if way.Share != "" {
		q.share(ctx, way)
		return
	}
	switch {
	case way.Missing != "":
		q.step("path", `%s exists, %s below it does not`, way.Location, way.Missing)
	case way.Error == "":
		q.step("path", "%s exists", way.Location)
	}
	v := q.volumeAt(cmp.Or(volume, way.Location))
	switch {
	case v != nil:
		q.volume(v)
	case volume != "":
		q.gone(volume, "that is mounted at "+way.Hops[len(way.Hops)-1].Path)
	}
	names := []string{path, strings.TrimRight(way.Location+`\`+way.Missing, `\`)}
	for _, h := range way.Hops { // they exist, so calls that failed to make them no longer matter
		q.checkCalls(h.Path)
		names = slices.DeleteFunc(names, func(name string) bool { return samePath(name, h.Path) })
	}
	failed := q.checkCalls(names...)
	_, t := wayTrouble(q.node, way, func() []*admin.Way { return q.links(ctx) })
	wanted := strings.TrimRight(way.Location+`\`+way.Missing, `\`)
	target := strings.HasSuffix(strings.ToLower(wanted), "mount") // the kubelet stages or publishes a volume there
	switch {
	case t.result == resultProblem && (len(way.Hops) == 0 || way.Error+way.Missing != "" || !target):
		q.take(t)
	case t.result != "":
		q.blameFailed(failed)
		groups := map[bool][]string{true: {"smb"}}[way.Missing != ""]
		if !target {
			q.blame(t.cause, t.remedy)
		}
		q.blameUnstaged(resultProblem, t.cause, t.remedy, groups...)
	case !q.allowed(path):
		q.blame(fmt.Sprintf("%s is not within the working directories [%s]", path, strings.Join(q.node.WorkingDirs, " ")),
			"if drivers should use it, start csi-proxy with -working-dir=DIRECTORY, or with -kubelet-path=DIRECTORY if it is the kubelet's")
	}
	q.conclude(resultOK, "nothing wrong was found on the way from the path to the disk", "")
}

// links returns the paths of volumes of the node, or nil if they are not known.
func (q *inquiry) links(ctx context.Context) []*admin.Way {
	node, err := q.a.describe(ctx, &admin.DescribeRequest{Links: true})
	if err != nil {
		q.step("users", "which pods link to it is unknown: %s", brief(err))
	}
	return node.GetLinks()
}

// allowed reports whether the text of a path is within a working directory.
func (q *inquiry) allowed(path string) bool {
	p, err := winpath.Parse(path)
	dirs, failed := winpath.ParseList(q.node.WorkingDirs)
	return err != nil || failed != nil || len(dirs) == 0 || slices.ContainsFunc(dirs, p.Within)
}

// share explains the end of a path on a share.
func (q *inquiry) share(ctx context.Context, way *admin.Way) {
	remedy := mapAgain(way.Share)
	switch _, t := wayTrouble(q.node, way, nil); {
	case way.ShareStatus == "ok":
		q.step("share", "%s is mapped, and Windows reports that the mapping works", way.Share)
	case way.ShareStatus != "":
		q.step("share", "%s is mapped, status: %s", way.Share, way.ShareStatus)
	default:
		if way.Error == "" {
			q.step("share", "%s is not mapped", way.Share)
			q.blameFailed(q.checkCallsWith(func(f field) bool { return onShare(f.value, way.Share) }))
		}
		q.blame(t.cause, t.remedy)
		return
	}
	link := ""
	if len(way.Hops) > 0 {
		link = way.Hops[len(way.Hops)-1].Path
	} else {
		q.users(ctx, way.Share)
	}
	contacted := link != "" && q.allowed(link)
	exists := false
	var err error
	if contacted {
		exists, err = q.a.linkLeads(ctx, link)
	}
	switch {
	case err != nil:
		q.step("share", "it cannot be opened: %s", brief(err))
	case contacted && !exists:
		q.step("share", "Windows does not find it")
	}
	switch {
	case slices.Contains(refusals, reasonOf(err)):
		q.blame(fmt.Sprintf("the server of %s refuses the user of the mapping: its password was changed, or Windows has lost it", way.Share),
			"write the password that the server has now into the volume's secret, and delete the pod, so that the driver maps the share again")
	case way.ShareStatus != "ok" && !exists:
		q.blame(fmt.Sprintf("the SMB mapping of %s is %s", way.Share, way.ShareStatus), remedy)
	case err != nil:
		q.blame(fmt.Sprintf("%s cannot be opened: %s", way.Share, brief(err)), remedy)
	case contacted && !exists:
		q.blame(fmt.Sprintf("%s leads to %s, which does not exist there", link, way.Hops[len(way.Hops)-1].Target), "check the source of the persistent volume, and whether the server still has that directory")
	case contacted:
		q.conclude(resultOK, "nothing wrong was found on the way from the path to the share, which answers", "")
	default:
		q.conclude(resultNote, "nothing wrong was found on the way from the path to the share, but the share was not contacted", "csi-proxyctl why with a link to it asks the server")
	}
}

// users explains what uses a mapping.
func (q *inquiry) users(ctx context.Context, share string) {
	mappings, err := q.a.smbMappings(ctx)
	if err != nil {
		q.step("users", "unknown: %s", brief(err))
	}
	for _, m := range mappings {
		if !winpath.SameShare(m.Remote, share) {
			continue
		}
		q.step("users", "mapped for user %s, with %s", cmp.Or(printable(m.User), "unknown"), plural(len(m.UsedBy), "1 link of a CSI volume", "%d links of CSI volumes"))
		for _, link := range m.UsedBy {
			q.step("users", "%s", link)
		}
		q.examined(examineSMB([]smbMapping{m}))
	}
}

// refusals are the names of the errors of a server that refuses a user.
var refusals = []string{"ERROR_LOGON_FAILURE", "ERROR_INVALID_PASSWORD", "ERROR_PASSWORD_EXPIRED", "ERROR_PASSWORD_MUST_CHANGE", "ERROR_ACCOUNT_DISABLED",
	"ERROR_ACCOUNT_LOCKED_OUT", "ERROR_ACCOUNT_RESTRICTION"}

// reasonOf returns the name of the Windows error in a response, or "".
func reasonOf(err error) string {
	if s := statusIn(err); s != nil {
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				return info.Reason
			}
		}
	}
	return ""
}

// linkLeads checks whether the target of a link exists. It contacts the server of a share.
func (a *app) linkLeads(ctx context.Context, path string) (exists bool, err error) {
	ctx, cancel := a.withShortLimit(ctx, openLimit)
	defer cancel()
	err = onAPI(ctx, a, "filesystem/v1", filesystemv1.NewFilesystemClient, "IsSymlink", func(ctx context.Context, c filesystemv1.FilesystemClient) error {
		out, err := c.IsSymlink(ctx, &filesystemv1.IsSymlinkRequest{Path: path})
		exists = out.GetIsSymlink()
		return err
	})
	return exists, err
}

// openLimit is the time limit for a server to answer, unless --timeout is given. Windows itself
// waits longer.
const openLimit = 30 * time.Second

// gone explains a volume that the node does not have.
func (q *inquiry) gone(volume, which string) {
	q.step("volume", "%s does not exist on this node", volume)
	for _, d := range q.node.Disks {
		if !d.Online && d.Error == "" {
			q.disk(d)
		}
	}
	q.take(goneTrouble(q.node, which))
}

// volumeAt returns the volume with an ID, or the volume that a path without links is on.
func (q *inquiry) volumeAt(path string) *admin.Volume {
	for _, v := range q.node.Volumes {
		if len(path) >= len(v.Id) && strings.EqualFold(path[:len(v.Id)], v.Id) {
			return v
		}
		for _, m := range v.MountedAt {
			if len(m) == len(`C:\`) && strings.HasPrefix(strings.ToLower(path), strings.ToLower(m)) {
				return v
			}
		}
	}
	return nil
}

func (q *inquiry) volumeOnly(ctx context.Context, id string) {
	v := q.volumeAt(id)
	if v == nil {
		q.gone(id, hosterr.Quote(id))
		return
	}
	q.volume(v)
	if len(v.MountedAt) == 0 {
		q.conclude(resultNote, "nothing is wrong with the volume, and it is mounted nowhere", "a driver mounts it when a pod needs it")
	}
	q.conclude(resultOK, "nothing wrong was found with the volume and its disk", "")
}

// volume explains a volume and its disks. A problem of a disk explains a problem of the volume.
func (q *inquiry) volume(v *admin.Volume) {
	q.step("volume", "%s", q.volumeText(v))
	q.step("users", "unknown: csi-proxy does not ask Windows which processes use a volume")
	var failed []*admin.FailedCall
	for _, n := range v.Disks {
		listed := false
		for _, d := range q.node.Disks {
			if d.Number == n {
				listed = true
				q.disk(d)
				q.checkDisk(d)
			}
		}
		if !listed {
			q.notListed(n)
		}
		failed = append(failed, q.checkCallsOn(n)...)
	}
	q.checkVolume(v, append(failed, q.checkCalls(v.Id)...))
}

// checkVolume explains a volume. Failed calls explain why it is not in use yet. If it has no
// file system, a driver may not have formatted it yet.
func (q *inquiry) checkVolume(v *admin.Volume, failed []*admin.FailedCall) {
	answers, unmounted := v.Error == "" && !v.Offline, len(v.MountedAt) == 0
	if answers && (unmounted || v.FileSystem == "") {
		q.blameFailed(failed)
	}
	t := volumeTrouble(q.node, v)
	if t.result == "" {
		for _, t := range volumeNotes(q.node, v) {
			q.take(t)
		}
	}
	if t.result != "" && answers && unmounted && v.FileSystem == "" {
		t.result = resultNote
	}
	q.take(t)
}

// volumeTrouble returns what is wrong with a volume.
func volumeTrouble(node *admin.DescribeResponse, v *admin.Volume) trouble {
	standing := volumeStanding(node, v)
	switch {
	case v.Error != "" && allSilent(node):
		return problem(fmt.Sprintf("none of the %d volumes of the node answers: %s", len(node.Volumes), v.Error), devicesHang)
	case v.Error != "" && !v.Offline:
		return problem(fmt.Sprintf("the volume %s does not answer: %s", v.Id, v.Error),
			standing.remedy("look for errors of disks in the System event log, and for calls that hang with csi-proxyctl calls", "detach and attach its disk, and run chkdsk on the volume"))
	case v.Offline:
		disk := "NUMBER"
		if len(v.Disks) > 0 {
			disk = number(v.Disks[0])
		}
		return problem(fmt.Sprintf("the volume %s is offline, because the node does not mount new volumes automatically", v.Id),
			"csi-proxyctl call volume/v1 ListVolumesOnDisk disk_number="+disk+" brings it online")
	case v.FileSystem == "":
		return problem(fmt.Sprintf("the volume %s has no file system that Windows recognizes: it was not formatted, or is damaged, or is of another system", v.Id),
			standing.remedy("check that the right disk is attached", fmt.Sprintf("if nothing on it is needed: csi-proxyctl call volume/v1 FormatVolume 'volume_id=%s', which refuses to overwrite content", v.Id)))
	case v.SizeBytes > 0 && v.FreeBytes < v.SizeBytes/100:
		return problem(fmt.Sprintf("the volume %s is full: %s of %s are free", v.Id, bytesText(v.FreeBytes), bytesText(v.SizeBytes)), "expand the persistent volume claim, or remove files")
	}
	return trouble{}
}

func (q *inquiry) volumeText(v *admin.Volume) string {
	text := v.Id + ": "
	switch {
	case v.Error != "":
		text += "does not answer"
	case v.Offline:
		text += "offline"
	case v.FileSystem == "":
		text += "no file system"
	default:
		text += fmt.Sprintf("%s, %s, %s used", v.FileSystem, bytesText(v.SizeBytes), percent(int64(v.SizeBytes-v.FreeBytes), int64(v.SizeBytes)))
	}
	for i, n := range v.Disks {
		text += fmt.Sprintf(", on disk %d", n)
		for _, d := range q.node.Disks {
			for _, p := range d.Partitions {
				if i == 0 && d.Number == n && p.OffsetBytes <= v.OffsetBytes && v.OffsetBytes < p.OffsetBytes+p.LengthBytes {
					text += fmt.Sprintf(" partition %d", p.Number)
				}
			}
		}
	}
	switch {
	case len(v.MountedAt) == 0 && v.Error != "": // it may be mounted
		return text
	case len(v.MountedAt) == 0:
		return text + ", mounted nowhere"
	}
	return text + ", mounted at " + strings.Join(v.MountedAt, " and ")
}

// everything returns what disk/v2alpha1 knows about the disks.
func (q *inquiry) everything(ctx context.Context) map[uint32]*v2alpha1.DiskInfo {
	if q.info == nil {
		all, err := q.a.identities(ctx)
		if err != nil {
			q.a.note("%s: %s", onlyInV2, brief(err))
		}
		if q.info = all; all == nil {
			q.info = map[uint32]*v2alpha1.DiskInfo{}
		}
	}
	return q.info
}

// disk shows a disk and, if it is of an iSCSI target, the target.
func (q *inquiry) disk(d *admin.Disk) {
	q.step("disk", "%s", q.diskText(d))
	for _, s := range q.node.Sessions {
		if slices.Contains(s.Disks, d.Number) {
			q.step("target", "disk %d is a LUN of iSCSI target %s (portal %s)", d.Number, printable(s.Target), printable(cmp.Or(strings.Join(s.Portals, ", "), "unknown")))
		}
	}
}

func (q *inquiry) diskText(d *admin.Disk) string {
	text := fmt.Sprintf("disk %d", d.Number)
	if id := q.ids[d.Number]; id != nil {
		if known := cmp.Or(id.SerialNumber, id.Page83); known != "" {
			text += " (" + printable(known) + ")"
		}
	}
	if d.Error != "" {
		return text + ": does not answer"
	}
	text += fmt.Sprintf(": %s, %s, %s", bytesText(d.SizeBytes), d.Bus, d.Style)
	if d.Online {
		text += ", online"
	} else {
		text += ", offline"
	}
	if d.ReadOnly || d.WriteProtected {
		return text + ", read-only"
	}
	return text + ", writable"
}

func (q *inquiry) checkDisk(d *admin.Disk) {
	q.take(diskTrouble(q.node, d, fmt.Sprintf("disk %d", d.Number)))
	q.take(twinTrouble(q.node, d, q.serials()))
	if d.Bus == "iSCSI" {
		q.examined(q.iscsi)
		if !slices.ContainsFunc(q.node.Sessions, func(s *admin.Session) bool { return slices.Contains(s.Disks, d.Number) }) {
			q.examined(examineSessions(q.node))
		}
	}
}

// serials returns the serial numbers of the disks.
func (q *inquiry) serials() map[uint32]string {
	all := map[uint32]string{}
	for n, id := range q.ids {
		all[n] = id.GetSerialNumber()
	}
	return all
}

// diskTrouble returns what is wrong with a disk. The cause calls the disk name.
func diskTrouble(node *admin.DescribeResponse, d *admin.Disk, name string) trouble {
	switch {
	case d.Error != "":
		return problem(name+" does not answer: "+d.Error, diskStanding(node, d).remedy("check how it is attached, and look for its errors in the System event log", "detach it if it is broken"))
	case !d.Online:
		why := whyOffline(d, node.Disks)
		return problem(name+" is offline: "+why.reason+why.more, why.remedy)
	case d.ReadOnly:
		return problem(name+" is read-only: Windows has set its attribute", fmt.Sprintf("run on the node: Set-Disk -Number %d -IsReadOnly $false", d.Number))
	case d.WriteProtected:
		return problem(name+" refuses writes: the device is write-protected, or another machine uses it", "check how it is attached, and whether another node still has it")
	}
	return trouble{}
}

// notListed explains a disk that Describe does not list.
func (q *inquiry) notListed(disk uint32) {
	if q.node.DisksError != "" {
		q.blame(fmt.Sprintf("disk %d is not listed; it may be the one that does not answer: %s", disk, q.node.DisksError), devicesHang)
		return
	}
	q.blame(fmt.Sprintf("the node has no disk %d", disk), "attach it, and run: csi-proxyctl call disk/v1 Rescan; csi-proxyctl disk list shows the disks that there are")
}

// diskAndVolumes explains a disk with its volumes.
func (q *inquiry) diskAndVolumes(ctx context.Context, n uint32) {
	at := slices.IndexFunc(q.node.Disks, func(d *admin.Disk) bool { return d.Number == n })
	if at < 0 {
		q.notListed(n)
		return
	}
	d := q.node.Disks[at]
	q.disk(d)
	if d.Error == "" && q.node.DisksError == "" { // a disk that does not answer would be waited for again
		if text := identityText(q.everything(ctx)[n]); text != "" {
			q.step("disk", "disk %d has %s", n, text)
		}
	}
	failed := q.checkCallsOn(n)
	used := false
	offline := false
	var on, silent []*admin.Volume
	failedOn := map[*admin.Volume][]*admin.FailedCall{}
	for _, v := range q.node.Volumes {
		if mayBeOn(v, d) {
			q.step("volume", "%s, and may be on this disk", q.volumeText(v))
			used = true
			if silentVolume(v) {
				silent = append(silent, v)
			} else {
				offline = true
			}
		} else if silentVolume(v) { // a look at the disk asks all volumes
			q.step("disk", "its content was not looked at, because the volume %s does not answer", v.Id)
			used = true
		}
		if slices.Contains(v.Disks, n) {
			q.step("volume", "%s", q.volumeText(v))
			failedOn[v] = slices.Concat(failed, q.checkCalls(v.Id))
			on = append(on, v)
			used = used || mayBeMounted(v) || v.FileSystem != ""
		}
	}
	switch {
	case !d.Online || d.Error != "" || used:
	case q.busy: // it would wait for the call
		q.step("disk", "its content was not looked at, because a call works on it")
	default:
		q.content(ctx, d, len(on) > 0)
	}
	q.checkDisk(d)
	for _, v := range on {
		q.checkVolume(v, failedOn[v])
	}
	if offline && len(on) == 0 {
		q.conclude(resultNote, fmt.Sprintf("a volume is offline, because the node does not mount new volumes automatically, and it may be on disk %d", n),
			fmt.Sprintf("csi-proxyctl call volume/v1 ListVolumesOnDisk disk_number=%d brings the volumes of the disk online", n))
	}
	if len(on) == 0 && len(silent) > 0 {
		q.blame(fmt.Sprintf("a volume does not answer, and may be on disk %d: %s", n, silent[0].Error), devicesHang)
	}
	if len(on) == 0 {
		q.blameFailed(failed)
		q.conclude(resultNote, fmt.Sprintf("nothing is wrong with disk %d, and it has no volume", n), "a driver partitions and formats it when a pod needs it")
	}
	q.conclude(resultOK, "nothing wrong was found with the disk and its volumes", "")
}

// content explains a disk without a file system that Windows knows: it may have content of
// another system, which csi-proxy does not overwrite.
func (q *inquiry) content(ctx context.Context, d *admin.Disk, hasVolumes bool) {
	found, t := q.a.contentTrouble(ctx, d, hasVolumes, fmt.Sprintf("disk %d", d.Number))
	for _, f := range found.GetFound() {
		q.step("disk", "at byte %d: %s, %s", f.OffsetBytes, f.What, bytesText(f.LengthBytes))
	}
	q.take(t)
}

// contentTrouble looks at the content of a disk, and returns it with what is wrong about it. The
// cause calls the disk name.
func (a *app) contentTrouble(ctx context.Context, d *admin.Disk, hasVolumes bool, name string) (*admin.DiskContent, trouble) {
	found, err := a.inspectDisk(ctx, &admin.InspectDiskRequest{DiskNumber: d.Number})
	if err != nil {
		return nil, trouble{resultUnknown, fmt.Sprintf("the content of %s is not known: %s", name, brief(err)), "csi-proxyctl calls --failed -o json shows which calls of Windows failed"}
	}
	return found, foreignTrouble(d, hasVolumes, found, name)
}

// What csi-proxy calls content that has no name of its own.
const (
	bootSector     = "boot sector or MBR partition table"
	unknownContent = "unknown content"
	emptyTable     = "partition table without partitions"
)

// foreignTrouble says that a disk has content of another system. The cause calls the disk name. A partition table that Windows knows is not such content, nor is what a
// format may have left in the volume of a partition: FormatVolume knows whether it may continue
// there.
func foreignTrouble(d *admin.Disk, hasVolumes bool, found *admin.DiskContent, name string) trouble {
	ofWindows := []string{"NTFS", "ReFS", "exFAT", "FAT", bootSector, unknownContent}
	tables := []string{"GPT partition table", bootSector, emptyTable}
	var foreign []string
	for _, f := range found.Found {
		partition, isPartition := strings.CutPrefix(f.What, "partition ")
		_, kind, _ := strings.Cut(partition, ", ")
		switch {
		case isPartition && (kind == "" || hasVolumes && slices.Contains(ofWindows, kind)):
		case isPartition:
			foreign = append(foreign, kind)
		case d.Style == "RAW" || !hasVolumes && !slices.Contains(tables, f.What):
			foreign = append(foreign, f.What)
		}
	}
	if foreign == nil {
		return trouble{}
	}
	return problem(fmt.Sprintf("%s has content that is not a Windows volume (%s), which csi-proxy does not overwrite", name, strings.Join(foreign, ", ")),
		fmt.Sprintf("check that the right disk is attached; if its data is not needed: csi-proxyctl disk clear %d --serial %s", d.Number, quoted(cmp.Or(found.Serial, found.Page83, "SERIAL"))))
}

// pipe explains a pipe by the name of its file.
func (q *inquiry) pipe(ctx context.Context, name string) {
	if name == admin.Pipe {
		q.adminPipe(ctx)
		return
	}
	group, v, _ := strings.Cut(strings.TrimPrefix(name, "csi-proxy-"), "-")
	svc, err := findAPI(group + "/" + v)
	if q.notServed(ctx) {
		return
	}
	if err != nil {
		hint := ""
		if h := (*hinted)(nil); errors.As(err, &h) {
			hint = h.hint
		}
		q.blame("csi-proxy has no pipe "+name+": "+err.Error(), cmp.Or(hint, "csi-proxyctl versions lists the versions that are served")+"; a driver that needs it wants another csi-proxy")
		return
	}
	p := q.a.probe(ctx, svc)
	switch p.state {
	case served:
		q.step("pipe", "%s is served by %s", shownPath(name), cmp.Or(p.server, "a csi-proxy of unknown version"))
		if calls, err := q.a.othersInFlight(ctx); err == nil {
			q.examined(examineCalls(slices.DeleteFunc(calls, func(c *admin.Call) bool { return c.Pipe != name })))
			failed, _ := q.a.lastFailed(ctx)
			failed = slices.DeleteFunc(failed, func(f *admin.FailedCall) bool { return f.Call.GetPipe() != name })
			q.examined(examineFailed(recent(&admin.DescribeResponse{VolumesError: "not asked"}, calls, failed), nil))
		}
		q.conclude(resultOK, svc.String()+" is served on this node",
			"if a pod cannot open the pipe: it must mount it, and be restarted if it was started before csi-proxy")
	case absent:
		var servedAt []string
		all := q.a.probes(ctx)
		if leftOut(all, svc) {
			q.conclude(resultNote, "csi-proxy does not serve "+svc.String()+": -enable-api leaves it out", "add it to -enable-api if a driver needs it")
			return
		}
		for _, other := range all {
			if other.state == served {
				servedAt = append(servedAt, other.pipe())
			}
		}
		q.blame("csi-proxy runs, but does not serve "+svc.String(),
			ownersHint(ownersOf(servedAt, pipes.ServerOf), "-enable-api may leave it out; the log of csi-proxy contains the reason; csi-proxyctl versions lists what is served"))
	default:
		q.examined(examinePipes([]probed{p}, version, nil))
	}
}

// shownPath returns the path of a pipe as people write it, or off Windows the path of its socket.
func shownPath(name string) string {
	if runtime.GOOS != "windows" {
		if socket, err := pipe.SocketPath(pipe.Path(name)); err == nil {
			return socket
		}
	}
	return `\\.\pipe\` + name
}

// adminPipe explains the pipe of administrators.
func (q *inquiry) adminPipe(ctx context.Context) {
	if q.notServed(ctx) {
		return
	}
	if _, err := q.a.inFlight(ctx); err != nil {
		text, hint := explain(err)
		q.blame("the pipe of administrators does not answer: "+text, hint)
		return
	}
	q.step("pipe", "%s answers", shownPath(admin.Pipe))
	q.conclude(resultOK, "the pipe of administrators is served on this node", "")
}
