package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

// event is a change of the node before one of a request's calls.
type event struct {
	name   string
	happen func(me, other *caller)
	// undo undoes the change, after which the same request must succeed. It is nil
	// if the change is not undone.
	undo func(me *caller)
	ops  []op
	// kinds are the errors that the request may return besides success. special
	// replaces them for single operations.
	kinds   []error
	special map[string][]error
	// check checks the node afterwards.
	check func(me *caller)
}

var (
	missing  = hosterr.ErrNotFound
	refused  = hosterr.ErrFailedPrecondition
	later    = hosterr.ErrUnavailable
	denied   = hosterr.ErrPermissionDenied
	occupied = hosterr.ErrAlreadyExists
)

// also adds an operation to special.
func also(special map[string][]error, op string, kinds ...error) map[string][]error {
	special[op] = kinds
	return special
}

// TestChangeAtEveryCall makes each event happen before each call of each operation.
func TestChangeAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	var points atomic.Int64
	t.Run("events", func(t *testing.T) {
		for _, e := range events() {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				for _, o := range e.ops {
					calls := e.before(t, o, math.MaxUint32)
					for i := range calls {
						if i > 0 && sameRead(calls[i-1], calls[i]) && !worlds.Every() {
							continue
						}
						if t.Failed() || e.before(t, o, uint32(i)) == nil {
							break
						}
						points.Add(1)
					}
				}
			})
		}
	})
	n := points.Load()
	t.Attr("measured", fmt.Sprintf("%d points at which one of %d changes happened during a request", n, len(events())))
	if n < 4500 && !t.Failed() {
		t.Errorf("%d points, want at least 4500", n)
	}
}

// sameRead reports whether a call reads where the one before it did. Between the reads of one
// look at a disk the program does nothing else, so a change there counts once, except in the
// worlds of make soak.
func sameRead(before, c simnode.Call) bool {
	return c.Name == winapi.ReadAt && before.Name == winapi.ReadAt && before.Path == c.Path
}

// before makes the event happen before a call of the operation, after skip other calls. It
// returns the calls before the event; if there were not so many, and it did not happen, that is
// all of them for the largest skip, and nil for others.
func (e event) before(t *testing.T, o op, skip uint32) (calls []simnode.Call) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnode.New(t, config)
		me, other := newCaller(t, n), newCaller(t, n)
		o.setup(me)
		other.id = me.id
		var call string
		rec := n.Record()
		happened := func() []simnode.Call {
			rec.Stop()
			return slices.DeleteFunc(rec.Calls(), func(c simnode.Call) bool { return c.Name == winapi.CloseHandle })
		}
		fault, err := n.Fail(simnode.Fault{Call: winapi.AnyCall, Skip: skip, Times: 1, Do: func() {
			calls = append([]simnode.Call{}, happened()...)
			call = "after " + last(calls)
			e.happen(me, other)
		}})
		me.must(err)
		err = o.do(me)
		if fault.Hits() == 0 {
			if me.must(err); skip == math.MaxUint32 {
				calls = happened()
			}
			return
		}
		kinds := e.kinds
		if special, ok := e.special[o.name]; ok {
			kinds = special
		}
		placed(t, err)
		if !among(err, kinds) {
			t.Errorf("%s, %s: %s = %v, want success or one of %q", e.name, call, o.name, err, kinds)
		}
		if e.check != nil {
			e.check(me)
		}
		if o.once && err == nil {
			return
		}
		if e.undo != nil {
			e.undo(me)
			kinds = o.left
		}
		if err := o.do(me); !among(err, kinds) {
			t.Errorf("%s, %s: %s again = %v, want success or one of %q", e.name, call, o.name, err, kinds)
		}
	})
	return calls
}

// placed checks that the log names the place of an error as where the operation failed, and not
// as the function that gives the errors of Windows their kinds.
func placed(t *testing.T, err error) {
	t.Helper()
	pc := hosterr.SourceOf(err)
	if pc == 0 {
		return
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if strings.Contains(f.File, "/internal/node/") || strings.Contains(f.File, "/internal/service/") || strings.HasSuffix(f.Function, "/winfs.run") {
		t.Errorf("%s:%d is the place of %v", f.File, f.Line, err)
	}
}

func among(err error, kinds []error) bool {
	return err == nil || slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// last describes the last of calls.
func last(calls []simnode.Call) string {
	if len(calls) == 0 {
		return "no call"
	}
	return fmt.Sprintf("call %d, %s", len(calls), calls[len(calls)-1])
}

func config(c *simnode.Config) {
	c.Disks = []simnode.Disk{{Content: "system", Size: gib}}
	c.Directories = []string{kubelet}
	c.Services = []simnode.Service{{Name: "MSiSCSI", StartType: "auto"},
		{Name: "Base", StartDelay: simnode.Duration(time.Second)}, {Name: "Top", DependsOn: []string{"Base"}, StartDelay: simnode.Duration(time.Second)}}
	c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	c.Windows = worlds.Chosen()
	// One change at one moment is what the events are.
	c.Attach, c.NewDisks, c.NewVolumes, c.DiskNumbers = "seen", "free", "atOnce", "kept"
}

// newCaller returns a program whose requests time out after an hour.
func newCaller(t *testing.T, n *simnode.Node) *caller {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	c := &caller{T: t, ctx: ctx, n: n}
	c.restart()
	return c
}

// restart replaces the program by a new process without state.
func (c *caller) restart() {
	var err error
	c.Process, err = c.n.NewProcess(rules.Rules{WorkingDirs: []string{kubelet}})
	c.must(err)
}

// replacement is a disk with a volume that no request names. It is online, because a
// change of an offline disk could not be seen.
var replacement = simnode.Disk{ID: "replacement", Size: gib, Content: "gpt", Partitions: []simnode.Partition{{Size: 300 << 20, FileSystem: "NTFS"}},
	Offline: new(bool), ReadOnly: new(bool)}

// untouched checks that the replacement disk was not changed.
func untouched(c *caller) {
	c.Helper()
	state, err := c.n.Show()
	c.must(err)
	for _, d := range state.Disks {
		if d.ID == replacement.ID && (d.Style != "GPT" || !d.Online || d.ReadOnly) {
			c.Errorf("the replacement disk was changed to %+v", d)
		}
	}
	found := false
	for _, v := range state.Volumes {
		if v.Size == replacement.Partitions[0].Size {
			found = true
			if v.FileSystem != "NTFS" || len(v.MountedAt) != 0 {
				c.Errorf("the volume of the replacement disk was changed to %+v", v)
			}
		}
	}
	if !found {
		c.Errorf("the volume of the replacement disk is not among %+v", state.Volumes)
	}
}

// half adds an error for requests that stop half-done when the volume disappears.
func half(kinds ...error) map[string][]error {
	return map[string][]error{"Rmdir within": append(kinds, later), "RmdirContents within": append(kinds, later), "CreateSymlink within": append(kinds, later)}
}

func events() []event {
	back := func(me *caller) { me.must(ignore(me.n.AttachDisk(simnode.Disk{ID: "data"}))) }
	// A link to a directory differs from a link to a missing path.
	moved := []error{missing, occupied}
	return []event{
		{name: "disk is removed", ops: diskOps, kinds: []error{missing}, special: half(missing), undo: back,
			happen: func(me, _ *caller) { me.must(me.n.DetachDisk(1)) }},
		{name: "another disk gets the number", kinds: []error{missing, later, refused}, check: untouched,
			ops: named(diskOps, "PartitionDisk", "FormatVolume", "ResizeVolume", "MountVolume", "UnmountVolume", "GetVolumeStats", "IsVolumeFormatted", "WriteVolumeCache"),
			happen: func(me, _ *caller) {
				me.must(me.n.DetachDisk(1), ignore(me.n.AttachDisk(replacement)))
			}},
		{name: "disk is taken offline", kinds: []error{missing, refused},
			// Windows refuses to read an offline disk, and PartitionDisk takes it online when it is called again.
			special: also(also(also(half(missing, refused), "PartitionDisk", missing, refused, later), "FormatVolume", missing, refused, later), "ResizeVolume", missing, refused, later),
			ops:     named(diskOps, "PartitionDisk", "SetDiskState online", "FormatVolume", "ResizeVolume", "MountVolume", "Mkdir within", "Rmdir within"),
			happen:  func(_, other *caller) { other.online(false) },
			undo:    func(me *caller) { me.must(me.online(true)) }},
		{name: "another program partitions", ops: named(diskOps, "PartitionDisk"), happen: func(_, other *caller) { other.partition() }},
		{name: "another program formats", ops: named(diskOps, "FormatVolume", "IsVolumeFormatted of an unformatted volume"), happen: func(_, other *caller) { other.format() }},
		{name: "another program unmounts", ops: pathOps, kinds: []error{missing}, happen: func(_, other *caller) { other.unmount() },
			special: map[string][]error{"GetVolumeIDFromTargetPath": {refused}, "GetVolumeIDFromTargetPath of a link": {refused}, "CreateSymlink within": moved, "CreateSymlink to within": moved, "MountVolume": {missing, later}}},

		{name: "parent directory is removed", ops: treeOps, kinds: []error{missing},
			happen: func(_, other *caller) { other.unmount(); other.rmdir(kubelet+`\plugins`, true) },
			// MountVolume holds the parent, so the directory is only unmounted.
			special: map[string][]error{"CreateSymlink": moved, "CreateSymlink again": moved, "MountVolume": {missing, later}}},
		{name: "directory is removed", ops: treeOps, kinds: []error{missing},
			happen:  func(_, other *caller) { other.unmount(); other.rmdir(dir+`\a`, true); other.rmdir(at, true) },
			special: map[string][]error{"CreateSymlink": moved, "CreateSymlink again": moved}},
		{name: "content of the directory is removed", ops: treeOps, kinds: []error{missing},
			happen: func(_, other *caller) {
				other.rmdir(dir+`\a\c\d`, true)
				other.rmdir(dir+`\a\file`, true)
				other.rmdir(dir+`\link`, true)
			}},
		{name: "directory becomes a file", ops: treeOps, kinds: []error{missing, refused, occupied},
			happen: func(_, other *caller) { other.rmdir(dir+`\a`, true); other.n.MakeFile(dir + `\a`) }},
		{name: "directory becomes a link to Windows", ops: treeOps, kinds: []error{missing, refused, denied, occupied},
			happen: func(me, other *caller) {
				other.rmdir(dir+`\a`, true)
				free, err := me.n.NewProcess(rules.Rules{})
				me.must(err)
				(&caller{T: me.T, ctx: me.ctx, n: me.n, Process: free}).link(`C:\Windows`, dir+`\a`)
			}},
		{name: "another program makes the same paths", ops: treeOps, kinds: []error{refused},
			happen: func(_, other *caller) {
				other.mkdir(dir + `\a\b\c`)
				other.link(dir+`\a\b`, dir+`\a\l`)
				other.mount()
			}},

		{name: "server goes down", ops: shareOps, kinds: []error{later},
			happen: func(me, _ *caller) { me.must(me.n.SetSMBServerDown(server, true)) },
			undo:   func(me *caller) { me.must(me.n.SetSMBServerDown(server, false)) }},
		{name: "share is removed", ops: shareOps, kinds: []error{missing},
			happen: func(me, _ *caller) { me.must(me.n.RemoveSMBShare(server, "data")) }},
		{name: "mapping breaks", ops: shareOps, kinds: []error{denied, later},
			happen: func(me, _ *caller) { me.n.SetSMBMappingStatus(share, "disconnected") }},
		{name: "another program removes the link and the mapping", ops: shareOps, kinds: []error{missing, denied},
			happen: func(_, other *caller) { other.rmdir(staged, true); other.unmap() }},
		{name: "directory of the link is removed", ops: shareOps, kinds: []error{missing},
			happen: func(_, other *caller) { other.rmdir(staging, true) }},
		{name: "another program maps the share", ops: shareOps, happen: func(_, other *caller) { other.mapShare(staged) }},

		{name: "target is removed", ops: targetOps, kinds: []error{missing, later},
			happen: func(me, _ *caller) { me.must(me.n.RemoveISCSITarget(target)) }},
		{name: "another program logs out", ops: targetOps, happen: func(_, other *caller) { other.disconnect() }},
		{name: "another program logs in", ops: targetOps, happen: func(_, other *caller) { other.addPortal(); other.connect() }},
		{name: "another program removes the portal", ops: targetOps, kinds: []error{missing}, happen: func(_, other *caller) { other.removePortal() }},
		{name: "iSCSI service stops", ops: targetOps, kinds: []error{refused},
			happen: func(_, other *caller) { other.stop("MSiSCSI") },
			undo:   func(me *caller) { me.must(me.start("MSiSCSI")) }},

		{name: "another program starts the service", ops: serviceOps, kinds: []error{later}, happen: func(_, other *caller) { other.start("Top") }},
		{name: "another program stops the service", ops: serviceOps, kinds: []error{refused}, happen: func(_, other *caller) { other.stop("Base") }},
		{name: "service is disabled", ops: serviceOps, kinds: []error{refused},
			happen: func(me, _ *caller) {
				me.must(me.n.SetService(simnode.Service{Name: "Top", StartType: "disabled"}))
			}},
	}
}

// named returns the operations with the given names.
func named(ops []op, names ...string) []op {
	return slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return !slices.Contains(names, o.name) })
}
