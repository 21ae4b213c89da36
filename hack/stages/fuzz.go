package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fuzzTarget is a function Fuzz… of a test file.
type fuzzTarget struct{ dir, name string }

// fuzzTargets finds the targets in the source of the modules, except those that only
// Windows compiles.
func fuzzTargets() ([]fuzzTarget, error) {
	var targets []fuzzTarget
	for _, m := range modules {
		err := filepath.WalkDir(m, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && path != m {
				if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
					return filepath.SkipDir
				}
			}
			if !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_windows_test.go") && runtime.GOOS != "windows" {
				return nil
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(src)) {
				if rest, ok := strings.CutPrefix(line, "func Fuzz"); ok {
					name, _, _ := strings.Cut(rest, "(")
					targets = append(targets, fuzzTarget{filepath.Dir(path), "Fuzz" + name})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("no fuzz target found")
	}
	return targets, nil
}

// fuzzAll runs every fuzz target for some time. The test binary of a package is compiled
// once, and each target runs in a process of its own. Twice as many run at once as there
// are CPUs, because some of them start or compile.
func fuzzAll(each time.Duration) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		targets, err := fuzzTargets()
		if err != nil {
			return err
		}
		scratch, err := os.MkdirTemp("", "csi-fuzz")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
		if err != nil {
			return err
		}
		slots := make(chan struct{}, 2*runtime.NumCPU())
		r.logf("%d targets, %v each, %d at a time", len(targets), each, cap(slots))
		binaries := map[string]func() (string, error){}
		for _, t := range targets {
			if binaries[t.dir] == nil {
				out := filepath.Join(scratch, strconv.Itoa(len(binaries)))
				binaries[t.dir] = sync.OnceValues(func() (string, error) { return out, r.compileFuzz(ctx, t.dir, out) })
			}
		}
		var (
			wg   sync.WaitGroup
			errs = make([]error, len(targets))
		)
		for i, t := range targets {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				binary, err := binaries[t.dir]()
				if err != nil {
					errs[i] = err
					return
				}
				errs[i] = r.fuzz(ctx, t, binary, filepath.Join(strings.TrimSpace(string(cache)), "fuzz", "csi-proxy", t.dir), each)
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

// compileFuzz compiles the tests of the package in dir with the instrumentation for fuzzing.
func (r *report) compileFuzz(ctx context.Context, dir, out string) error {
	c := r.command(ctx, dir, nil, "go", "test", "-c", "-fuzz", "^Fuzz", "-o", out, ".")
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Run(); err != nil {
		return fmt.Errorf("compile the fuzz targets of %s: %w\n%s", dir, err, log.String())
	}
	return nil
}

// fuzz runs one target. It shows its last line of progress, or all its output if it
// fails.
func (r *report) fuzz(ctx context.Context, t fuzzTarget, binary, cache string, each time.Duration) error {
	const tries = 3
	for try := 1; ; try++ {
		c := r.command(ctx, t.dir, nil, binary, "-test.run", "^$", "-test.fuzz", "^"+t.name+"$", "-test.fuzztime", each.String(),
			"-test.fuzzminimizetime", "10x", "-test.timeout", "0", "-test.parallel", "1", "-test.fuzzcachedir", cache)
		var log bytes.Buffer
		c.Stdout, c.Stderr = &log, &log
		err := c.Run()
		if err != nil && try < tries && endedLate(log.String()) {
			r.logf("  %-24s runs again: go test reported the end of its time as a failure", t.name)
			continue
		}
		if err == nil && strings.Contains(log.String(), "not built with coverage") {
			err = errors.New("the test binary is not instrumented for fuzzing")
		}
		if err != nil {
			r.logf("%s", log.String())
			r.fail()
			return fmt.Errorf("%s in %s: %w", t.name, t.dir, err)
		}
		r.logf("  %-24s %s", t.name, lastProgress(log.String()))
		r.pass()
		return nil
	}
}

// endedLate reports whether a failure is one of Go's fuzzing engine, which sometimes
// reports the end of its time as an error (go.dev/issue/75804). Then no input failed, and
// the deadline is the only error of the target.
func endedLate(log string) bool {
	_, blame, failed := strings.Cut(log, "--- FAIL: ")
	if !failed || strings.Contains(log, "Failing input written") {
		return false
	}
	lines := strings.Split(blame, "\n")
	return len(lines) > 2 && strings.TrimSpace(lines[1]) == "context deadline exceeded" && strings.TrimSpace(lines[2]) == "FAIL"
}

// lastProgress returns the last line of progress.
func lastProgress(log string) string {
	last := "no progress reported"
	for line := range strings.Lines(log) {
		if rest, ok := strings.CutPrefix(line, "fuzz: elapsed: "); ok {
			last = strings.TrimSpace(rest)
		}
	}
	return last
}
