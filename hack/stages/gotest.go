package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// A command counts the CPU time that it takes, with the processes that it starts and waits for.
type command struct {
	*exec.Cmd
	r *report
}

// command returns a command whose output goes to the reader. Everything is compiled as the
// programs are, so that nothing is compiled twice: without a C compiler, unless env has
// CGO_ENABLED, with -trimpath, and with the programs' build tags, which are those of the Makefile.
// The stage vet vets, and go test does not.
func (r *report) command(ctx context.Context, dir string, env []string, name string, args ...string) command {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -trimpath -vet=off -tags=grpcnotrace,nethttpomithttp2")
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+flags), env...)
	c.Stdout, c.Stderr = r.out, r.out
	return command{c, r}
}

func (c command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

func (c command) Wait() error {
	err := c.Cmd.Wait()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.used += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return err
}

// check runs a command, and counts it as a test.
func (r *report) check(ctx context.Context, dir string, env []string, name string, args ...string) error {
	if err := r.command(ctx, dir, env, name, args...).Run(); err != nil {
		return fmt.Errorf("%s %s in %s: %w", name, strings.Join(args, " "), dir, err)
	}
	r.pass()
	return nil
}

// goTest runs go test in dir and counts its tests. It shows the output of tests that
// fail. Results of an earlier run do not count.
func (r *report) goTest(ctx context.Context, dir string, env []string, args ...string) error {
	return r.goTestOrCached(ctx, dir, env, append([]string{"-count=1"}, args...)...)
}

// hung is how long the tests of a package may take, unless args say otherwise. Most take less than
// two minutes, but a slow machine is not a failure.
const hung = "-timeout=30m"

func (r *report) goTestOrCached(ctx context.Context, dir string, env []string, args ...string) error {
	what := fmt.Sprintf("go test %s (in %s)", strings.Join(args, " "), dir)
	r.logf("%s", what)
	c := r.command(ctx, dir, env, "go", append([]string{"test", "-json", hung}, args...)...)
	c.Stdout = nil
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	counted := r.count(pipe)
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if counted == 0 {
		return fmt.Errorf("%s ran no test", what)
	}
	return nil
}

// event is a record of go test -json (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
	Key, Value                    string // of an attribute
}

// count reads go test's records and returns how many tests ended. A test with subtests is not
// counted itself.
func (r *report) count(records io.Reader) (counted int) {
	output := map[string][]string{} // of tests still running
	parents := map[string]bool{}
	lines := bufio.NewScanner(records)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			r.logf("%s", lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "run":
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
				parents[e.Package+" "+e.Test[:i]] = true
			}
		case "output":
			output[key] = append(output[key], e.Output)
		case "build-output":
			io.WriteString(r.out, e.Output)
		case "attr":
			if e.Key == "measured" {
				r.logf("  %s: %s", e.Test, e.Value)
			}
		case "pass", "fail", "skip":
			switch reason := skipReason(output[key]); {
			case e.Test == "" && e.Action == "fail":
				r.died(e.Package, output)
				r.logf("%s", strings.TrimSpace(strings.Join(output[key], "")))
			case e.Test == "":
			case e.Action == "skip" && reason != "":
				r.skip(key, reason)
			case e.Action != "pass":
				r.logf("%s", strings.TrimSpace(strings.Join(output[key], "")))
				if e.Action == "skip" {
					r.logf("%s is skipped without a reason", key)
				}
				if !parents[key] {
					r.fail()
				}
			case !parents[key]:
				r.pass()
			}
			if e.Test != "" {
				counted++
			}
			delete(output, key)
		}
	}
	if err := lines.Err(); err != nil {
		r.logf("go test's records: %v", err)
		r.fail()
	}
	return counted
}

// crash matches the first line of a Go process that crashes.
var crash = regexp.MustCompile(`^(panic|fatal error|runtime|SIG[A-Z]+|==\d+==ERROR|FATAL): `)

// died shows the output of tests that were running when their process ended: from where it says why,
// or else all.
func (r *report) died(pkg string, output map[string][]string) {
	const most = 200
	for key, lines := range output {
		if name, ok := strings.CutPrefix(key, pkg+" "); ok && name != "" {
			from := max(0, slices.IndexFunc(lines, crash.MatchString))
			r.logf("%s did not end:\n%s", name, strings.TrimSpace(strings.Join(lines[from:min(from+most, len(lines))], "")))
		}
	}
}

// logged matches what a test logs, as opposed to what the code that it tests prints.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

// skipReason returns the last line that a test logged.
func skipReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if found := logged.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			return found[1]
		}
	}
	return ""
}
