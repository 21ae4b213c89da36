package main

import (
	"slices"
	"strings"
	"testing"
)

func TestJudgeUnreachableFunctions(t *testing.T) {
	const both = `
github.com/kubernetes-csi/csi-proxy/v2/internal/a Dead internal/a/a.go:1:2
github.com/kubernetes-csi/csi-proxy/v2/internal/a T.dead internal/a/a.go:3:4
github.com/kubernetes-csi/csi-proxy/v2/pkg/disk New pkg/disk/disk.go:1:2
github.com/kubernetes-csi/csi-proxy/client/pipe Dial client/pipe/pipe.go:1:2
github.com/kubernetes-csi/csi-proxy/client/internal/b Dead client/internal/b/b.go:1:2
github.com/kubernetes-csi/csi-proxy/v2/test/operations run test/operations/run.go:1:2
`
	const linux = both + `
github.com/kubernetes-csi/csi-proxy/v2/internal/a OnWindows internal/a/a.go:5:6
github.com/kubernetes-csi/csi-proxy/v2/internal/a DeadOffWindows internal/a/a_other.go:1:2
`
	const windows = both + `
github.com/kubernetes-csi/csi-proxy/v2/internal/a OnLinux internal/a/a.go:7:8
github.com/kubernetes-csi/csi-proxy/v2/internal/a DeadOnWindows internal/a/a_windows.go:1:2
`
	found := map[string]map[string]place{"linux": unreachable(linux), "windows": unreachable(windows)}
	built := func(system, file string) bool {
		return strings.HasSuffix(file, "_windows.go") == (system == "windows") || !strings.Contains(file, "_")
	}
	dead, stale := judge(found, built)
	var names []string
	for _, d := range dead {
		_, d, _ = strings.Cut(d, ": ")
		name, _, _ := strings.Cut(d, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"client/internal/b.Dead", "internal/a.Dead", "internal/a.DeadOffWindows", "internal/a.DeadOnWindows", "internal/a.T.dead"}
	if names = slices.Compact(names); !slices.Equal(names, want) {
		t.Errorf("dead: %q, want %q", names, want)
	}
	if len(stale) != len(reachedElsewhere) {
		t.Errorf("stale exceptions: %q, want all %d", stale, len(reachedElsewhere))
	}
}

func TestExceptionsAreNotDead(t *testing.T) {
	found := map[string]place{}
	for e := range reachedElsewhere {
		if !strings.Contains(e[strings.LastIndexByte(e, '/'):], ".") {
			e += ".Function"
		}
		found[e] = "x.go:1:1"
	}
	dead, stale := judge(map[string]map[string]place{"linux": found}, func(string, string) bool { return true })
	if len(dead)+len(stale) > 0 {
		t.Errorf("dead: %q, stale: %q, want none", dead, stale)
	}
}

func TestFilesAreBuiltForTheirSystem(t *testing.T) {
	for _, c := range []struct {
		system, file string
		want         bool
	}{
		{"linux", "../../client/pipe/pipe.go", true},
		{"linux", "../../client/pipe/dial_windows.go", false},
		{"windows", "../../client/pipe/dial_windows.go", true},
		{"windows", "../../client/pipe/dial_other.go", false},
		{"linux", "../../client/pipe/dial_other.go", true},
	} {
		if got := isBuilt(c.system, c.file); got != c.want {
			t.Errorf("isBuilt(%q, %q) = %t, want %t", c.system, c.file, got, c.want)
		}
	}
}
