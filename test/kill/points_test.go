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
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
)

// errDead is what a dead process would get, if it still asked.
var errDead = errors.New("the process is dead")

// point is a moment in an operation: before or after one of its Win32 calls.
type point struct {
	call  int // the first is 1
	after bool
}

func (p point) String() string {
	if p.after {
		return fmt.Sprintf("after call %d", p.call)
	}
	return fmt.Sprintf("before call %d", p.call)
}

// killer is the hook of a process that dies at a point: no call reaches the node
// from then on.
type killer struct {
	at  point
	die func()

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
	k.calls = append(k.calls, c.String())
	here := len(k.calls) == k.at.call
	if here && !k.at.after {
		k.end()
		return errDead
	}
	k.mu.Unlock()
	err := c.Do()
	if here {
		k.mu.Lock()
		k.end()
		return errDead
	}
	return err
}

// end is the death, of a killer that is locked.
func (k *killer) end() {
	k.dead = true
	k.mu.Unlock()
	k.die()
}

// life is a time that a machine is on; identifiers of each are its own.
const (
	lifeSetup = 1 + iota
	lifeRequest
	lifeRetry
)

// Environment of a test's binary that is to be a process which dies at a point.
const (
	asProcess = "KILL_TEST_SCENARIO"
	atDir     = "KILL_TEST_DIR"
	atVolume  = "KILL_TEST_VOLUME"
	atCall    = "KILL_TEST_CALL"
	atAfter   = "KILL_TEST_AFTER"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		fmt.Fprintln(os.Stderr, beProcess())
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// aliveAndWell is what beProcess says of a request that succeeded.
const aliveAndWell = "alive after the request"

// beProcess does a scenario's request until it dies by a signal; it returns only
// if it does not come to that.
func beProcess() error {
	i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == os.Getenv(asProcess) })
	if i < 0 {
		return errors.New("no such scenario")
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
	k := &killer{at: point{call, os.Getenv(atAfter) != ""}, die: func() {
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

// outcome counts what came of the deaths of a scenario.
type outcome struct {
	points, deaths, completed, judged, real int
	blocked                                 map[string][]string // error → points
}

func TestEveryPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test runs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("copies sparse files as they are, which a Linux machine can")
	}
	var total outcome
	ran := 0
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			ran++
			o := s.everyPoint(t)
			t.Logf("%d points, %d deaths: %d requests completed, %d were told what is in the way; %d points with a killed process; sgdisk judged %d images",
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
	t.Attr("measured", fmt.Sprintf("%d points of %d operations, %d deaths: %d times the next request completed the work, %d times it named what is in the way; %d points with a killed process, %d images judged",
		total.points, len(scenarios()), total.deaths, total.completed, total.deaths-total.completed, total.real, total.judged))
	if ran == len(scenarios()) && (total.points < 1500 || total.real < 100) {
		t.Errorf("%d points and %d killed processes, want more: the test looks at too little", total.points, total.real)
	}
}

// everyPoint kills the scenario's request at each of its points.
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

	// What is to come of it: the request, a death after its last call, and the
	// same request again, because its answer is lost.
	undisturbed := &killer{die: func() {}}
	want := map[string]string{}
	for name, death := range deaths {
		m := s.boot(t, clone(t, base), lifeRequest, id)
		k := &killer{die: func() {}}
		p, err := m.start(lifeRequest, k.hook)
		if err == nil {
			err = s.request(t.Context(), p)
		}
		if err != nil {
			t.Fatalf("undisturbed: %v", err)
		}
		after := death(t, s, m)
		if err := s.request(t.Context(), s.process(t, after, lifeRetry)); err != nil && s.known(err) == nil {
			t.Fatalf("again, after %s: %v", name, err)
		}
		want[name] = described(t, after)
		undisturbed = k
		after.end(t)
		if after != m {
			m.end(t)
		}
	}
	o := outcome{blocked: map[string][]string{}}
	hit := map[string]bool{}
	for call := 1; call <= len(undisturbed.calls); call++ {
		for _, after := range []bool{false, true} {
			at := point{call, after}
			o.points++
			s.kill(t, base, id, at, func(death string, left *machine, calls []string) {
				where := fmt.Sprintf("%s, %s (%s)", death, at, calls[call-1])
				o.deaths++
				if !s.grown {
					s.judge(t, left, where, &o)
				}
				s.retry(t, left, where, want[death], at, &o, hit)
			})
			if o.points%11 == 1 {
				s.really(t, base, id, at)
				o.real++
			}
		}
	}
	if s.half != nil {
		s.half(t, s, base, id, want, &o, hit)
	}
	for _, b := range s.blocked {
		if !hit[b.text] {
			t.Errorf("no point leads to %q, which the scenario says (%s)", b.text, b.why)
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
	t.Cleanup(func() { m.Close() }) // where a test ends early
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

// deaths are the ways to die: the proxy alone, while Windows lives on; the
// proxy with the simulated node in it, which its state directory brings back; and
// the proxy with Windows, which boots.
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

// kill does the request until it dies at a point, and shows what each death leaves.
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
		return // it looked for the volume fewer times than the undisturbed one
	}
	if !k.dead {
		t.Fatalf("%s: the process lives: %v", at, err)
	}
	s.leave(t, m, func(death string, m *machine) { left(death, m, k.calls) })
}

// leave shows what each death leaves of a machine. The last takes it itself.
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
				t.Errorf("what a proxy leaves that dies alone is not what its state directory says:\n%s", difference(text, reopened))
			}
		}
		left(death, after)
		after.end(t)
	}
}

// difference are the lines that only one of two texts has.
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

// known finds what the scenario says about an error.
func (s scenario) known(err error) *blocked {
	for i, b := range s.blocked {
		if errors.Is(err, b.kind) && strings.HasSuffix(err.Error(), b.text) {
			return &s.blocked[i]
		}
	}
	return nil
}

// retry is the next identical request: it completes the work, or says what is in
// the way.
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
				t.Errorf("%s: out of the way: %v", where, err)
			}
			if err := s.request(t.Context(), s.process(t, m, lifeRetry+1)); err != nil {
				t.Errorf("%s: once that is out of the way: %v", where, err)
			}
		}
	} else {
		o.completed++
	}
	if got := described(t, m); got != want {
		t.Errorf("%s: the node is not what an undisturbed request makes of it:\n%s", where, difference(got, want))
	}
	s.judge(t, m, where+", request again", o)
}

// judge lets sgdisk look at the images with a GPT on a disk that has not grown
// behind its table.
func (s scenario) judge(t *testing.T, m *machine, where string, o *outcome) {
	t.Helper()
	if !s.tables || o.points%3 != 0 {
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

// needSgdisk skips a test that cannot judge images.
func needSgdisk(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Skip("needs sgdisk: a machine with the package gdisk")
	}
}

// sgdisk is what sgdisk finds wrong with an image.
func sgdisk(image string) string {
	out, err := exec.Command("sgdisk", "-v", image).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		return fmt.Sprintf("sgdisk -v: %v\n%s", err, out)
	}
	return ""
}

// really does with a process that is killed what kill does without, and wants the
// same bytes left.
func (s scenario) really(t *testing.T, base, id string, at point) {
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
		t.Fatalf("%s: the process lives: %v", at, err)
	}

	dir := clone(t, base)
	defer os.RemoveAll(dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+"="+s.name, atDir+"="+dir, atVolume+"="+id, atCall+"="+strconv.Itoa(at.call))
	if at.after {
		cmd.Env = append(cmd.Env, atAfter+"=1")
	}
	out, err := cmd.CombinedOutput()
	if s.arrives && strings.HasSuffix(strings.TrimSpace(string(out)), aliveAndWell) {
		return // as above
	}
	if err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("%s: the process was not killed: %v\n%s", at, err, out)
	}
	if got := digest(t, dir); got != want {
		t.Errorf("%s: a killed process leaves\n%s\nwant what the model of one leaves\n%s", at, got, want)
	}
}

// half ends a process in the middle of a format.
func halfAFormat(t *testing.T, s scenario, base, id string, want map[string]string, o *outcome, hit map[string]bool) {
	at := point{}
	dir := clone(t, base)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	var once sync.Once
	m, err := boot(dir, lifeRequest, s.config, func() {
		once.Do(func() {
			close(begun)
			cancel()
			runtime.Goexit() // the thread that formats is no more
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	m.volume = id
	go s.request(ctx, s.process(t, m, lifeRequest)) // its answer never comes
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
			if v.Name == id && v.FileSystem != "" {
				t.Errorf("%s in the middle of a format: the volume has the file system %s", death, v.FileSystem)
			}
		}
		s.retry(t, left, death+" in the middle of a format", want[death], at, o, hit)
	})
}

// blocked is an answer to the next identical request that does not complete it.
type blocked struct {
	kind error
	text string // at the end of the error
	why  string
	// clear is what the error asks for; the request completes then. nil: the
	// work was done.
	clear func(context.Context, *process) error
}

// scenario is an operation that is killed.
type scenario struct {
	name    string
	config  func(*emulated.Config)
	setup   func(*machine, *process) error
	request func(context.Context, *process) error
	blocked []blocked
	tables  bool // sgdisk judges the images
	grown   bool // but not before the disk's table knows of its growth
	arrives bool // volumes are on their way, which a node that is opened again has already; how often a request looks for them is not the same each time
	half    func(t *testing.T, s scenario, base, id string, want map[string]string, o *outcome, hit map[string]bool)
}
