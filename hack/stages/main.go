// Command stages runs a list of stages: the checks of `make check`, `make test` and
// others, and the generators of `make generate`. It prints what each stage does and how
// long it may take, and at the end what passed, what failed, and what was skipped and why.
package main

import (
	"context"
	"errors"
	"fmt"
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
	budget time.Duration // on 2 cores with an empty build cache; going over is reported, not failed
	run    func(context.Context, *report) error
}

func lists() map[string][]stage {
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
	unit := stage{"unit", "go vet and the tests of every module", 10 * time.Minute, unitTests}
	unitQuick := stage{"unit", "tests of every module except slow ones; those of . and client only after a change", 2 * time.Minute, quickTests}
	example := stage{"example", "the adapter for mount-utils; csi-sanity and the life of volumes on the example driver, for each kind of volume", 3 * time.Minute, exampleModule}
	volumes := stage{"volumes", "10,000 volumes of the example driver, with failing Win32 calls and restarts, and as many with kills of the daemon", time.Hour, lifecycles(10_000)}
	deploy := stage{"deploy", "the chart and manifests by Helm and strict decoding, the admission policies by the API server's code, alerts and dashboard by Prometheus'", 5 * time.Minute, deployFiles}
	server := stage{"apiserver", "builds kube-apiserver and etcd once, installs the chart and the manifests, whose policies refuse and admit pods and volumes, and rolls releases out to 200 nodes", 15 * time.Minute, realServer}
	cluster := stage{"cluster", "builds Kubernetes and the sidecars of CSI once; one node, then ten: claims, growth, moves; and what goes wrong in the field", 40 * time.Minute, realCluster}
	release := stage{"release", "a release of small programs, made twice: equal files, and an image that a registry's library reads", 90 * time.Second, releaseModule}
	race := stage{"race", "the concurrent packages under the race detector", 6 * time.Minute, raceTests}
	build := stage{"build", "the programs for this machine and for Windows", 2 * time.Minute, buildAll}
	published := stage{"published", "the published client modules call our daemon, each in its own process", 2 * time.Minute, publishedClients}
	wine := stage{"wine", "the Windows build under Wine 10: pipes, the service, files, disks by a driver, and the example driver; installs Wine once (root, Debian)", 10 * time.Minute, wineTests}
	lab := stage{"lab", "Windows drivers under Wine, on a simulated node: the example's, and a public one, GCE PD, which it downloads once", 5 * time.Minute, labTests(vetted, "./...")}
	gce := stage{"gcepd", "a public driver, GCE PD, under Wine: csi-sanity, volumes, beta versions; downloads it once", 5 * time.Minute, labTests(vettedBefore, "./gcepd")}
	kill := stage{"kill", "the daemon is killed 100 times during calls, and what it has confirmed is still there; and 100 times while it logs", 2 * time.Minute, killTests(100)}
	kills := stage{"kill", "the same, 5,000 times", 30 * time.Minute, killTests(5000)}
	worlds := stage{"worlds", "the contract, the kills at every call and the changes between calls, in each world of the simulated node", 4 * time.Hour, allWorlds}
	faults := stage{"faults", "what csi-proxyctl says while each Win32 call of each operation fails, hangs or lies", 10 * time.Minute, everyFault}
	content := stage{"content", "every disk image of test/images by PartitionDisk, FormatVolume and ResizeVolume", 20 * time.Minute, allImages}
	hunt := stage{"hunt", "60,000 runs of the seeded simulation, with seeds that no run had before", 3 * time.Hour, hunts(60_000)}
	demo := stage{"demo", "make demo", time.Minute, demo}
	fuzz := stage{"fuzz", "every fuzz target for a second", 2 * time.Minute, fuzzAll(time.Second)}
	longFuzz := stage{"fuzz", "every fuzz target for five minutes", 5 * time.Hour, fuzzAll(5 * time.Minute)}
	flood := stage{"flood", "10 seconds of callers, broken connections and failing Win32 calls on the daemon that was built", time.Minute, floodDaemon}
	longFlood := stage{"flood", "the same for ten minutes, under the race detector", 12 * time.Minute, floodUnderRace}
	return map[string][]stage{
		"check":        {format, generated, vet, unitQuick},
		"test":         {setup, images, tools, format, generated, workflows, vet, static, dead, vuln, build, unit, example, deploy, release, race, fuzz, published, flood, kill, wine, lab, demo},
		"fuzz":         {fuzz},
		"kill":         {setup, build, kill},
		"soak":         {setup, images, build, kills, volumes, worlds, faults, content, hunt, longFlood, longFuzz},
		"wine":         {setup, wine},
		"gcepd":        {gce},
		"apiserver":    {server},
		"cluster":      {cluster},
		"generate":     generate(generators()),
		"generate-api": generate(generators()[:1]),
	}
}

func run(args []string, stdout io.Writer) int {
	known := lists()
	if len(args) != 1 || known[args[0]] == nil {
		fmt.Fprintf(stdout, "usage: stages %s\n", strings.Join(slices.Sorted(maps.Keys(known)), "|"))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	stages := known[args[0]]
	var total time.Duration
	fmt.Fprintf(stdout, "%s: %d stages\n", args[0], len(stages))
	for _, s := range stages {
		fmt.Fprintf(stdout, "  %-12s up to %-6s %s\n", s.name, s.budget, s.does)
		total += s.budget
	}
	fmt.Fprintf(stdout, "  %-12s up to %s\n\n", "together", total)

	r := &report{out: stdout, began: time.Now()}
	if dir := inMemory(); dir != "" {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	for _, s := range stages {
		if ctx.Err() != nil {
			break
		}
		r.do(ctx, s)
	}
	code := r.close(args[0])
	if len(r.done) < len(stages) { // also between two stages
		fmt.Fprintf(stdout, "interrupted: %d of %d stages ran\n", len(r.done), len(stages))
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
	dir, err := os.MkdirTemp(shm, "") // short, because of sockets
	if err != nil {
		return ""
	}
	return dir
}

// report collects what the stages did. Tests are counted from the records of go test.
type report struct {
	out   io.Writer
	mu    sync.Mutex // held while something is counted
	done  []result
	began time.Time

	start time.Time
	cur   *result
}

type result struct {
	stage                   stage
	took                    time.Duration
	passed, failed, skipped int
	skips                   map[string][]string // reason → what was skipped
	slow                    []string            // packages whose tests take long
	err                     error
}

// long is from when on the tests of a package are named for their time.
const long = 20 * time.Second

// packageEnded records how long the tests of a package took.
func (r *report) packageEnded(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Second); took >= long {
		r.cur.slow = append(r.cur.slow, fmt.Sprintf("%s %s", path.Base(e.Package), took))
	}
}

// do runs a stage.
func (r *report) do(ctx context.Context, s stage) {
	r.begin(s)
	r.end(s.run(ctx, r))
}

func (r *report) begin(s stage) {
	fmt.Fprintf(r.out, "=== %s: %s (up to %s)\n", s.name, s.does, s.budget)
	r.start = time.Now()
	r.cur = &result{stage: s, skips: map[string][]string{}}
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

// pass counts a check that is not a test.
func (r *report) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cur.passed++
}

func (r *report) skip(what, reason string) {
	r.cur.skipped++
	r.cur.skips[reason] = append(r.cur.skips[reason], what)
}

func (r *report) logf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) end(err error) {
	r.cur.took = time.Since(r.start).Round(100 * time.Millisecond)
	r.cur.err = err
	if len(r.cur.slow) > 0 {
		r.logf("  slow packages: %s", strings.Join(r.cur.slow, ", "))
	}
	if err != nil {
		if r.cur.failed == 0 {
			r.cur.failed = 1
		}
		r.logf("--- %s FAILED after %s: %v\n", r.cur.stage.name, r.cur.took, err)
	} else {
		r.logf("--- %s ok in %s\n", r.cur.stage.name, r.cur.took)
	}
	r.done = append(r.done, *r.cur)
	r.cur = nil
}

// close prints the summary and returns the exit code.
func (r *report) close(name string) int {
	var passed, failed, skipped int
	r.logf("=== summary of %s", name)
	r.logf("  %-12s %9s %9s %7s %7s %7s", "stage", "budget", "took", "passed", "failed", "skipped")
	for _, d := range r.done {
		note := ""
		if d.took > d.stage.budget {
			note = "  over budget"
		}
		r.logf("  %-12s %9s %9s %7d %7d %7d%s", d.stage.name, d.stage.budget, d.took, d.passed, d.failed, d.skipped, note)
		passed, failed, skipped = passed+d.passed, failed+d.failed, skipped+d.skipped
	}
	r.logf("  %-12s %9s %9s %7d %7d %7d", "all", "", time.Since(r.began).Round(time.Second), passed, failed, skipped)
	for _, d := range r.done {
		for reason, what := range d.skips {
			r.logf("  skipped in %s, %d: %s", d.stage.name, len(what), reason)
			r.logf("      %s", strings.Join(what, "\n      "))
		}
	}
	for _, d := range r.done {
		if d.err != nil {
			r.logf("  FAILED %s: %v", d.stage.name, d.err)
		}
	}
	if !strings.HasPrefix(name, "generate") {
		r.logf("  not run at all: anything on a real Windows; see docs/develop/verification.md")
	}
	r.logf("%d passed, %d failed, %d skipped", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}
