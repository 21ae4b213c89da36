package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// NewNode makes a node for one case. It skips the test, with a reason, if it
// cannot provide the setup. Whatever it starts must end with the test.
type NewNode func(t *testing.T, setup Setup) *Node

// testCase is one case of the contract.
type testCase struct {
	name  string
	setup Setup
	run   func(*env)
}

// groups returns all cases.
func groups() []group {
	return []group{
		{"partition", partitionCases()},
		{"disk state", stateCases()},
		{"read-only disk", readOnlyCases()},
		{"identity", identityCases()},
		{"volume", volumeCases()},
		{"format", formatCases()},
		{"grow", growCases()},
		{"mount", mountCases()},
		{"volume of a path", pathCases()},
		{"filesystem", filesystemCases()},
		{"smb", requires("map SMB shares", func(n *Node) bool { return n.SMB != nil }, smbCases())},
		{"iscsi", requires("use iSCSI", func(n *Node) bool { return n.ISCSI != nil && n.System != nil }, iscsiCases())},
		{"system", requires("start services", func(n *Node) bool { return n.System != nil }, systemCases())},
		{"driver", driverCases()},
		{"concurrency", concurrencyCases()},
		{"arguments", argumentCases()},
	}
}

type group struct {
	name  string
	cases []testCase
}

// Cases returns the names of all cases, as the subtests of [Run] are named.
func Cases() []string {
	var names []string
	for _, g := range groups() {
		for _, c := range g.cases {
			names = append(names, strings.ReplaceAll(g.name+"/"+c.name, " ", "_"))
		}
	}
	return names
}

// requires skips cases on nodes that do not have an Interface.
func requires(what string, has func(*Node) bool, cases []testCase) []testCase {
	for i, c := range cases {
		cases[i].run = func(e *env) {
			if !has(e.n) {
				e.lacks(what)
			}
			c.run(e)
		}
	}
	return cases
}

// Run runs all cases, each on a node of its own, and logs how many ran and how
// many were skipped.
func Run(t *testing.T, newNode NewNode) { run(t, newNode, 1) }

// atOnce is how many cases [RunConcurrently] runs at the same time. Cases mostly wait.
const atOnce = 6

// RunConcurrently is [Run] with several cases at the same time. Their nodes must not
// share anything, and newNode must allow concurrent calls.
func RunConcurrently(t *testing.T, newNode NewNode) { run(t, newNode, atOnce) }

func run(t *testing.T, newNode NewNode, atOnce int) {
	goroutines, _ := goroutines()
	var ran, skipped atomic.Int64
	// A group begins when all cases of the one before have begun.
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, g := range groups() {
		begun := make(chan struct{})
		next := sync.OnceFunc(func() { close(begun) })
		all.Go(func() {
			defer next()
			t.Run(g.name, func(t *testing.T) {
				var cases sync.WaitGroup
				for _, c := range g.cases {
					slots <- struct{}{}
					cases.Go(func() {
						defer func() { <-slots }()
						t.Run(c.name, func(t *testing.T) {
							ran.Add(1)
							defer func() {
								if t.Skipped() {
									skipped.Add(1)
								}
							}()
							c.run(newEnv(t, newNode, c.setup))
						})
					})
				}
				next()
				cases.Wait()
			})
		})
		<-begun
	}
	all.Wait()
	t.Logf("contract: %d cases, %d of them skipped", ran.Load(), skipped.Load())
	t.Attr("measured", fmt.Sprintf("%d cases of the contract, %d of them skipped", ran.Load(), skipped.Load()))
	if left := settled(goroutines); left != "" {
		t.Errorf("the suite left goroutines running (there were %d before it):\n%s", goroutines, left)
	}
}

// settled waits until no more goroutines run than before. If that does not happen,
// it returns the stacks of all of them.
func settled(before int) string {
	var stacks string
	if waited(time.Minute, func() (fewer bool) {
		var n int
		n, stacks = goroutines()
		return n <= before
	}) {
		return ""
	}
	return stacks
}

// waited checks a condition at once and then every few milliseconds, and reports
// whether it came true within limit.
func waited(limit time.Duration, condition func() bool) bool {
	for end := time.Now().Add(limit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// goroutines counts the running goroutines, without the one that go-winio starts
// for the first named pipe of a process and never ends.
func goroutines() (n int, stacks string) {
	buf := make([]byte, 1<<20)
	stacks = string(buf[:runtime.Stack(buf, true)])
	return strings.Count("\n"+stacks, "\ngoroutine ") - strings.Count(stacks, "created by github.com/Microsoft/go-winio.initIO"), stacks
}

// env is a running case.
type env struct {
	*testing.T
	n   *Node
	ctx context.Context
}

func newEnv(t *testing.T, newNode NewNode, setup Setup) *env {
	e := &env{T: t, n: newNode(t, setup), ctx: t.Context()}
	t.Cleanup(func() {
		if e.n.Heal != nil {
			e.n.Heal()
		}
		e.noHandles()
	})
	return e
}

// with returns the same case with another caller's context.
func (e *env) with(ctx context.Context) *env { return &env{e.T, e.n, ctx} }

// noHandles fails the case if handles stay open. It waits, because a call that
// continues after its caller left closes its handles later.
func (e *env) noHandles() {
	if e.n.OpenHandles == nil {
		return
	}
	var open []string
	var err error
	closed := waited(time.Minute, func() bool {
		open, err = e.n.OpenHandles()
		return err != nil || len(open) == 0
	})
	switch {
	case err != nil:
		e.Errorf("list open handles: %v", err)
	case !closed:
		e.Errorf("handles left open: %q", open)
	}
}

// lacks skips the case because the node does not support what.
func (e *env) lacks(what string) {
	e.Helper()
	e.Skipf("this node cannot %s; the simulated node runs the case", what)
}

// confined skips the case if the node does not apply the daemon's rules.
func (e *env) confined() {
	e.Helper()
	if !e.n.Confined {
		e.Skip("this node does not restrict its callers; the daemon behind its pipes runs the case")
	}
}

// need fails the case if err is not nil, or skips it if err says that the node
// does not support what.
func (e *env) need(what string, err error) {
	e.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		e.lacks(what)
	}
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// want checks the kind of err, and that its message contains texts.
func (e *env) want(what string, err, kind error, texts ...string) {
	e.Helper()
	if !errors.Is(err, kind) {
		e.Errorf("%s: %v, want an error that is %q", what, err, kind)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			e.Errorf("%s: %v, want %q in it", what, err, text)
		}
	}
}

// wantText checks that err ends in a published text.
func (e *env) wantText(what string, err, kind error, text string) {
	e.Helper()
	if !errors.Is(err, kind) || !strings.HasSuffix(err.Error(), text) {
		e.Errorf("%s: %v, want an error that is %q and ends in %q", what, err, kind, text)
	}
}

// attach attaches a disk. A new disk may arrive offline and read-only, and no method in
// a published version makes one with partitions writable. So a disk with content arrives as
// an administrator has left it, online and writable, unless the case says otherwise.
func (e *env) attach(d Disk) uint32 {
	e.Helper()
	number := e.attachUnseen(d)
	e.arrives(number)
	e.volumesArrive(number, d)
	return number
}

// attachUnseen attaches a disk that Windows may not see yet.
func (e *env) attachUnseen(d Disk) uint32 {
	e.Helper()
	if e.n.Attach == nil {
		e.lacks("attach disks")
	}
	if d.Content != "" {
		no := false
		d.Offline, d.ReadOnly = cmp.Or(d.Offline, &no), cmp.Or(d.ReadOnly, &no)
	}
	number, err := e.n.Attach(d)
	e.need("attach such a disk", err)
	return number
}

// arrives rescans, as a driver does, until a disk is listed.
func (e *env) arrives(number uint32) {
	e.Helper()
	e.until("the disk is listed", func() bool {
		e.ok(e.rescan())
		ids, err := e.ids()
		e.ok(err)
		return ids[number] != nil
	})
}

// volumesArrive waits for the volumes of a disk that arrives online, which appear after it.
// A disk whose bytes are changed may have fewer, or none.
func (e *env) volumesArrive(number uint32, d Disk) {
	e.Helper()
	if d.Content == "" || d.Offline != nil && *d.Offline || e.n.Volume == nil {
		return
	}
	limit := 2 * time.Second
	if len(d.Bytes) > 0 {
		limit = 50 * time.Millisecond
	}
	want := max(1, len(d.Partitions))
	waited(limit, func() bool { return len(e.list(number, 0)) >= want })
}

// blank attaches a blank disk.
func (e *env) blank(size uint64) uint32 {
	e.Helper()
	return e.attach(Disk{Size: nodespec.Size(size)})
}

// data attaches a disk with one NTFS volume that fills it.
func (e *env) data(size uint64) (number uint32, id string) {
	e.Helper()
	number = e.attach(Disk{Content: nodespec.ContentGPT, Size: nodespec.Size(size), Partitions: []Partition{{FileSystem: "NTFS"}}})
	return number, e.volume(number)
}

// fresh attaches a disk with one volume without a file system.
func (e *env) fresh(size uint64) (number uint32, id string) {
	e.Helper()
	number = e.attach(Disk{Content: nodespec.ContentGPT, Size: nodespec.Size(size), Partitions: []Partition{{}}})
	return number, e.volume(number)
}

func (e *env) detach(number uint32) (back func() uint32) {
	e.Helper()
	if e.n.Detach == nil {
		e.lacks("remove disks")
	}
	attach, err := e.n.Detach(number)
	e.need("remove a disk", err)
	return func() uint32 {
		e.Helper()
		number, err := attach()
		e.need("attach a disk again", err)
		e.arrives(number)
		waited(50*time.Millisecond, func() bool { return len(e.list(number, 0)) > 0 }) // if it is online and has volumes
		return number
	}
}

func (e *env) grow(number uint32, size uint64) {
	e.Helper()
	if e.n.Grow == nil {
		e.lacks("grow disks")
	}
	e.need("grow a disk", e.n.Grow(number, size))
}

func (e *env) file(path string) {
	e.Helper()
	if e.n.MakeFile == nil {
		e.lacks("make files")
	}
	e.need("make a file", e.n.MakeFile(path))
}

func (e *env) fail(f Fault) (hits func() uint32) {
	e.Helper()
	if e.n.Fail == nil {
		e.lacks("make Windows calls fail")
	}
	hits, err := e.n.Fail(f)
	e.need(fmt.Sprintf("make %s fail", f.Call), err)
	return hits
}

// count counts Windows calls from now on. A second count of the same call counts
// nothing until Heal.
func (e *env) count(call string, code uint32) (hits func() uint32) {
	e.Helper()
	return e.fail(Fault{Call: call, Code: code, Delay: 1})
}

// until waits for a condition that another goroutine or the node brings about.
func (e *env) until(what string, condition func() bool) {
	e.Helper()
	if !waited(time.Minute, condition) {
		e.Fatalf("timed out waiting until %s", what)
	}
}

// path returns a path in the case's directory.
func (e *env) path(names ...string) string {
	return strings.Join(append([]string{e.n.Dir}, names...), `\`)
}

// dir makes a directory in the case's directory.
func (e *env) dir(names ...string) string {
	e.Helper()
	p := e.path(names...)
	e.ok(e.mkdir(p))
	return p
}
