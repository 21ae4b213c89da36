package operations_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/test/worlds"
)

// errDead is the result of every call after the death of the process.
var errDead = errors.New("the process is dead")

// point is a moment of an operation: after so many of its Win32 calls, and before the next.
type point int

const never point = -1

func (p point) String() string { return fmt.Sprintf("after %d calls", int(p)) }

// killer is the hook of a process that dies at a point: after it, no call reaches
// the node.
type killer struct {
	at     point
	die    func()
	looked func(calls int, changed bool) // after each call but reads; may be nil

	mu    sync.Mutex
	calls []string
	dead  bool
}

func (k *killer) hook(c *win32.Call) error {
	k.mu.Lock()
	if k.dead {
		k.mu.Unlock()
		return errDead
	}
	if k.at == 0 {
		k.end()
		return errDead
	}
	k.calls = append(k.calls, c.String())
	n := len(k.calls)
	k.mu.Unlock()
	err := c.Do()
	if k.looked != nil && (c.Name != "ReadAt" || worlds.Every()) { // a read leaves the node as it was
		k.looked(n, c.Changed(err))
	}
	if n == int(k.at) {
		k.mu.Lock()
		k.end()
		return errDead
	}
	return err
}

// end marks the process as dead. k.mu must be locked; end unlocks it.
func (k *killer) end() {
	k.dead = true
	k.mu.Unlock()
	k.die()
}

// The starts of a machine. Each has random numbers of its own.
const (
	lifeSetup = 1 + iota
	lifeRequest
	lifeRetry
)

// outcome counts the results of an operation.
type outcome struct {
	points, deaths, completed, judged int
	blocked                           map[string][]string // error → points
}

// TestDieAtEveryCall ends the program before and after each call of each operation that
// changes the node.
func TestDieAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs to copy sparse files: runs on Linux")
	}
	needSgdisk(t)
	special := dyings()
	var total outcome
	ran := 0
	for _, o := range operations() {
		s := victim{operation: o, dying: special[o.name]}
		delete(special, o.name)
		t.Run(o.name, func(t *testing.T) {
			ran++
			got := s.everyPoint(t)
			if got.deaths > 0 {
				t.Logf("%d points, %d deaths: the next request completed the work %d times and named the obstacle %d times; sgdisk checked %d images",
					got.points, got.deaths, got.completed, got.deaths-got.completed, got.judged)
			}
			for err, points := range got.blocked {
				t.Logf("not completed %d times (%s): %s", len(points), strings.Join(slices.Compact(points), ", "), err)
			}
			total.points += got.points
			total.deaths += got.deaths
			total.completed += got.completed
			total.judged += got.judged
		})
	}
	for name := range special {
		t.Errorf("there is no operation %q", name)
	}
	t.Attr("measured", fmt.Sprintf("%d points of %d operations, %d deaths: the next request completed the work %d times and named the obstacle %d times; %d images checked",
		total.points, ran, total.deaths, total.completed, total.deaths-total.completed, total.judged))
	if ran == len(operations()) && total.points < 140 {
		t.Errorf("%d points, want at least 140", total.points)
	}
}

// everyPoint kills the operation's request at each of its points, if it changes the node. A death
// between two calls that only look leaves the same node as one before both, so it counts once,
// except in the worlds of make soak.
func (s victim) everyPoint(t *testing.T) outcome {
	base := tempDir(t)
	m := s.boot(t, base, lifeSetup, &machine{number: 1})
	if s.setup != nil {
		if err := s.setup(s.process(t, m, lifeSetup)); err != nil {
			t.Fatal(err)
		}
	}
	known := m
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	// The expected result: the request, a death after its last call, and the same
	// request again, as after a lost response.
	points := []point{0}
	want := map[string]string{}
	for _, name := range []string{both, restart, alone} {
		m := s.boot(t, clone(t, base), lifeRequest, known)
		k := &killer{at: never, die: func() {}}
		if len(want) == 0 {
			left := digest(t, m.dir)
			var mu sync.Mutex
			k.looked = func(n int, changed bool) {
				mu.Lock()
				defer mu.Unlock()
				now := digest(t, m.dir)
				if changed || now != left || worlds.Every() {
					points = append(points, point(n))
				}
				left = now
			}
		}
		before := digest(t, m.dir)
		c, err := m.start(t.Context(), lifeRequest, k.hook)
		if err == nil {
			err = s.do(c)
		}
		if err != nil {
			t.Fatalf("request without a death: %v", err)
		}
		k.looked = nil
		if len(want) == 0 && digest(t, m.dir) == before {
			m.end(t)
			return outcome{}
		}
		after := deaths[name](t, s, m)
		if err := s.do(s.process(t, after, lifeRetry)); err != nil && s.known(err) == nil {
			t.Fatalf("same request again, after %s: %v", name, err)
		}
		want[name] = described(t, after)
		after.end(t)
		if after != m {
			m.end(t)
		}
	}
	o := outcome{blocked: map[string][]string{}}
	hit := map[string]bool{}
	for _, at := range points {
		o.points++
		s.kill(t, base, known, at, func(death string, left *machine, calls []string) {
			where := fmt.Sprintf("%s, %s (%s)", death, at, append([]string{"none"}, calls...)[at])
			o.deaths++
			if !s.grown {
				s.judge(t, left, where, &o)
			}
			s.retry(t, left, where, want[death], at, &o, hit)
		})
	}
	if s.half != nil {
		s.half(t, s, base, known, want, &o, hit)
	}
	for _, b := range s.obstacles {
		if !hit[b.text] {
			t.Errorf("no point leads to the error %q that is listed for it (%s)", b.text, b.why)
		}
	}
	return o
}

// boot opens the node in dir, on which the disk and the volume are those of known.
func (s victim) boot(t *testing.T, dir string, life byte, known *machine) *machine {
	t.Helper()
	m, err := boot(dir, life, s.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() }) // if the test ends early
	m.volume, m.number = known.volume, known.number
	return m
}

func (s victim) process(t *testing.T, m *machine, life byte) *caller {
	t.Helper()
	c, err := m.start(t.Context(), life, pass)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func described(t *testing.T, m *machine) string {
	t.Helper()
	text, err := m.describe()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// deaths are the ways to die: the proxy alone, while Windows keeps running; the
// proxy and the simulated node, which starts again from its state directory; and
// the proxy and Windows, which restarts.
var deaths = map[string]func(*testing.T, victim, *machine) *machine{
	alone: func(t *testing.T, _ victim, m *machine) *machine {
		if err := m.EndProcess(); err != nil {
			t.Fatal(err)
		}
		return m
	},
	both: func(t *testing.T, s victim, m *machine) *machine {
		return s.boot(t, clone(t, m.dir), lifeRetry, m)
	},
	restart: func(t *testing.T, s victim, m *machine) *machine {
		again := s.boot(t, clone(t, m.dir), lifeRetry, m)
		if err := again.Reboot(); err != nil {
			t.Fatal(err)
		}
		return again
	},
}

const (
	alone   = "the proxy dies"
	both    = "the simulated node dies with it"
	restart = "Windows restarts"
)

// kill makes the request until the process dies at a point, and calls left for each death.
func (s victim) kill(t *testing.T, base string, known *machine, at point, left func(death string, m *machine, calls []string)) {
	t.Helper()
	m := s.boot(t, clone(t, base), lifeRequest, known)
	ctx, cancel := context.WithCancel(t.Context())
	k := &killer{at: at, die: cancel}
	c, err := m.start(ctx, lifeRequest, k.hook)
	if err != nil {
		t.Fatal(err)
	}
	err = s.do(c)
	cancel()
	if !k.dead && err == nil && s.arrives {
		m.end(t)
		return // it looked for the volume fewer times than the request without a death
	}
	if !k.dead {
		t.Fatalf("%s: the process is still alive: %v", at, err)
	}
	s.leave(t, m, func(death string, m *machine) { left(death, m, k.calls) })
}

// leave calls left with the machine after each death. The last death uses m itself.
func (s victim) leave(t *testing.T, m *machine, left func(death string, m *machine)) {
	t.Helper()
	var reopened string
	for _, death := range []string{both, restart, alone} {
		after := deaths[death](t, s, m)
		text := described(t, after)
		switch death {
		case both:
			reopened = text
		case alone:
			if text != reopened && !s.arrives {
				t.Errorf("the node after the proxy died differs from its state directory:\n%s", difference(text, reopened))
			}
		}
		left(death, after)
		after.end(t)
	}
}

// difference returns the lines that only one of two texts has.
func difference(got, want string) string {
	var b strings.Builder
	for _, s := range []struct{ sign, text, other string }{{"got ", got, want}, {"want", want, got}} {
		for line := range strings.Lines(s.text) {
			if !strings.Contains("\n"+s.other, "\n"+line) {
				b.WriteString(s.sign + " " + line)
			}
		}
	}
	return b.String()
}

// known returns the entry for an error, or nil.
func (s victim) known(err error) *obstacle {
	for i, b := range s.obstacles {
		if errors.Is(err, b.kind) && strings.HasSuffix(err.Error(), b.text) {
			return &s.obstacles[i]
		}
	}
	if s.once && errors.Is(err, hosterr.ErrNotFound) {
		return &obstacle{kind: hosterr.ErrNotFound, why: "it was removed already"}
	}
	return nil
}

// retry makes the same request again: it must complete the work, or fail with an
// error that is listed.
func (s victim) retry(t *testing.T, m *machine, where, want string, at point, o *outcome, hit map[string]bool) {
	t.Helper()
	err := s.do(s.process(t, m, lifeRetry))
	if err != nil {
		b := s.known(err)
		if b == nil {
			t.Errorf("%s: the same request again: %v", where, err)
			return
		}
		hit[b.text] = true
		o.blocked[b.text+": "+b.why] = append(o.blocked[b.text+": "+b.why], at.String())
		if b.clear != nil {
			if err := b.clear(s.process(t, m, lifeRetry)); err != nil {
				t.Errorf("%s: remove the obstacle: %v", where, err)
			}
			if err := s.do(s.process(t, m, lifeRetry+1)); err != nil {
				t.Errorf("%s: the request after the obstacle was removed: %v", where, err)
			}
		}
	} else {
		o.completed++
	}
	if got := described(t, m); got != want {
		t.Errorf("%s: the node differs from the result without a death:\n%s", where, difference(got, want))
	}
	s.judge(t, m, where+", request again", o)
}

// judge checks images with a GPT with sgdisk.
func (s victim) judge(t *testing.T, m *machine, where string, o *outcome) {
	t.Helper()
	if s.about&^disks != 0 || s.unfit {
		return
	}
	info, err := m.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range info.Disks {
		if d.System || d.Style != "GPT" {
			continue
		}
		if problem := sgdisk(d.Image); problem != "" {
			t.Errorf("%s: %s", where, problem)
		}
		o.judged++
	}
}

// needSgdisk skips the test if there is no sgdisk.
func needSgdisk(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Skip("needs sgdisk, of the package gdisk; make test installs it")
	}
}

// sgdisk returns the problems that sgdisk finds in an image.
func sgdisk(image string) string {
	out, err := exec.Command("sgdisk", "-v", image).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		return fmt.Sprintf("sgdisk -v: %v\n%s", err, out)
	}
	return ""
}

// halfAFormat kills a process in the middle of a format, which leaves each of the states of
// the option formatOrder, unless it goes on through WMI. Drivers ask whether the volume is
// formatted before they format it.
func halfAFormat(t *testing.T, s victim, base string, known *machine, want map[string]string, o *outcome, hit map[string]bool) {
	for _, order := range formatOrders() {
		for _, knows := range []string{behavior.FormatAtOnce, behavior.FormatNever} {
			t.Run(order+", WMI knows the volume "+knows, func(t *testing.T) {
				s := s
				s.config = func(c *nodespec.Config) {
					c.FormatDuration, c.World = nodespec.Duration(time.Second), behavior.In("", behavior.Windows{FormatOrder: order, FormatKnows: knows})
				}
				s.do = func(c *caller) error {
					out, err := c.volume.IsVolumeFormatted(c.ctx, &volume.IsVolumeFormattedRequest{VolumeID: c.m.volume})
					if err != nil || out.Formatted {
						return err
					}
					return c.format()
				}
				s.inAFormat(t, base, known, want, o, hit)
			})
		}
	}
}

func formatOrders() []string {
	var names []string
	for _, option := range behavior.All() {
		if option.Key == "formatOrder" {
			for _, v := range option.Values {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

func (s victim) inAFormat(t *testing.T, base string, known *machine, want map[string]string, o *outcome, hit map[string]bool) {
	at := point(0)
	dir := clone(t, base)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var once sync.Once
	m, err := boot(dir, lifeRequest, s.config, func() {
		once.Do(func() {
			close(begun)
			cancel()
			runtime.Goexit() // ends the goroutine that formats
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	m.volume, m.number = known.volume, known.number
	c, err := m.start(ctx, lifeRequest, pass)
	if err != nil {
		t.Fatal(err)
	}
	go s.do(c) // it never returns a response
	<-begun
	o.points++
	s.leave(t, m, func(death string, left *machine) {
		o.deaths++
		info, err := left.Show()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range info.Volumes {
			if v.ID == known.volume && v.FileSystem != "" {
				t.Errorf("%s in the middle of a format: the volume has the file system %q", death, v.FileSystem)
			}
		}
		s.retry(t, left, death+" in the middle of a format", want[death], at, o, hit)
	})
}

// obstacle is an error of the next identical request, which does not complete the
// work.
type obstacle struct {
	kind error
	text string // end of the error's message
	why  string
	// clear does what the error asks for, after which the request succeeds. It is
	// nil if the work was already done.
	clear func(*caller) error
}

// victim is an operation to kill.
type victim struct {
	operation
	dying
}

// dying is what is special about the deaths of an operation.
type dying struct {
	obstacles []obstacle
	grown     bool // the table does not fit the grown disk before the retry
	unfit     bool // nor afterwards
	arrives   bool // something arrives late, so the number of calls varies, and a node that is opened again has it already
	half      func(t *testing.T, s victim, base string, known *machine, want map[string]string, o *outcome, hit map[string]bool)
}

// dyings returns what is special, by the names of operations.
func dyings() map[string]dying {
	arrives, grown := dying{arrives: true}, dying{grown: true}
	return map[string]dying{
		"PartitionDisk of an offline disk, to which Windows adds a reserved partition": arrives,
		"SetDiskState online, and its volume is late":                                  arrives,
		"ConnectTarget, and its disks are late":                                        arrives,
		"DisconnectTarget with a persistent login":                                     arrives,
		"Rescan while a disk waits":                                                    {unfit: true},
		"StartService":                                                                 arrives,
		"StopService":                                                                  arrives,
		"Rescan":                                                                       {unfit: true},
		"ResizeVolume":                                                                 grown,
		"ResizeVolume to the end of the disk":                                          grown,
		"ResizeVolume when Windows needs the table rewritten first":                    grown,
		"FormatVolume": {half: halfAFormat, obstacles: []obstacle{remains("The disk structure is corrupted and unreadable."), remains("it contains data (NTFS) and was not changed"),
			remains("it contains data (unknown content at byte 16842754) and was not changed")}},
		"CreateSymlink":                   leftover("a directory", dir+`\a\l`),
		"CreateSymlink to nothing":        leftover("a file", dir+`\a\l`),
		"CreateSymlink within":            leftover("a directory", at+`\l`),
		"CreateSymlink to within":         leftover("a directory", dir+`\l`),
		"NewSMBGlobalMapping with a link": leftover("a directory", staged),
	}
}

// leftover is the obstacle after a process died between making a file or directory
// and making it a link. Windows has no single call for both.
func leftover(what, path string) dying {
	return dying{obstacles: []obstacle{{
		kind: hosterr.ErrAlreadyExists, text: what + " that is not a symbolic link exists there: Cannot create a file when that file already exists.",
		why:   "an empty file or directory was left that was going to become the link; it could also belong to another program, so it is not touched",
		clear: func(c *caller) error { return c.rmdir(path, false) },
	}}}
}

// remains is the error for what a format leaves that was cut off by the end of Windows, or of its
// process: the same bytes could be data that is damaged.
func remains(text string) obstacle {
	return obstacle{kind: hosterr.ErrFailedPrecondition, text: text, why: "a format that was cut off has left a part of an NTFS",
		clear: func(c *caller) error {
			ids, err := c.disk.ListDiskIDs(c.ctx, &disk.ListDiskIDsRequest{})
			if err != nil {
				return err
			}
			if _, err := c.disk.(*disk.Disk).Clear(c.ctx, c.m.number, diskapi.Clearing{Identity: ids.DiskIDs[c.m.number].SerialNumber}); err != nil {
				return err
			}
			return errors.Join(c.partition(), c.find())
		}}
}
