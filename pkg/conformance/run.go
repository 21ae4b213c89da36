package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// NewNode makes a node for one case. It skips the test, with a reason, if it
// cannot make one that is set up so; what it starts ends with the test.
type NewNode func(t *testing.T, setup Setup) *Node

// testCase is one thing that must be so.
type testCase struct {
	name  string
	setup Setup
	run   func(*env)
}

// groups are all cases. Groups of other Interfaces are added here.
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
		{"smb", having("map SMB shares", func(n *Node) bool { return n.SMB != nil }, smbCases())},
		{"iscsi", having("use iSCSI", func(n *Node) bool { return n.ISCSI != nil && n.System != nil }, iscsiCases())},
		{"system", having("start services", func(n *Node) bool { return n.System != nil }, systemCases())},
		{"driver", driverCases()},
		{"at once", concurrencyCases()},
		{"faults", faultCases()},
		{"arguments", argumentCases()},
	}
}

type group struct {
	name  string
	cases []testCase
}

// Groups are the names of the groups of cases, which are the names of the
// subtests of [Run].
func Groups() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return names
}

// having are cases for nodes that have an Interface.
func having(what string, has func(*Node) bool, cases []testCase) []testCase {
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

// Run holds nodes to the contract, each case on a node of its own. At the end it
// logs how many cases there were.
func Run(t *testing.T, newNode NewNode) {
	goroutines, _ := goroutines()
	ran, skipped := 0, 0
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					ran++
					defer func() {
						if t.Skipped() {
							skipped++
						}
					}()
					c.run(newEnv(t, newNode, c.setup))
				})
			}
		})
	}
	t.Logf("contract: %d cases, %d of them skipped", ran, skipped)
	t.Attr("measured", fmt.Sprintf("%d cases of the contract, %d of them skipped", ran, skipped))
	if left := settled(goroutines); left != "" {
		t.Errorf("goroutines left by the suite (there were %d before it):\n%s", goroutines, left)
	}
}

// settled waits until no more goroutines run than before, and shows them all
// if that does not come.
func settled(before int) string {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, stacks := goroutines()
		if n <= before {
			return ""
		}
		if time.Now().After(end) {
			return stacks
		}
	}
}

// goroutines counts those that run, without the one that the first named pipe of
// a process starts for all of them and for ever.
func goroutines() (n int, stacks string) {
	buf := make([]byte, 1<<20)
	stacks = string(buf[:runtime.Stack(buf, true)])
	return strings.Count("\n"+stacks, "\ngoroutine ") - strings.Count(stacks, "created by github.com/Microsoft/go-winio.initIO"), stacks
}

// env is a case that runs.
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

// with is the same case with the context of another caller.
func (e *env) with(ctx context.Context) *env { return &env{e.T, e.n, ctx} }

// noHandles fails the case if handles stay open: those of a call that has
// outlived its caller close a little later.
func (e *env) noHandles() {
	if e.n.OpenHandles == nil {
		return
	}
	var open []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if open, err = e.n.OpenHandles(); err != nil {
			e.Errorf("open handles: %v", err)
			return
		}
		if len(open) == 0 {
			return
		}
	}
	e.Errorf("handles left open: %q", open)
}

// lacks skips the case: the node has no such thing.
func (e *env) lacks(what string) {
	e.Helper()
	e.Skipf("this node cannot %s; the simulated node runs the case", what)
}

// confined skips the case if the node confines its callers to nothing.
func (e *env) confined() {
	e.Helper()
	if !e.n.Confined {
		e.Skip("this node refuses its callers nothing; the daemon, asked through its pipes, runs the case")
	}
}

// need ends the case with err, if it is one, or skips it if err says that the
// node cannot do that.
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

// want checks that err is of a kind and tells texts.
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

// wantText checks a published text, which stands at the end of err's.
func (e *env) wantText(what string, err, kind error, text string) {
	e.Helper()
	if !errors.Is(err, kind) || !strings.HasSuffix(err.Error(), text) {
		e.Errorf("%s: %v, want an error that is %q and ends in %q", what, err, kind, text)
	}
}

func (e *env) attach(d Disk) uint32 {
	e.Helper()
	if e.n.Attach == nil {
		e.lacks("attach disks")
	}
	number, err := e.n.Attach(d)
	e.need("attach such a disk", err)
	return number
}

// blank attaches a blank disk.
func (e *env) blank(size uint64) uint32 {
	e.Helper()
	return e.attach(Disk{Size: size})
}

// data attaches a disk with one NTFS volume on all of it.
func (e *env) data(size uint64) (number uint32, id string) {
	e.Helper()
	number = e.attach(Disk{Table: GPT, Size: size, Partitions: []Partition{{FileSystem: "NTFS"}}})
	return number, e.volume(number)
}

// fresh attaches a disk with one volume without file system.
func (e *env) fresh(size uint64) (number uint32, id string) {
	e.Helper()
	number = e.attach(Disk{Table: GPT, Size: size, Partitions: []Partition{{}}})
	return number, e.volume(number)
}

func (e *env) detach(number uint32) (back func() uint32) {
	e.Helper()
	if e.n.Detach == nil {
		e.lacks("take disks away")
	}
	attach, err := e.n.Detach(number)
	e.need("take a disk away", err)
	return func() uint32 {
		e.Helper()
		number, err := attach()
		e.need("bring a disk back", err)
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
		e.lacks("make calls of Windows fail")
	}
	hits, err := e.n.Fail(f)
	e.need(fmt.Sprintf("make %s fail", f.Call), err)
	return hits
}

// count counts the calls of Windows from here on. Of two counts of one call the
// second counts nothing before Heal.
func (e *env) count(call string, code uint32) (hits func() uint32) {
	e.Helper()
	return e.fail(Fault{Call: call, Code: code, Delay: 1})
}

// until waits for something that others bring about.
func (e *env) until(what string, so func() bool) {
	e.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			e.Fatalf("waited in vain until %s", what)
		}
	}
}

// path is a path in the case's directory.
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
