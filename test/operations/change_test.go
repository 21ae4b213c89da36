package operations_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

// event is a change of the node before one of a request's calls.
type event struct {
	name string
	// happen makes the change, by the node itself or by another program.
	happen func(m *machine, other *caller) error
	// undo undoes the change, after which the same request must succeed. It is nil
	// if the change is not undone.
	undo func(me *caller) error
	ops  []operation
	// kinds are the errors that the request may return besides success. special
	// replaces them for single operations.
	kinds   []error
	special map[string][]error
	// check checks the node afterwards.
	check func(t *testing.T, m *machine)
	// fails is the error of the call, which Windows does not carry out. A method that looks then
	// fails, or answers as without the failure. After the request was repeated the node has the state
	// that it has without the failure. done keeps both for each operation.
	fails win32.Errno
	done  map[string]undisturbed
}

// undisturbed is what an operation says, and the state that it leaves, if no call fails.
type undisturbed struct{ said, state string }

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
					calls := e.before(t, o, math.MaxInt)
					for i := range calls {
						if i > 0 && sameRead(calls[i-1], calls[i]) && !worlds.Every() {
							continue
						}
						if t.Failed() || e.before(t, o, i) == nil {
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
	if n < 10500 && !t.Failed() {
		t.Errorf("%d points, want at least 10500", n)
	}
}

// sameRead reports whether a call reads where the one before it did. Between the reads of one
// look at a disk the program does nothing else, so a change there counts once, except in the
// worlds of make soak.
func sameRead(before, c win32.Call) bool {
	return c.Name == "ReadAt" && before.Name == c.Name && before.Path == c.Path
}

// moment is the hook of a program. When it is armed, it makes a change before one of the calls.
type moment struct {
	skip   int // calls before the change
	change func(before win32.Call)
	fails  win32.Errno // of the call after the change, 0 if it is made

	mu    sync.Mutex
	armed bool
	calls []win32.Call // without CloseHandle, until the change
}

func (m *moment) hook(c *win32.Call) error {
	m.mu.Lock()
	now := false
	if m.armed && c.Name != "CloseHandle" {
		if now = len(m.calls) == m.skip; now {
			m.armed = false
		} else {
			m.calls = append(m.calls, win32.Call{Name: c.Name, Path: c.Path, Code: c.Code})
		}
	}
	m.mu.Unlock()
	if now {
		m.change(*c)
		if m.fails != 0 {
			return m.fails
		}
	}
	return c.Do()
}

// before makes the event happen before a call of the operation, after skip other calls. It
// returns the calls before the event; if there were not so many, and it did not happen, that is
// all of them for the largest skip, and nil for others.
func (e event) before(t *testing.T, o operation, skip int) (calls []win32.Call) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := inBubble(t, func(c *nodespec.Config) {
			if o.config != nil {
				o.config(c)
			}
			// One change at one moment is what the events are.
			c.Attach, c.World = nodespec.AttachSeen, behavior.In(c.World, behavior.Windows{NewDisks: behavior.NewDisksFree})
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := func(life byte, hook func(*win32.Call) error) *caller {
			c, err := m.start(ctx, life, hook)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		now := &moment{skip: skip, fails: e.fails}
		me, other := start(lifeRequest, now.hook), start(lifeRetry, pass)
		if o.setup != nil {
			must(o.setup(me))
		}
		windows, err := m.Files(`C:\Windows`)
		must(err)
		happened := false
		now.change = func(c win32.Call) {
			happened = true
			if err := e.happen(m, other); err != nil {
				t.Errorf("%s, before %s: %v", e.name, c.String(), err)
			}
		}
		now.armed = true
		err = o.do(me)
		now.armed = false
		if !happened {
			if must(err); skip == math.MaxInt {
				calls = now.calls
			}
			if e.done != nil && calls != nil {
				e.done[o.name] = undisturbed{me.said, described(t, m)}
			}
			return
		}
		calls = append([]win32.Call{}, now.calls...)
		call := fmt.Sprintf("after %d calls", skip)
		if skip > 0 {
			call += ", the last " + calls[skip-1].String()
		}
		kinds := e.kinds
		if special, ok := e.special[o.name]; ok {
			kinds = special
		}
		placed(t, err)
		if want := e.done[o.name].said; err == nil && e.done != nil && me.said != want && !incomplete[o.name] {
			t.Errorf("%s, %s: %s says %s, want %s", e.name, call, o.name, me.said, want)
		}
		if !among(err, kinds) {
			t.Errorf("%s, %s: %s = %v, want success or one of %q", e.name, call, o.name, err, kinds)
		}
		if e.check != nil {
			e.check(t, m)
		}
		if now, err := m.Files(`C:\Windows`); err != nil || !reflect.DeepEqual(now, windows) {
			t.Errorf("%s, %s: %s changed Windows: %v, %v, want %v", e.name, call, o.name, now, err, windows)
		}
		if o.once && err == nil {
			return
		}
		if e.undo != nil {
			must(e.undo(me))
			kinds = leftBehind[o.name]
		}
		if e.fails != 0 && o.once {
			kinds = append(kinds, missing) // it was done
		}
		if err := o.do(me); !among(err, kinds) {
			t.Errorf("%s, %s: %s again = %v, want success or one of %q", e.name, call, o.name, err, kinds)
		}
		synctest.Wait() // for calls that go on after their request has returned
		if e.done != nil {
			if got := (undisturbed{me.said, described(t, m)}); got != e.done[o.name] {
				t.Errorf("%s, %s: after %s again the node differs, or what it says of it:\n%s\n%s", e.name, call, o.name, got.said, difference(got.state, e.done[o.name].state))
			}
		}
	})
	return calls
}

// leftBehind are the errors of a repeated request that cannot continue from where the change
// stopped it, by the names of operations.
var leftBehind = map[string][]error{
	"CreateSymlink within":    {occupied}, // by a directory that was going to become the link
	"CreateSymlink to within": {occupied}, // by a link to a missing path
}

// incomplete are the operations that leave out what a failing call does not report.
var incomplete = map[string]bool{"ListDiskIDs": true, "ListDiskLocations": true}

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

// replacement is a disk with a volume that no request names. It is online, because a
// change of an offline disk could not be seen.
func replacement() nodespec.Disk {
	return nodespec.Disk{ID: "replacement", Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 300 * mib, FileSystem: "NTFS"}},
		Offline: new(bool), ReadOnly: new(bool)}
}

// untouched checks that the replacement disk was not changed.
func untouched(t *testing.T, m *machine) {
	t.Helper()
	state, err := m.Show()
	if err != nil {
		t.Fatal(err)
	}
	r := replacement()
	for _, d := range state.Disks {
		if d.ID == r.ID && (d.Style != "GPT" || !d.Online || d.ReadOnly) {
			t.Errorf("the replacement disk was changed to %+v", d)
		}
	}
	found := false
	for _, v := range state.Volumes {
		if v.Size == r.Partitions[0].Size {
			found = true
			if v.FileSystem != "NTFS" || len(v.MountedAt) != 0 {
				t.Errorf("the volume of the replacement disk was changed to %+v", v)
			}
		}
	}
	if !found {
		t.Errorf("the volume of the replacement disk is not among %+v", state.Volumes)
	}
}

// half adds an error for requests that stop half-done when the volume disappears.
func half(kinds ...error) map[string][]error {
	return map[string][]error{"Rmdir within": append(kinds, later), "RmdirContents within": append(kinds, later), "CreateSymlink within": append(kinds, later)}
}

// detach removes the disk of the operation, even if it is in use.
func detach(m *machine) error { return m.Detach(m.number) }

// by returns a change that another program makes by requests, of which some may be refused.
func by(do func(other *caller)) func(*machine, *caller) error {
	return func(_ *machine, other *caller) error { do(other); return nil }
}

// on returns a change of the node.
func on(do func(m *machine) error) func(*machine, *caller) error {
	return func(m *machine, _ *caller) error { return do(m) }
}

func events() []event {
	back := func(me *caller) error { return ignore(me.m.Attach(nodespec.Disk{ID: "data"})) }
	// A link to a directory differs from a link to a missing path.
	moved := []error{missing, occupied}
	diskOps, pathOps, treeOps, shareOps, targetOps, serviceOps := of(disks), of(paths), of(trees), of(shares), of(targets), of(programs)
	fails := func(name string, code win32.Errno, ops []operation) event {
		return event{name: name, ops: ops, kinds: []error{code, missing, refused, later, denied}, fails: code, done: map[string]undisturbed{},
			happen: on(func(*machine) error { return nil }), undo: func(*caller) error { return nil }}
	}
	unknown := fails("the call is unknown", win32.ERROR_INVALID_FUNCTION, of(disks|paths|trees))
	unknown.special = map[string][]error{"ResizeVolume": append(unknown.kinds, hosterr.ErrOutOfRange)} // of a disk whose new size Windows does not read
	return []event{
		fails("the call fails", win32.ERROR_CRC, operations()),
		// These may mean that a device or file system does not know the call.
		unknown,
		fails("the call has a wrong parameter", win32.ERROR_INVALID_PARAMETER, of(disks|paths|trees)),
		fails("the call fails in general", win32.ERROR_GEN_FAILURE, of(disks|paths|trees)),
		{name: "disk is removed", ops: diskOps, kinds: []error{missing}, special: half(missing), undo: back, happen: on(detach)},
		{name: "another disk gets the number", kinds: []error{missing, later, refused}, check: untouched,
			ops:    of(disks, "PartitionDisk", "FormatVolume", "ResizeVolume", "MountVolume", "UnmountVolume", "GetVolumeStats", "IsVolumeFormatted", "WriteVolumeCache"),
			happen: on(func(m *machine) error { return errors.Join(detach(m), ignore(m.Attach(replacement()))) })},
		{name: "disk is taken offline", kinds: []error{missing, refused},
			// Windows refuses to read an offline disk, and PartitionDisk takes it online when it is called again.
			special: also(also(also(also(half(missing, refused), "PartitionDisk", missing, refused, later), "SetDiskState online", missing, refused, later), "FormatVolume", missing, refused, later), "ResizeVolume", missing, refused, later),
			ops:     of(disks, "PartitionDisk", "SetDiskState online", "FormatVolume", "ResizeVolume", "MountVolume", "Mkdir within", "Rmdir within"),
			happen:  by(func(other *caller) { offline(other) }), undo: online},
		{name: "another program partitions", ops: of(disks, "PartitionDisk"), happen: by(func(other *caller) { other.partition() })},
		{name: "another program formats", ops: of(disks, "FormatVolume", "IsVolumeFormatted of an unformatted volume"), happen: by(func(other *caller) { other.format() })},
		{name: "another program unmounts", ops: pathOps, kinds: []error{missing}, happen: by(func(other *caller) { other.unmount() }),
			special: map[string][]error{"GetVolumeIDFromTargetPath": {refused}, "GetVolumeIDFromTargetPath of a link": {refused}, "CreateSymlink within": moved, "CreateSymlink to within": moved, "MountVolume": {missing, later}}},

		{name: "parent directory is removed", ops: treeOps, kinds: []error{missing},
			happen: by(func(other *caller) { other.unmount(); other.rmdir(kubelet+`\plugins`, true) }),
			// MountVolume holds the parent, so the directory is only unmounted.
			special: map[string][]error{"CreateSymlink": moved, "CreateSymlink again": moved, "MountVolume": {missing, later}}},
		{name: "directory is removed", ops: treeOps, kinds: []error{missing},
			happen:  by(func(other *caller) { other.unmount(); other.rmdir(dir+`\a`, true); other.rmdir(at, true) }),
			special: map[string][]error{"CreateSymlink": moved, "CreateSymlink again": moved}},
		{name: "content of the directory is removed", ops: treeOps, kinds: []error{missing},
			happen: by(func(other *caller) {
				other.rmdir(dir+`\a\c\d`, true)
				other.rmdir(dir+`\a\file`, true)
				other.rmdir(dir+`\link`, true)
			})},
		{name: "directory becomes a file", ops: treeOps, kinds: []error{missing, refused, occupied},
			happen: by(func(other *caller) { other.rmdir(dir+`\a`, true); other.m.file(dir+`\a`, 0) })},
		{name: "directory becomes a link to Windows", ops: treeOps, kinds: []error{missing, refused, denied, occupied},
			happen: by(func(other *caller) {
				other.rmdir(dir+`\a`, true)
				other.node.WorkingDirs = nil
				other.restart()
				other.link(`C:\Windows`, dir+`\a`)
			})},
		{name: "another program makes the same paths", ops: treeOps, kinds: []error{refused},
			happen: by(func(other *caller) {
				other.mkdir(dir + `\a\b\c`)
				other.link(dir+`\a\b`, dir+`\a\l`)
				other.mount()
			})},

		{name: "server goes down", ops: shareOps, kinds: []error{later},
			happen: on(func(m *machine) error { return m.SetSMBServerDown(server, true) }),
			undo:   func(me *caller) error { return me.m.SetSMBServerDown(server, false) }},
		{name: "share is removed", ops: shareOps, kinds: []error{missing}, happen: on(func(m *machine) error { return m.RemoveSMBShare(server, "data") })},
		{name: "mapping breaks", ops: shareOps, kinds: []error{denied, later}, happen: by(func(other *caller) { other.m.SetSMBMappingStatus(share, "disconnected") })},
		{name: "another program removes the link and the mapping", ops: shareOps, kinds: []error{missing, denied},
			happen: by(func(other *caller) { other.rmdir(staged, true); other.unmap() })},
		{name: "directory of the link is removed", ops: shareOps, kinds: []error{missing}, happen: by(func(other *caller) { other.rmdir(staging, true) })},
		{name: "another program maps the share", ops: shareOps, happen: by(func(other *caller) { stage(other) })},

		{name: "target is removed", ops: targetOps, kinds: []error{missing, later}, happen: on(func(m *machine) error { return m.RemoveISCSITarget(target) })},
		{name: "another program logs out", ops: targetOps, happen: by(func(other *caller) { other.disconnect() })},
		{name: "another program logs in", ops: targetOps, happen: by(func(other *caller) { other.addPortal(); other.connect() })},
		{name: "another program removes the portal", ops: targetOps, kinds: []error{missing}, happen: by(func(other *caller) { other.removePortal() })},
		{name: "iSCSI service stops", ops: targetOps, kinds: []error{refused},
			happen: by(func(other *caller) { other.stopService(initiator) }),
			undo:   func(me *caller) error { return me.startService(initiator) }},

		{name: "another program starts the service", ops: serviceOps, kinds: []error{later}, happen: by(func(other *caller) { other.startService("Top") })},
		{name: "another program stops the service", ops: serviceOps, kinds: []error{refused}, happen: by(func(other *caller) { other.stopService("Base") })},
		{name: "service is disabled", ops: serviceOps, kinds: []error{refused},
			happen: on(func(m *machine) error {
				return m.SetService(nodespec.Service{Name: "Top", StartType: "disabled"})
			})},
	}
}
