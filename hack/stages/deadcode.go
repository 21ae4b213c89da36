package main

import (
	"bytes"
	"context"
	"fmt"
	"go/build"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// public are the packages that drivers import. What no program of ours calls there
// may be called by theirs.
var public = []string{"client/", "pkg/"}

// reachedElsewhere are functions, or whole packages, that no program of ours reaches,
// and why they are there.
var reachedElsewhere = map[string]string{
	"client/internal/pipetest":            "tests import it",
	"internal/win32/mingwtest":            "tests import it",
	"internal/node/nodetest":              "tests import it",
	"internal/node.Native":                "the HostAPIs of pkg call it, which drivers import",
	"internal/node.NativeHost":            "the HostAPIs of pkg call it, which drivers import",
	"internal/wire/wiretest":              "tests import it",
	"internal/winfs.Lstat":                "pkg/utils calls it, which drivers import",
	"internal/winfs.SymlinkOf":            "pkg/utils calls it, which drivers import",
	"internal/win32/native/fmifs.confine": "programs start the format helper on Windows only, tests do on Linux, too",
	"internal/win32/native/fmifs.isolate": "programs start the format helper on Windows only, tests do on Linux, too",
}

// deadCode fails on functions that no program reaches, whether it is built for Linux
// or for Windows. Tests are no programs: what only they call is dead.
func deadCode(ctx context.Context, r *report) error {
	const format = "{{range .Funcs}}{{println $.Path .Name .Position}}{{end}}"
	args := []string{"-filter", "kubernetes-csi/csi-proxy", "-f", format}
	for _, m := range modules {
		args = append(args, "./"+filepath.ToSlash(filepath.Join(m, "...")))
	}
	found := map[string]map[string]place{}
	for _, system := range []string{"linux", "windows"} {
		var out bytes.Buffer
		c := r.command(ctx, ".", []string{"GOOS=" + system, "CGO_ENABLED=0"}, toolPath("deadcode"), args...)
		c.Stdout = &out
		if err := c.Run(); err != nil {
			return fmt.Errorf("deadcode for %s: %w", system, err)
		}
		found[system] = unreachable(out.String())
		r.pass()
	}
	dead, stale := judge(found, isBuilt)
	for _, d := range dead {
		r.logf("%s", d)
	}
	for _, s := range stale {
		r.logf("%s is reached now, or gone: remove it from reachedElsewhere in hack/stages/deadcode.go", s)
	}
	if n := len(dead) + len(stale); n > 0 {
		return fmt.Errorf("%d functions that no program reaches, %d that the list of exceptions has for no reason", len(dead), len(stale))
	}
	return nil
}

// place is the file, line and column of a function.
type place string

func (p place) file() string { file, _, _ := strings.Cut(string(p), ".go:"); return file + ".go" }

// unreachable parses the lines of deadcode: package, function, place. The package is
// given by its folder.
func unreachable(lines string) map[string]place {
	found := map[string]place{}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		dir := strings.TrimPrefix(strings.TrimPrefix(f[0], "github.com/kubernetes-csi/csi-proxy/"), "v2/")
		found[dir+"."+f[1]] = place(f[2])
	}
	return found
}

// judge returns the functions that are unreachable on each system for which their
// file is built, and the entries of [reachedElsewhere] that are not needed.
func judge(found map[string]map[string]place, built func(system, file string) bool) (dead, stale []string) {
	used := map[string]bool{}
	for system, functions := range found {
		for name, at := range functions {
			reached := false
			for other := range found {
				_, unreached := found[other][name]
				reached = reached || !unreached && built(other, at.file())
			}
			if reached || slices.ContainsFunc(public, func(p string) bool { return strings.HasPrefix(name, p) && !strings.Contains(name, "/internal/") }) ||
				strings.HasPrefix(name, "test/") {
				continue
			}
			if e := exception(name); e != "" {
				used[e] = true
				continue
			}
			dead = append(dead, fmt.Sprintf("%s: %s is reached by no program (seen for %s)", at, name, system))
		}
	}
	for _, e := range slices.Sorted(maps.Keys(reachedElsewhere)) {
		if !used[e] {
			stale = append(stale, e)
		}
	}
	slices.Sort(dead)
	return dead, stale
}

// exception is the entry of [reachedElsewhere] for a function, or "".
func exception(name string) string {
	for e := range reachedElsewhere {
		if name == e || strings.HasPrefix(name, e+".") {
			return e
		}
	}
	return ""
}

// isBuilt reports whether a file is built for a system.
func isBuilt(system, file string) bool {
	c := build.Default
	c.GOOS, c.CgoEnabled = system, false
	ok, err := c.MatchFile(filepath.Split(file))
	return err == nil && ok
}
