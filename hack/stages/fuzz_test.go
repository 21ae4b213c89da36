package main

import (
	"os"
	"testing"
)

func TestEndedLate(t *testing.T) {
	const progress = "fuzz: elapsed: 10s, execs: 256189 (22399/sec), new interesting: 48 (total: 56)\n"
	for _, c := range []struct {
		name, log string
		want      bool
	}{
		{"passed", progress + "PASS\nok  \tx\t10.1s\n", false},
		{"the engine's own deadline", progress + "--- FAIL: FuzzX (10.11s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\tx\t10.120s\n", true},
		{"a target that found something", progress + "--- FAIL: FuzzX (1.11s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n", false},
		{"a seed that failed with that text", "--- FAIL: FuzzX (1.11s)\n    --- FAIL: FuzzX/seed#0 (0.00s)\n        x_test.go:9: context deadline exceeded\nFAIL\n", false},
		{"did not compile", "FAIL\tx [build failed]\n", false},
	} {
		if got := endedLate(c.log); got != c.want {
			t.Errorf("%s: endedLate = %t, want %t", c.name, got, c.want)
		}
	}
	if got, want := lastProgress(progress), "10s, execs: 256189 (22399/sec), new interesting: 48 (total: 56)"; got != want {
		t.Errorf("lastProgress = %q, want %q", got, want)
	}
}

// TestFuzzTargetsHaveCorpora: what a target found interesting once is tried in
// each ordinary run of the tests.
func TestFuzzTargetsHaveCorpora(t *testing.T) {
	t.Chdir("../..")
	targets, err := fuzzTargets()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range targets {
		dir := f.dir + "/testdata/fuzz/" + f.name
		if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
			t.Errorf("%s has no corpus in %s: %v", f.name, dir, err)
		}
	}
}
