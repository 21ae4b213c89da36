// Command stages runs a list of stages: the checks of `make check`, `make test` and
// others, and the generators of `make generate`. It prints what each stage does and how long
// it may take, and at the end what passed, what failed, and what was skipped and why. Stages that
// do not need one another run at the same time.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// A stage is one step of a run.
type stage struct {
	name   string
	does   string        // one line for the reader
	budget time.Duration // on 2 cores with an empty build cache, beside another; going over is reported, not failed
	run    func(context.Context, *report) error
}

func lists() map[string][]phase {
	setup := stage{"setup", "install the Debian packages that tests use", 3 * time.Minute, installPackages}
	images := stage{"images", "download the disk images that Windows wrote, of Debian's source packages, once", time.Minute, getImages}
	tools := stage{"tools", "build staticcheck, deadcode, govulncheck and actionlint in the versions of hack/release", 2 * time.Minute, buildTools}
	generated := stage{"generated", "generated files are up to date, and go.mod files tidy", 2 * time.Minute, checkGenerated}
	format := stage{"format", "gofmt of every Go file", 10 * time.Second, checkFormat}
	vet := stage{"vet", "go vet for Windows of what differs there; for Linux the tests include it", 2 * time.Minute, vetWindows}
	static := stage{"staticcheck", "staticcheck of every package, for windows of what differs there", 2 * time.Minute, staticcheck}
	dead := stage{"deadcode", "no function that no program reaches, for linux and windows", 40 * time.Second, deadCode}
	workflows := stage{"workflows", "actionlint of the workflows of GitHub", 10 * time.Second, lintWorkflows}
	vuln := stage{"govulncheck", "known vulnerabilities in what each module requires, if the database can be reached", 3 * time.Minute, govulncheck}
	unit := stage{"unit", "go vet and the tests of every module", 15 * time.Minute, unitTests}
	unitQuick := stage{"unit", "tests of every module except slow ones; those of . and client only after a change", 2 * time.Minute, quickTests}
	example := stage{"example", "the adapter for mount-utils; csi-sanity and the life of volumes on the example driver, for each kind of volume", 5 * time.Minute, exampleModule}
	volumes := stage{"volumes", "10,000 volumes of the example driver, with failing Win32 calls and restarts, and as many with kills of the daemon", time.Hour, lifecycles(10_000)}
	deploy := stage{"deploy", "the chart and manifests by Helm and strict decoding, the admission policies by the API server's code, alerts and dashboard by Prometheus'", 5 * time.Minute, deployFiles}
	server := stage{"apiserver", "builds kube-apiserver and etcd once, installs the chart and the manifests, whose policies refuse and admit pods and volumes, and rolls releases out to 200 nodes", 15 * time.Minute, realServer}
	cluster := stage{"cluster", "builds Kubernetes and the sidecars of CSI once; one node, then ten: claims, growth, moves; and what goes wrong in the field", 40 * time.Minute, realCluster}
	release := stage{"release", "a release of small programs, made twice: equal files, and an image that a registry's library reads", 90 * time.Second, releaseModule}
	race := stage{"race", "the concurrent packages under the race detector", 10 * time.Minute, raceTests}
	build := stage{"build", "the programs for this machine and for Windows", 2 * time.Minute, buildAll}
	published := stage{"published", "the published client modules call our daemon, each in its own process", 2 * time.Minute, publishedClients}
	wine := stage{"wine", "the Windows build under Wine 10: pipes, the service, files, disks by a driver, and the example driver; installs Wine once (root, Debian)", 15 * time.Minute, wineTests}
	lab := stage{"lab", "Windows drivers under Wine, on a simulated node: the example's, and a public one, GCE PD, which it downloads once", 8 * time.Minute, labTests(vetted, "./...")}
	gce := stage{"gcepd", "a public driver, GCE PD, under Wine: csi-sanity, volumes, beta versions; downloads it once", 5 * time.Minute, labTests(vettedBefore, "./gcepd")}
	kill := stage{"kill", "the daemon is killed 100 times during calls, and what it has confirmed is still there; and 100 times while it logs", 2 * time.Minute, killTests(100)}
	kills := stage{"kill", "the same, 5,000 times", 30 * time.Minute, killTests(5000)}
	worlds := stage{"worlds", "the contract, the kills at every call and the changes between calls, in each world of the simulated node", 4 * time.Hour, allWorlds}
	faults := stage{"faults", "what csi-proxyctl says while each Win32 call of each operation fails, hangs or lies", 10 * time.Minute, everyFault}
	content := stage{"content", "every disk image of test/images by PartitionDisk, FormatVolume and ResizeVolume, a thousand blank disks, each cleaning of used ones", 20 * time.Minute, allImages}
	hunt := stage{"hunt", "60,000 runs of the seeded simulation, with seeds that no run had before", 3 * time.Hour, hunts(60_000)}
	demo := stage{"demo", "make demo", time.Minute, demo}
	fuzz := stage{"fuzz", "every fuzz target for a second", 2 * time.Minute, fuzzAll(time.Second)}
	longFuzz := stage{"fuzz", "every fuzz target for five minutes", 5 * time.Hour, fuzzAll(5 * time.Minute)}
	flood := stage{"flood", "10 seconds of callers, broken connections and failing Win32 calls on the daemon that was built", time.Minute, floodDaemon}
	longFlood := stage{"flood", "the same for ten minutes, under the race detector", 12 * time.Minute, floodUnderRace}
	return map[string][]phase{
		"check": {{unitQuick, generated, vet, format}},
		"test": {
			{setup, images, tools},
			{static, dead, vet, generated, vuln, build, format, workflows},
			{unit, wine, race, lab, example, published, deploy, fuzz, kill, flood, release},
			{demo},
		},
		"fuzz":         {{fuzz}},
		"kill":         {{setup}, {build}, {kill}},
		"soak":         {{setup}, {images}, {build}, {kills}, {volumes}, {worlds}, {faults}, {content}, {hunt}, {longFlood}, {longFuzz}},
		"wine":         {{setup}, {wine}},
		"gcepd":        {{gce}},
		"apiserver":    {{server}},
		"cluster":      {{cluster}},
		"generate":     generate(generators()),
		"generate-api": generate(generators()[:1]),
	}
}

// A phase is stages that run at the same time, so many at once, and start in their order. The next
// phase starts when all have ended.
type phase []stage

// lanes is how many stages of a phase run at once. More than two wait less, and take more memory.
const lanes = 2

func run(args []string, stdout io.Writer) int {
	known := lists()
	if len(args) != 1 || known[args[0]] == nil {
		fmt.Fprintf(stdout, "usage: stages %s\n", strings.Join(slices.Sorted(maps.Keys(known)), "|"))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	phases := known[args[0]]
	stages := slices.Concat(phases...)
	var total time.Duration
	fmt.Fprintf(stdout, "%s: %d stages\n", args[0], len(stages))
	for _, s := range stages {
		fmt.Fprintf(stdout, "  %-12s up to %-6s %s\n", s.name, s.budget, s.does)
		total += s.budget
	}
	fmt.Fprintf(stdout, "  %-12s up to %s one after another\n\n", "together", total)

	if dir := inMemory(); dir != "" {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	all := &summary{out: stdout, began: time.Now()}
	for _, p := range phases {
		all.do(ctx, p)
	}
	code := all.close(args[0])
	if len(all.done) < len(stages) { // also between two stages
		fmt.Fprintf(stdout, "interrupted: %d of %d stages ran\n", len(all.done), len(stages))
		return 1
	}
	return code
}

// inMemory returns a new directory in memory, or "" if this machine has none with much room. Tests
// make thousands of simulated nodes, whose disks are files: on a file system of a disk they would
// mostly wait for its journal.
func inMemory() string {
	const shm, room = "/dev/shm", 4 << 30
	out, err := exec.Command("findmnt", "-bno", "AVAIL,OPTIONS", shm).Output()
	var free uint64
	var options string
	if _, scan := fmt.Sscan(string(out), &free, &options); err != nil || scan != nil || free < room || strings.Contains(options, "noexec") {
		return ""
	}
	tree, err := os.Getwd()
	if err != nil {
		return ""
	}
	// Short, because of sockets. The same in each run of a tree: go test has cached results only for
	// the same TMPDIR.
	dir := path.Join(shm, fmt.Sprintf("csi%x", crc32.ChecksumIEEE([]byte(tree))))
	if os.Mkdir(dir, 0o700) == nil {
		return dir
	}
	dir, err = os.MkdirTemp(shm, "") // another run is using the first, or was killed
	if err != nil {
		return ""
	}
	return dir
}

// summary has what the stages did.
type summary struct {
	out   io.Writer
	began time.Time
	mu    sync.Mutex // held while something is printed
	done  []*report
}

// do runs the stages of a phase. After an interrupt none starts.
func (all *summary) do(ctx context.Context, p phase) {
	reports := make([]*report, len(p))
	slots := make(chan struct{}, lanes)
	var wg sync.WaitGroup
	for i, s := range p {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if len(p) == 1 {
				reports[i] = s.do(ctx, all.out)
			} else {
				reports[i] = all.beside(ctx, s)
			}
		})
	}
	wg.Wait()
	all.done = append(all.done, slices.DeleteFunc(reports, func(r *report) bool { return r == nil })...)
}

// beside runs a stage while others run. What it prints is shown whole when it has ended.
func (all *summary) beside(ctx context.Context, s stage) *report {
	print := func(from io.Reader) error {
		all.mu.Lock()
		defer all.mu.Unlock()
		_, err := io.Copy(all.out, from)
		return err
	}
	print(strings.NewReader("... " + s.name + " starts\n"))
	out, err := os.CreateTemp("", s.name) // a file, because processes write to it, too
	if err == nil {
		defer os.Remove(out.Name())
		defer out.Close()
		r := s.do(ctx, out)
		if _, err = out.Seek(0, io.SeekStart); err == nil {
			err = print(out)
		}
		r.err = errors.Join(r.err, err)
		return r
	}
	return &report{stage: s, failed: 1, err: err}
}

// report is what one stage did. Tests are counted from the records of go test.
type report struct {
	stage stage
	out   io.Writer
	took  time.Duration
	err   error

	mu                      sync.Mutex // held while something is counted
	passed, failed, skipped int
	skips                   map[string][]string // reason → what was skipped
	slow                    []string            // packages whose tests take long
	used                    time.Duration       // of the CPUs, by commands
}

// do runs a stage, which prints to out.
func (s stage) do(ctx context.Context, out io.Writer) *report {
	r := &report{stage: s, out: out}
	r.logf("=== %s: %s (up to %s)", s.name, s.does, s.budget)
	start := time.Now()
	r.err = s.run(ctx, r)
	r.took = time.Since(start).Round(100 * time.Millisecond)
	if len(r.slow) > 0 {
		r.logf("  slow packages: %s", strings.Join(r.slow, ", "))
	}
	took := fmt.Sprintf("%s, CPU %s", r.took, r.used.Round(100*time.Millisecond))
	if r.err != nil {
		r.failed = max(r.failed, 1)
		r.logf("--- %s FAILED after %s: %v\n", s.name, took, r.err)
	} else {
		r.logf("--- %s ok in %s\n", s.name, took)
	}
	return r
}

// long is from when on the tests of a package are named for their time.
const long = 20 * time.Second

// packageEnded records how long the tests of a package took.
func (r *report) packageEnded(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Second); took >= long {
		r.slow = append(r.slow, fmt.Sprintf("%s %s", path.Base(e.Package), took))
	}
}

// together calls functions at the same time: their tests wait, for limits and for processes.
func together(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// pass counts a test or another check.
func (r *report) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
}

func (r *report) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
}

func (r *report) skip(what, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped++
	if r.skips == nil {
		r.skips = map[string][]string{}
	}
	r.skips[reason] = append(r.skips[reason], what)
}

func (r *report) logf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// close prints the summary and returns the exit code.
func (all *summary) close(name string) int {
	logf := func(format string, args ...any) { fmt.Fprintf(all.out, format+"\n", args...) }
	var passed, failed, skipped int
	var used time.Duration
	logf("=== summary of %s", name)
	logf("  %-12s %9s %9s %9s %7s %7s %7s", "stage", "budget", "took", "CPU", "passed", "failed", "skipped")
	for _, d := range all.done {
		note := ""
		if d.took > d.stage.budget {
			note = "  over budget"
		}
		logf("  %-12s %9s %9s %9s %7d %7d %7d%s", d.stage.name, d.stage.budget, d.took, d.used.Round(time.Second), d.passed, d.failed, d.skipped, note)
		passed, failed, skipped, used = passed+d.passed, failed+d.failed, skipped+d.skipped, used+d.used
	}
	logf("  %-12s %9s %9s %9s %7d %7d %7d", "all", "", time.Since(all.began).Round(time.Second), used.Round(time.Second), passed, failed, skipped)
	for _, d := range all.done {
		for reason, what := range d.skips {
			logf("  skipped in %s, %d: %s", d.stage.name, len(what), reason)
			logf("      %s", strings.Join(what, "\n      "))
		}
	}
	for _, d := range all.done {
		if d.err != nil {
			logf("  FAILED %s: %v", d.stage.name, d.err)
		}
	}
	if !strings.HasPrefix(name, "generate") {
		logf("  not run at all: anything on a real Windows; see docs/develop/verification.md")
	}
	logf("%d passed, %d failed, %d skipped", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}
