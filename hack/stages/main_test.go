package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
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
{"Action":"fail","Package":"p"}
`
	var out strings.Builder
	r := &report{out: &out}
	r.begin(stage{name: "unit"})
	r.count(bufio.NewScanner(strings.NewReader(records)))
	c := r.cur
	if c.passed != 1 || c.failed != 1 || c.skipped != 1 {
		t.Errorf("passed %d, failed %d, skipped %d, want one of each", c.passed, c.failed, c.skipped)
	}
	if got := c.skips["needs sgdisk"]; len(got) != 1 || got[0] != "p TestB" {
		t.Errorf("skips = %v, want TestB with its reason", c.skips)
	}
	if !strings.Contains(out.String(), "got 1, want 2") {
		t.Errorf("the failing test's output is not shown: %q", out.String())
	}
}

func TestAFailedStageFailsTheRun(t *testing.T) {
	var out strings.Builder
	r := &report{out: &out}
	r.begin(stage{name: "a"})
	r.pass()
	r.end(nil)
	r.begin(stage{name: "b"})
	r.end(errors.New("boom"))
	if code := r.close("test"); code != 1 {
		t.Errorf("exit code %d after a failed stage, want 1", code)
	}
	if !strings.HasSuffix(out.String(), "1 passed, 1 failed, 0 skipped\n") {
		t.Errorf("closing line is not the count: %q", out.String())
	}
}

func TestUnknownListIsRefused(t *testing.T) {
	var out strings.Builder
	if code := run([]string{"nonsense"}, &out); code != 2 || !strings.Contains(out.String(), "check|cluster|fuzz|gcepd|generate|") {
		t.Errorf("run(nonsense) = %d %q, want 2 and the usage", code, out.String())
	}
}

func TestMeasuredNumbersAreShown(t *testing.T) {
	var out strings.Builder
	r := &report{out: &out}
	r.begin(stage{name: "wine"})
	r.count(bufio.NewScanner(strings.NewReader(`{"Action":"attr","Package":"p","Test":"TestTime","Key":"measured","Value":"7 ms"}`)))
	if !strings.Contains(out.String(), "TestTime: 7 ms") {
		t.Errorf("what was measured is not shown: %q", out.String())
	}
}

// What a test said that died with its process is shown, from the reason on: its fail event never comes.
func TestOutputOfATestThatDiedIsShown(t *testing.T) {
	var in, out strings.Builder
	says := func(output string) {
		fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":"TestA","Output":%q}`+"\n", output)
	}
	says("before\n")
	says("SIGSEGV: segmentation violation\n")
	for range 1000 {
		says("goroutine\n")
	}
	in.WriteString(`{"Action":"fail","Package":"p"}`)
	r := &report{out: &out, cur: &result{skips: map[string][]string{}}}
	r.count(bufio.NewScanner(strings.NewReader(in.String())))
	if got := out.String(); !strings.Contains(got, "TestA did not end:\nSIGSEGV: segmentation violation\ngoroutine\n") {
		t.Errorf("shown: %q", got)
	}
}

// What reads files of other modules, and all of make test, is run each time.
func TestOnlyTheQuickLoopTakesLastResults(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{append([]string{quick}, allOf([]string{".", "client"})...), true}, {[]string{quick, "./client/..."}, true},
		{append([]string{quick}, allOf([]string{".", "test"})...), false}, {[]string{quick, "./cmd/..."}, false},
		{[]string{"./..."}, false}, {[]string{"-race", quick, "./..."}, false},
	} {
		if got := mayBeCached(c.args); got != c.want {
			t.Errorf("go test %q: last results count: %t, want %t", c.args, got, c.want)
		}
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
	if !slices.Equal(used, modules[:]) {
		t.Errorf("stages tests the modules %q, go.work uses %q", modules, used)
	}
}
