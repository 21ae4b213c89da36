package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// fuzzTargets returns the functions Fuzz… of each directory, except those that only Windows compiles.
func fuzzTargets(ctx context.Context) (map[string][]string, error) {
	out, err := exec.CommandContext(ctx, "git", "grep", "--untracked", "-o", "^func Fuzz[A-Za-z0-9_]*", "--", "*_test.go", ":!*_windows_test.go").Output()
	if err != nil {
		return nil, fmt.Errorf("git grep: no fuzz target found: %w", err)
	}
	targets := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		file, name, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		targets[filepath.Dir(file)] = append(targets[filepath.Dir(file)], name)
	}
	return targets, nil
}

// fuzzAll runs every fuzz target for some time. The test binary of a package is compiled
// once, and each target runs in a process of its own. Twice as many packages run at once as there
// are CPUs, because some of them start or compile. guided instruments the code, so that the engine knows
// what an input reaches. That compiles every dependency once more, and is of no use in a second.
func fuzzAll(each time.Duration, guided bool) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		targets, err := fuzzTargets(ctx)
		if err != nil {
			return err
		}
		scratch, err := os.MkdirTemp("", "csi-fuzz")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		slots := make(chan struct{}, 2*runtime.NumCPU())
		var all []func() error
		for dir, names := range targets {
			binary := filepath.Join(scratch, strings.ReplaceAll(dir, "/", "_"))
			all = append(all, func() error {
				slots <- struct{}{}
				defer func() { <-slots }()
				args := []string{"test", "-c", "-o", binary, "."}
				if guided {
					args = append(args, "-fuzz=^Fuzz")
				}
				_, err := r.quiet(ctx, dir, "go", args...)
				for _, name := range names {
					if err == nil {
						err = r.fuzz(ctx, dir, name, binary, filepath.Join(cache, "csi-proxy", "fuzz", dir), each, guided)
					}
				}
				return err
			})
		}
		return together(all...)
	}
}

// quiet runs a command, and shows its output only in an error.
func (r *report) quiet(ctx context.Context, dir, name string, args ...string) (out string, err error) {
	c := r.command(ctx, dir, nil, name, args...)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err = c.Run(); err != nil {
		err = fmt.Errorf("%s %s in %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), dir, err, log.String())
	}
	return log.String(), err
}

// late matches a failure of Go's fuzzing engine, which sometimes reports the end of its time as an
// error (go.dev/issue/75804): the deadline is the only error of the target.
var late = regexp.MustCompile(`--- FAIL: Fuzz\w+ \(\S+\)\n\s+context deadline exceeded\nFAIL\n`)

// fuzz runs one target.
func (r *report) fuzz(ctx context.Context, dir, name, binary, cache string, each time.Duration, guided bool) error {
	for try := 1; ; try++ {
		out, err := r.quiet(ctx, dir, binary, "-test.run=^$", "-test.fuzz=^"+name+"$", "-test.fuzztime="+each.String(),
			"-test.fuzzminimizetime=10x", "-test.timeout=0", "-test.parallel=1", "-test.fuzzcachedir="+cache)
		if err == nil && strings.Contains(out, "not built with coverage") == guided {
			err = fmt.Errorf("%s in %s: want code that is instrumented for fuzzing: %t\n%s", name, dir, guided, out)
		}
		if err == nil {
			r.pass()
			return nil
		}
		if try == 3 || !late.MatchString(err.Error()) {
			r.fail()
			return err
		}
	}
}
