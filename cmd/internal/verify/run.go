package verify

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/admindir"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/testbed"
)

// Exit codes.
const (
	exitFailed  = 1 // a case failed, or something could not be cleaned up
	exitRefused = 2 // or wrong flags
)

// childCommand is the first argument of the child that runs a section.
const childCommand = "section"

// sectionLimit is how long a section may take, except for that of questions, each of which has
// a limit.
const sectionLimit = 40 * time.Minute

// IsChild reports whether the arguments are those of a process that [Run] started, or
// that the service manager started for it.
func IsChild(args []string) bool {
	return len(args) > 0 && (args[0] == childCommand || args[0] == node.FormatHelper || args[0] == testbed.IdleService)
}

// Run is the program. It returns the exit code.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if IsChild(args) {
		return runChild(args, stdin, stdout, stderr)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return exitRefused
	}
	f, err := facts{Elevated: true, Windows: simulatedWindows}, error(nil)
	if !o.Simulated {
		f, err = look()
	}
	if err != nil {
		fmt.Fprintln(stderr, "csi-proxy-verify:", err)
		return exitRefused
	}
	reason := refusal(o, f)
	if o.DryRun {
		dryRun(stdout, o, reason)
		return 0
	}
	if reason != "" {
		fmt.Fprintln(stderr, "csi-proxy-verify:", reason)
		return exitRefused
	}
	r := &runner{o: o, out: stdout, report: newReport(version, o, f)}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(stderr, "csi-proxy-verify:", err)
		return exitFailed
	}
	if r.report.failed() {
		return exitFailed
	}
	return 0
}

func runChild(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	switch {
	case args[0] == node.FormatHelper:
		return node.RunFormatHelper(args[1:], stdin, stdout)
	case len(args) < 2:
		err = fmt.Errorf("%s needs an argument", args[0])
	case args[0] == testbed.IdleService:
		err = runIdleService(args[1])
	default:
		var o options
		if err = json.Unmarshal([]byte(args[1]), &o); err == nil {
			go func() { // the parent died
				io.Copy(io.Discard, stdin)
				os.Exit(exitFailed)
			}()
			os.Args = append(os.Args[:1], testFlags(o)...)
			err = child(o)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return 0
}

// testFlags are the flags of package testing for a child.
func testFlags(o options) []string {
	flags := []string{"-test.v=test2json", "-test.timeout=" + o.Limit.String()}
	if o.Question != "" {
		return append(flags, "-test.run=^"+regexp.QuoteMeta(o.Section)+"$/^"+regexp.QuoteMeta(testName(o.Question))+"$")
	}
	if _, tests, _ := strings.Cut(o.Only, "/"); tests != "" {
		flags = append(flags, "-test.run=^"+regexp.QuoteMeta(o.Section)+"$/"+tests)
	}
	return flags
}

// matches is how package testing matches names and -test.run.
func matches(pattern, name string) (bool, error) { return regexp.MatchString(pattern, name) }

// testName is the name that package testing makes of one.
func testName(name string) string { return strings.ReplaceAll(name, " ", "_") }

// runner runs all sections.
type runner struct {
	o      options
	out    io.Writer
	report *report
}

func (r *runner) run(ctx context.Context) (err error) {
	state, err := stateDir(r.o)
	if err != nil {
		return err
	}
	if r.o.Simulated {
		defer os.RemoveAll(state)
	}
	lock := flock.New(filepath.Join(state, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return errors.Join(errors.New("another run is in progress on this machine"), err)
	}
	defer lock.Unlock()
	j := &journal{filepath.Join(state, "journal")}
	if n, err := j.undo(undo); err != nil {
		return fmt.Errorf("clean up after an earlier run: %w", err)
	} else if n > 0 {
		fmt.Fprintf(r.out, "Removed what an earlier run left: %d things\n", n)
	}
	parent, err := systemDir()
	if err != nil {
		return err
	}
	r.o.Wine = r.report.Windows == wine
	r.o.Dir = fmt.Sprintf(`%s\%s%d`, parent, directoryPrefix, os.Getpid())
	r.o.Journal = j.file
	if err := j.add(entry{kindDirectory, r.o.Dir}); err != nil {
		return err
	}
	defer func() {
		if _, left := j.undo(undo); left != nil {
			err = errors.Join(err, fmt.Errorf("clean up (the next run tries again): %w", left))
		}
	}()
	for _, s := range sections(r.o) {
		if ok, err := r.wanted(s); !ok || err != nil {
			continue
		}
		err := r.section(ctx, s)
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if err != nil {
			return errors.Join(err, r.report.write(r.o.Report))
		}
	}
	if r.o.FirstContact {
		r.report.screen(r.out, r.o.Report)
	} else {
		r.report.summary(r.out)
	}
	return r.report.write(r.o.Report)
}

// wanted reports whether -only has a section.
func (r *runner) wanted(s section) (bool, error) {
	pattern, _, _ := strings.Cut(r.o.Only, "/")
	return regexp.MatchString(pattern, s.name)
}

// section runs a section in a child, or each question in one of its own: what does not return
// from a call of Windows ends with its process only.
func (r *runner) section(ctx context.Context, s section) error {
	if !r.o.FirstContact {
		fmt.Fprintf(r.out, "\n%s\n", s.name)
	}
	o := r.o
	o.Section, o.Limit = s.name, sectionLimit
	if s.name != questionsSection {
		return r.child(ctx, o)
	}
	_, tests, _ := strings.Cut(o.Only, "/")
	for _, q := range asked(o) {
		if ok, err := regexp.MatchString(tests, testName(q.name)); !ok || err != nil {
			continue
		}
		o.Question, o.Limit = q.name, questionLimit
		if o.FirstContact {
			o.Limit = q.first
		}
		if err := r.child(ctx, o); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// child runs a child, and prints and records its results.
func (r *runner) child(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Limit+15*time.Second) // it ends itself before
	defer cancel()
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, childCommand, string(text))
	c.WaitDelay = 10 * time.Second
	in, err := c.StdinPipe() // stays open as long as this process lives
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	var trouble strings.Builder
	c.Stderr = &trouble
	if err := c.Start(); err != nil {
		return fmt.Errorf("section %s: %w", o.Section, err)
	}
	reported := false
	p := newParser(o.Section, func(res result) {
		reported = true
		r.report.add(res)
		if res.shown() && !o.FirstContact {
			res.print(r.out)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.line(lines.Text())
	}
	unread := lines.Err()
	_, err = io.Copy(io.Discard, out) // after a line that is too long it would wait for a reader
	var exit *exec.ExitError
	if ended := c.Wait(); !errors.As(ended, &exit) {
		err = errors.Join(err, ended)
	}
	if err = errors.Join(unread, err); err != nil {
		return fmt.Errorf("section %s: read its output: %w", o.Section, err)
	}
	p.end(trouble.String())
	if exit != nil && !reported { // it died before its first test began
		p.report(result{Section: o.Section, Name: cmp.Or(o.Question, "start"), Verdict: failed, Detail: "its process died\n" + trouble.String()})
	}
	return nil
}

// stateDir is the directory of the journal, which the next run has to find. What the journal
// names is undone, so only administrators may write to the one of this machine.
func stateDir(o options) (string, error) {
	if o.Simulated {
		return os.MkdirTemp("", directoryPrefix)
	}
	dir := filepath.Join(os.Getenv("ProgramData"), "csi-proxy-verify")
	_, err := admindir.Make(dir)
	return dir, err
}
