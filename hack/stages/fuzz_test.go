package main

import (
	"os"
	"testing"
)

func TestLate(t *testing.T) {
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
		if got := late.MatchString(c.log); got != c.want {
			t.Errorf("%s: late = %t, want %t", c.name, got, c.want)
		}
	}
}

// TestFuzzTargetsHaveCorpora: what a target found interesting once is tried in
// each ordinary run of the tests.
func TestFuzzTargetsHaveCorpora(t *testing.T) {
	t.Chdir("../..")
	targets, err := fuzzTargets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for dir, names := range targets {
		for _, name := range names {
			corpus := dir + "/testdata/fuzz/" + name
			if entries, err := os.ReadDir(corpus); err != nil || len(entries) == 0 {
				t.Errorf("%s has no corpus in %s: %v", name, corpus, err)
			}
		}
	}
}
