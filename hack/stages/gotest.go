package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a record of go test -json (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
	Key, Value                    string // of an attribute
	ImportPath                    string
	Elapsed                       float64 // seconds
}

// quick is the flag of make check, with which slow tests skip themselves.
const quick = "-short"

// ownFiles are the modules whose tests read only their own files. go test does not notice a
// change of a file outside of the module, so that a cached result of other tests may be wrong.
var ownFiles = []string{".", "client"}

// mayBeCached reports whether cached results of go test count: in make check, for tests that
// read only their own files. The patterns are those of allOf.
func mayBeCached(args []string) bool {
	return slices.Contains(args, quick) && !slices.Contains(args, "-race") &&
		!slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasSuffix(arg, "...") && !slices.Contains(allOf(ownFiles), arg)
		})
}

// allOf returns the patterns of all packages of the modules, from the root.
func allOf(modules []string) []string {
	var patterns []string
	for _, m := range modules {
		patterns = append(patterns, "./"+path.Join(m, "..."))
	}
	return patterns
}

// hung is how long the tests of a package may take. Most take less than two minutes, but
// a slow machine is not a failure.
const hung = 30 * time.Minute

// goTest runs go test in dir and counts its tests. It shows the output of tests that
// fail.
func (r *report) goTest(ctx context.Context, dir string, env []string, args ...string) error {
	flags := []string{"test", "-json", "-timeout=" + hung.String()}
	if dir != "." || !mayBeCached(args) {
		flags = append(flags, "-count=1")
	}
	c := r.command(ctx, dir, env, "go", append(flags, args...)...)
	c.Stdout = nil
	pipe, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	r.logf("go test %s (module %s)", strings.Join(args, " "), dir)
	if err := c.Start(); err != nil {
		return err
	}
	counted := r.count(bufio.NewScanner(pipe))
	if err := c.Wait(); err != nil {
		return fmt.Errorf("go test %s in %s: %w", strings.Join(args, " "), dir, err)
	}
	if counted == 0 {
		return fmt.Errorf("go test %s in %s ran no test", strings.Join(args, " "), dir)
	}
	return nil
}

// count reads go test's records and returns how many tests ended.
func (r *report) count(lines *bufio.Scanner) int {
	lines.Buffer(nil, 16<<20)
	output := map[string][]string{} // of tests still running
	parents := map[string]bool{}    // tests with subtests, which are counted instead
	counted := 0
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.logf("%s", lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "run":
			if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
				parents[e.Package+" "+e.Test[:i]] = true
			}
		case "output", "build-output":
			if e.Action == "build-output" {
				r.logf("%s", strings.TrimRight(e.Output, "\n"))
				continue
			}
			output[key] = append(output[key], e.Output)
		case "attr":
			r.attr(e)
		case "pass", "fail", "skip":
			if e.Test != "" {
				counted++
				r.ended(e, key, parents[key], output[key])
			} else {
				r.packageEnded(e)
				if e.Action == "fail" {
					r.died(e.Package, output)
					r.logf("%s", strings.TrimRight(strings.Join(output[key], ""), "\n"))
				}
			}
			delete(output, key)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return counted
}

// died shows the output of tests that were running when their process ended: from where it says why,
// or else the last.
func (r *report) died(pkg string, output map[string][]string) {
	const most = 200
	for key, lines := range output {
		if name, ok := strings.CutPrefix(key, pkg+" "); ok && name != "" && len(lines) > 0 {
			from := slices.IndexFunc(lines, reason.MatchString)
			if from < 0 {
				from = max(0, len(lines)-most)
			}
			r.logf("%s did not end:\n%s", name, strings.TrimRight(strings.Join(lines[from:min(from+most, len(lines))], ""), "\n"))
		}
	}
}

// reason matches the first line of a Go process that crashes.
var reason = regexp.MustCompile(`^(panic|fatal error|runtime|SIG[A-Z]+|==\d+==ERROR|FATAL): `)

// measured is the attribute with which a test shows a number.
const measured = "measured"

func (r *report) attr(e event) {
	if e.Key != measured {
		return
	}
	r.logf("  %s: %s", e.Test, e.Value)
}

func (r *report) ended(e event, key string, parent bool, output []string) {
	switch {
	case e.Action == "skip":
		r.skip(key, skipReason(output))
	case e.Action == "fail":
		r.logf("%s", strings.TrimRight(strings.Join(output, ""), "\n"))
		if !parent {
			r.fail()
		}
	case !parent:
		r.pass()
	}
}

// logged matches what a test logs, as opposed to what the code that it tests prints.
var logged = regexp.MustCompile(`^\S+\.go:\d+: (.*)`)

// skipReason returns the last line that a test logged, or else its last output.
func skipReason(output []string) string {
	reason := "no reason given"
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if found := logged.FindStringSubmatch(line); found != nil {
			return found[1]
		}
		if reason == "no reason given" && line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			reason = line
		}
	}
	return reason
}
