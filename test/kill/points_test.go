package kill_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
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
	looked func(calls int, changed bool) // after each call; may be nil

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
	if k.looked != nil {
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

// Environment variables that make the test binary a process that dies at a point.
const (
	asProcess = "KILL_TEST_SCENARIO"
	atDir     = "KILL_TEST_DIR"
	atVolume  = "KILL_TEST_VOLUME"
	atCall    = "KILL_TEST_CALL"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		fmt.Fprintln(os.Stderr, beProcess())
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// aliveAndWell is the error of beProcess if the request succeeded.
const aliveAndWell = "alive after the request"

// beProcess makes a scenario's request until a signal kills the process. It returns
// only if the process was not killed.
func beProcess() error {
	i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == os.Getenv(asProcess) })
	if i < 0 {
		return fmt.Errorf("unknown scenario %q", os.Getenv(asProcess))
	}
	s := scenarios()[i]
	call, err := strconv.Atoi(os.Getenv(atCall))
	if err != nil {
		return err
	}
	m, err := boot(os.Getenv(atDir), lifeRequest, s.config, nil)
	if err != nil {
		return err
	}
	m.volume = os.Getenv(atVolume)
	k := &killer{at: point(call), die: func() {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {}
	}}
	p, err := m.start(lifeRequest, k.hook)
	if err != nil {
		return err
	}
	if err := s.request(context.Background(), p); err != nil {
		return fmt.Errorf("alive after %d calls: %w", len(k.calls), err)
	}
	return errors.New(aliveAndWell)
}

// outcome counts the results of a scenario.
type outcome struct {
	points, deaths, completed, judged, real int
	blocked                                 map[string][]string // error → points
}

func TestKillAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs to copy sparse files: runs on Linux")
	}
	var total outcome
	ran := 0
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			ran++
			o := s.everyPoint(t)
			t.Logf("%d points, %d deaths: the next request completed the work %d times and named the obstacle %d times; %d points with a killed process; sgdisk checked %d images",
				o.points, o.deaths, o.completed, o.deaths-o.completed, o.real, o.judged)
			for err, points := range o.blocked {
				t.Logf("not completed %d times (%s): %s", len(points), strings.Join(slices.Compact(points), ", "), err)
			}
			total.points += o.points
			total.deaths += o.deaths
			total.completed += o.completed
			total.judged += o.judged
			total.real += o.real
		})
	}
	t.Attr("measured", fmt.Sprintf("%d points of %d operations, %d deaths: the next request completed the work %d times and named the obstacle %d times; %d points with a killed process, %d images checked",
		total.points, len(scenarios()), total.deaths, total.completed, total.deaths-total.completed, total.real, total.judged))
	if ran == len(scenarios()) && (total.points < 140 || total.real < 130) {
		t.Errorf("%d points and %d killed processes, want at least 140 and 130", total.points, total.real)
	}
}

// everyPoint kills the scenario's request at each of its points. A death between two calls that
// only look leaves the same node as one before both, so it counts once, except in the worlds of
// make soak.
func (s scenario) everyPoint(t *testing.T) outcome {
	if s.tables {
		needSgdisk(t)
	}
	base := tempDir(t)
	m := s.boot(t, base, lifeSetup, "")
	if s.setup != nil {
		if err := s.setup(m, s.process(t, m, lifeSetup)); err != nil {
			t.Fatal(err)
		}
	}
	id := m.volume
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	// The expected result: the request, a death after its last call, and the same
	// request again, as after a lost response.
	var points []point
	want := map[string]string{}
	for name, death := range deaths {
		m := s.boot(t, clone(t, base), lifeRequest, id)
		k := &killer{at: never, die: func() {}}
		points = []point{0}
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
		p, err := m.start(lifeRequest, k.hook)
		if err == nil {
			err = s.request(t.Context(), p)
		}
		if err != nil {
			t.Fatalf("request without a death: %v", err)
		}
		k.looked = nil
		after := death(t, s, m)
		if err := s.request(t.Context(), s.process(t, after, lifeRetry)); err != nil && s.known(err) == nil {
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
		s.kill(t, base, id, at, func(death string, left *machine, calls []string) {
			where := fmt.Sprintf("%s, %s (%s)", death, at, append([]string{"none"}, calls...)[at])
			o.deaths++
			if !s.grown {
				s.judge(t, left, where, &o)
			}
			s.retry(t, left, where, want[death], at, &o, hit)
		})
		if !worlds.Every() || o.points%11 == 1 {
			s.killProcess(t, base, id, at)
			o.real++
		}
	}
	if s.half != nil {
		s.half(t, s, base, id, want, &o, hit)
	}
	for _, b := range s.blocked {
		if !hit[b.text] {
			t.Errorf("no point leads to the error %q that the scenario lists (%s)", b.text, b.why)
		}
	}
	return o
}

func (s scenario) boot(t *testing.T, dir string, life byte, volume string) *machine {
	t.Helper()
	m, err := boot(dir, life, s.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() }) // if the test ends early
	m.volume = volume
	return m
}

func (s scenario) process(t *testing.T, m *machine, life byte) *process {
	t.Helper()
	p, err := m.start(life, pass)
	if err != nil {
		t.Fatal(err)
	}
	return p
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
var deaths = map[string]func(*testing.T, scenario, *machine) *machine{
	"the proxy dies": func(t *testing.T, _ scenario, m *machine) *machine {
		if err := m.EndProcess(); err != nil {
			t.Fatal(err)
		}
		return m
	},
	"the simulated node dies with it": func(t *testing.T, s scenario, m *machine) *machine {
		return s.boot(t, clone(t, m.dir), lifeRetry, m.volume)
	},
	"Windows restarts": func(t *testing.T, s scenario, m *machine) *machine {
		again := s.boot(t, clone(t, m.dir), lifeRetry, m.volume)
		if err := again.Reboot(); err != nil {
			t.Fatal(err)
		}
		return again
	},
}

// kill makes the request until the process dies at a point, and calls left for each death.
func (s scenario) kill(t *testing.T, base, id string, at point, left func(death string, m *machine, calls []string)) {
	t.Helper()
	m := s.boot(t, clone(t, base), lifeRequest, id)
	ctx, cancel := context.WithCancel(t.Context())
	k := &killer{at: at, die: cancel}
	p, err := m.start(lifeRequest, k.hook)
	if err != nil {
		t.Fatal(err)
	}
	err = s.request(ctx, p)
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
func (s scenario) leave(t *testing.T, m *machine, left func(death string, m *machine)) {
	t.Helper()
	const alone, both = "the proxy dies", "the simulated node dies with it"
	var reopened string
	for _, death := range []string{both, "Windows restarts", alone} {
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

// known returns the scenario's entry for an error, or nil.
func (s scenario) known(err error) *blocked {
	for i, b := range s.blocked {
		if errors.Is(err, b.kind) && strings.HasSuffix(err.Error(), b.text) {
			return &s.blocked[i]
		}
	}
	return nil
}

// retry makes the same request again: it must complete the work, or fail with an
// error that the scenario lists.
func (s scenario) retry(t *testing.T, m *machine, where, want string, at point, o *outcome, hit map[string]bool) {
	t.Helper()
	err := s.request(t.Context(), s.process(t, m, lifeRetry))
	if err != nil {
		b := s.known(err)
		if b == nil {
			t.Errorf("%s: the same request again: %v", where, err)
			return
		}
		hit[b.text] = true
		o.blocked[b.text+": "+b.why] = append(o.blocked[b.text+": "+b.why], at.String())
		if b.clear != nil {
			if err := b.clear(t.Context(), s.process(t, m, lifeRetry)); err != nil {
				t.Errorf("%s: remove the obstacle: %v", where, err)
			}
			if err := s.request(t.Context(), s.process(t, m, lifeRetry+1)); err != nil {
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
func (s scenario) judge(t *testing.T, m *machine, where string, o *outcome) {
	t.Helper()
	if !s.tables {
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
		t.Skip("needs sgdisk: a machine with the package gdisk")
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

// killProcess kills a real process at a point. It must leave the same bytes as kill.
func (s scenario) killProcess(t *testing.T, base, id string, at point) {
	t.Helper()
	m := s.boot(t, clone(t, base), lifeRequest, id)
	ctx, cancel := context.WithCancel(t.Context())
	k := &killer{at: at, die: cancel}
	p, err := m.start(lifeRequest, k.hook)
	if err == nil {
		err = s.request(ctx, p)
	}
	want := digest(t, m.dir)
	cancel()
	m.end(t)
	if !k.dead && err == nil && s.arrives {
		return // as in kill
	}
	if !k.dead {
		t.Fatalf("%s: the process is still alive: %v", at, err)
	}

	dir := clone(t, base)
	defer os.RemoveAll(dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+s.name, atDir+"="+dir, atVolume+"="+id, atCall+"="+strconv.Itoa(int(at)))
	out, err := cmd.CombinedOutput()
	if s.arrives && strings.HasSuffix(strings.TrimSpace(string(out)), aliveAndWell) {
		return // as above
	}
	if err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("%s: the process was not killed: %v\n%s", at, err, out)
	}
	if got := digest(t, dir); got != want {
		t.Errorf("%s: a killed process leaves\n%s\nwant the same as in process:\n%s", at, got, want)
	}
}

// halfAFormat kills a process in the middle of a format, which leaves each of the states of
// the option formatOrder, unless it goes on through WMI. Drivers ask whether the volume is
// formatted before they format it.
func halfAFormat(t *testing.T, s scenario, base, id string, want map[string]string, o *outcome, hit map[string]bool) {
	for _, order := range formatOrders() {
		for _, knows := range []string{nodespec.FormatAtOnce, nodespec.FormatNever} {
			t.Run(order+", WMI knows the volume "+knows, func(t *testing.T) {
				s := s
				s.config = func(c *nodespec.Config) {
					c.FormatDuration, c.FormatOrder, c.FormatKnows = nodespec.Duration(time.Second), order, knows
				}
				s.request = func(ctx context.Context, p *process) error {
					out, err := p.volume.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: p.m.volume})
					if err != nil || out.Formatted {
						return err
					}
					return p.format(ctx)
				}
				s.inAFormat(t, base, id, want, o, hit)
			})
		}
	}
}

func formatOrders() []string {
	var names []string
	for _, option := range nodespec.Options() {
		if option.Key == "formatOrder" {
			for _, v := range option.Values {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

func (s scenario) inAFormat(t *testing.T, base, id string, want map[string]string, o *outcome, hit map[string]bool) {
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
	m.volume = id
	go s.request(ctx, s.process(t, m, lifeRequest)) // it never returns a response
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("no format began")
	}
	o.points++
	s.leave(t, m, func(death string, left *machine) {
		o.deaths++
		info, err := left.Show()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range info.Volumes {
			if v.ID == id && v.FileSystem != "" {
				t.Errorf("%s in the middle of a format: the volume has the file system %q", death, v.FileSystem)
			}
		}
		s.retry(t, left, death+" in the middle of a format", want[death], at, o, hit)
	})
}

// blocked is an error of the next identical request, which does not complete the
// work.
type blocked struct {
	kind error
	text string // end of the error's message
	why  string
	// clear does what the error asks for, after which the request succeeds. It is
	// nil if the work was already done.
	clear func(context.Context, *process) error
}

// scenario is an operation to kill.
type scenario struct {
	name    string
	config  func(*nodespec.Config)
	setup   func(*machine, *process) error
	request func(context.Context, *process) error
	blocked []blocked
	tables  bool // check the images with sgdisk
	grown   bool // check them only after the retry, because the table does not fit the grown disk before
	arrives bool // volumes arrive late, so the number of calls varies, and a node that is opened again has them already
	half    func(t *testing.T, s scenario, base, id string, want map[string]string, o *outcome, hit map[string]bool)
}
