package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// fuzzAll runs every fuzz target for some time, each in one process. Twice as many run at
// once as there are CPUs, because some of them compile or start.
func fuzzAll(each time.Duration) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		targets, err := fuzzTargets()
		if err != nil {
			return err
		}
		atOnce := 2 * runtime.NumCPU()
		r.logf("%d targets, %v each, %d at a time", len(targets), each, atOnce)
		var (
			wg    sync.WaitGroup
			errs  = make([]error, len(targets))
			slots = make(chan struct{}, atOnce)
		)
		for i, t := range targets {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				errs[i] = r.fuzz(ctx, t, each)
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

// fuzz runs one target. It shows its last line of progress, or all its output if it
// fails.
func (r *report) fuzz(ctx context.Context, t fuzzTarget, each time.Duration) error {
	const tries = 3
	for try := 1; ; try++ {
		c := r.command(ctx, t.dir, nil, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "10x", "-timeout", "0", "-parallel", "1", ".")
		var log bytes.Buffer
		c.Stdout, c.Stderr = &log, &log
		err := c.Run()
		if err != nil && try < tries && endedLate(log.String()) {
			r.logf("  %-24s runs again: go test reported the end of its time as a failure", t.name)
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.logf("%s", log.String())
			r.cur.failed++
			return fmt.Errorf("%s in %s: %w", t.name, t.dir, err)
		}
		r.logf("  %-24s %s", t.name, lastProgress(log.String()))
		r.cur.passed++
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
