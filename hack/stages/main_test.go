package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestCountSeesPassFailSkipAndReasons(t *testing.T) {
	const records = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"output","Package":"p","Test":"TestA/two","Output":"    a_test.go:7: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestA/two"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: needs sgdisk\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"INFO Stop\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`
	r, out := counted(records)
	if r.passed != 1 || r.failed != 2 || r.skipped != 1 {
		t.Errorf("passed %d, failed %d, skipped %d, want 1, 2 with the skip that has no reason, and 1", r.passed, r.failed, r.skipped)
	}
	if got := r.skips["needs sgdisk"]; len(got) != 1 || got[0] != "p TestB" {
		t.Errorf("skips = %v, want TestB with its reason", r.skips)
	}
	if !strings.Contains(out, "got 1, want 2") || !strings.Contains(out, "p TestC is skipped without a reason") {
		t.Errorf("the output of tests that fail is not shown: %q", out)
	}
}

// counted returns what a stage counts and prints of go test's records.
func counted(records string) (*report, string) {
	var out strings.Builder
	r := &report{out: &out, skips: map[string][]string{}}
	r.count(strings.NewReader(records))
	return r, out.String()
}

// Stages run side by side, what each prints stays together, and a failed one fails the run.
func TestStagesOfAPhaseRunSideBySide(t *testing.T) {
	var out strings.Builder
	all := &summary{out: &out}
	var began sync.WaitGroup
	began.Add(lanes)
	var p phase
	for i := range lanes {
		p = append(p, stage{name: fmt.Sprint("s", i), run: func(_ context.Context, r *report) error {
			r.logf("one")
			began.Done()
			began.Wait() // all run now
			r.logf("two")
			r.pass()
			if i == 1 {
				return errors.New("boom")
			}
			return nil
		}})
	}
	all.do(t.Context(), p)
	if code := all.close("test"); code != 1 {
		t.Errorf("exit code %d after a failed stage, want 1", code)
	}
	if got := out.String(); strings.Count(got, "one\ntwo\n--- ") != lanes || !strings.Contains(got, "--- s1 FAILED after ") || !strings.HasSuffix(got, fmt.Sprintf("%d passed, 1 failed, 0 skipped\n", lanes)) {
		t.Errorf("printed: %s", got)
	}
}

func TestNoStageStartsAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	all := &summary{out: io.Discard}
	s := stage{name: "s", run: func(context.Context, *report) error { interrupt(); return ctx.Err() }}
	all.do(ctx, phase{s})
	all.do(ctx, phase{s, s})
	if len(all.done) != 1 || all.done[0].err == nil {
		t.Errorf("%d stages ran, want the one that was interrupted", len(all.done))
	}
}

func TestUnknownListIsRefused(t *testing.T) {
	var out strings.Builder
	if code := run([]string{"nonsense"}, &out); code != 2 || !strings.Contains(out.String(), "check|cluster|fuzz|gcepd|generate|") {
		t.Errorf("run(nonsense) = %d %q, want 2 and the usage", code, out.String())
	}
}

func TestMeasuredNumbersAreShown(t *testing.T) {
	_, out := counted(`{"Action":"attr","Package":"p","Test":"TestTime","Key":"measured","Value":"7 ms"}`)
	if !strings.Contains(out, "TestTime: 7 ms") {
		t.Errorf("what was measured is not shown: %q", out)
	}
}

// What a test said that died with its process is shown, from the reason on: its fail event never comes.
func TestOutputOfATestThatDiedIsShown(t *testing.T) {
	var in strings.Builder
	says := func(output string) {
		fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":"TestA","Output":%q}`+"\n", output)
	}
	says("before\n")
	says("SIGSEGV: segmentation violation\n")
	for range 1000 {
		says("goroutine\n")
	}
	in.WriteString(`{"Action":"fail","Package":"p"}`)
	if _, got := counted(in.String()); !strings.Contains(got, "TestA did not end:\nSIGSEGV: segmentation violation\ngoroutine\n") {
		t.Errorf("shown: %q", got)
	}
}

// Only the race detector uses a C compiler, so that everything else is compiled once.
func TestCommandsUseNoCUnlessAsked(t *testing.T) {
	t.Setenv("CGO_ENABLED", "1")
	r := &report{}
	for _, c := range []struct {
		env  []string
		want string
	}{{nil, "0"}, {[]string{"GOWORK=off"}, "0"}, {[]string{"CGO_ENABLED=1"}, "1"}} {
		got := ""
		for _, v := range r.command(t.Context(), ".", c.env, "go").Environ() {
			if value, ok := strings.CutPrefix(v, "CGO_ENABLED="); ok {
				got = value
			}
		}
		if got != c.want {
			t.Errorf("with %q, CGO_ENABLED is %q, want %q", c.env, got, c.want)
		}
	}
}

// The tests of a module that is not in the list would never run.
func TestModulesAreThoseOfTheWorkspace(t *testing.T) {
	text, err := os.ReadFile("../../go.work")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for line := range strings.Lines(string(text)) {
		if dir := strings.TrimSpace(line); strings.HasPrefix(dir, ".") {
			used = append(used, path.Clean(dir))
		}
	}
	all := append([]string{mountDir, exampleDir, labDir}, modules...)
	slices.Sort(all)
	if !slices.Equal(used, all) {
		t.Errorf("stages tests the modules %q, go.work uses %q", all, used)
	}
}

// A name of a test in the lists that no test has chooses nothing, or leaves nothing out.
func TestNamesOfTestsExist(t *testing.T) {
	tests, err := exec.Command("git", "grep", "-hoE", "^func Test[A-Za-z0-9_]+", "--", ":/*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	known, named := string(tests)+"\n", 0
	for _, file := range []string{"stages.go", "wine.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range regexp.MustCompile(`\^Test\(([^)]*)\)`).FindAllStringSubmatch(strings.ReplaceAll(string(text), "\" +\n\t\t\"", ""), -1) {
			for name := range strings.SplitSeq(list[1], "|") {
				if named++; !strings.Contains(known, "func Test"+name+"\n") {
					t.Errorf("%s names Test%s, and there is none", file, name)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("found %d names, want those of all lists", named)
	}
}
