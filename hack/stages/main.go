// Command stages runs a list of stages: the checks of `make check`, `make test` and
// others, and the generators of `make generate`. It prints what each stage does, and how long it
// took, and at the end what passed, what failed, and what was skipped and why. Stages that
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
	name string
	does string // one line for the reader
	run  func(context.Context, *report) error
}

// A phase is stages that run at the same time, so many at once, and start in their order. The next
// phase starts when all have ended.
type phase []stage

// lanes is how many stages of a phase run at once. With three, two CPUs are not done earlier.
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
	fmt.Fprintf(stdout, "%s: %d stages\n", args[0], len(stages))
	for _, s := range stages {
		fmt.Fprintf(stdout, "  %-12s %s\n", s.name, s.does)
	}
	if dir := inMemory(); dir != "" {
		defer os.Remove(dir) // not if another run of this tree uses it
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

// inMemory returns a directory in memory, or "" if this machine has none with much room. Tests
// make thousands of simulated nodes, whose disks are files: on a file system of a disk they would
// mostly wait for its journal.
func inMemory() string {
	const shm, room = "/dev/shm", 4 << 30
	var free uint64
	var options string
	out, err := exec.Command("findmnt", "-bno", "AVAIL,OPTIONS", shm).Output()
	if _, scan := fmt.Sscan(string(out), &free, &options); err != nil || scan != nil || free < room || strings.Contains(options, "noexec") {
		return ""
	}
	tree, err := os.Getwd()
	if err != nil {
		return ""
	}
	// Short, because of sockets. The same in each run of a tree by a user: go test has cached results
	// only for the same TMPDIR.
	dir := path.Join(shm, fmt.Sprintf("csi%x", crc32.ChecksumIEEE(fmt.Append(nil, tree, os.Getuid()))))
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	if err != nil {
		return &report{stage: s, failed: 1, err: err}
	}
	defer os.Remove(out.Name())
	defer out.Close()
	r := s.do(ctx, out)
	if _, err = out.Seek(0, io.SeekStart); err == nil {
		err = print(out)
	}
	r.err = errors.Join(r.err, err)
	return r
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
	used                    time.Duration       // of the CPUs, by commands
}

// do runs a stage, which prints to out.
func (s stage) do(ctx context.Context, out io.Writer) *report {
	r := &report{stage: s, out: out, skips: map[string][]string{}}
	r.logf("=== %s: %s", s.name, s.does)
	start := time.Now()
	r.err = s.run(ctx, r)
	r.took = time.Since(start).Round(100 * time.Millisecond)
	if r.err == nil && r.failed > 0 {
		r.err = errors.New("tests failed")
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
	r.skips[reason] = append(r.skips[reason], what)
}

func (r *report) logf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// close prints the summary and returns the exit code.
func (all *summary) close(name string) int {
	logf := func(format string, args ...any) { fmt.Fprintf(all.out, format+"\n", args...) }
	sum := &report{stage: stage{name: "all"}, took: time.Since(all.began)}
	logf("=== summary of %s\n  %-12s %9s %9s %7s %7s %7s", name, "stage", "took", "CPU", "passed", "failed", "skipped")
	row := func(r *report) {
		logf("  %-12s %9s %9s %7d %7d %7d", r.stage.name, r.took.Round(time.Second), r.used.Round(time.Second), r.passed, r.failed, r.skipped)
	}
	for _, d := range all.done {
		row(d)
		sum.passed, sum.failed, sum.skipped, sum.used = sum.passed+d.passed, sum.failed+d.failed, sum.skipped+d.skipped, sum.used+d.used
	}
	row(sum)
	for _, d := range all.done {
		for reason, what := range d.skips {
			logf("  skipped in %s, %d: %s\n      %s", d.stage.name, len(what), reason, strings.Join(what, "\n      "))
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
	logf("%d passed, %d failed, %d skipped", sum.passed, sum.failed, sum.skipped)
	return min(sum.failed, 1)
}
