package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tool returns the path of a program that buildTools makes.
func tool(name string) string { return absolute(filepath.Join("bin", "tools", name)) }

func buildTools(ctx context.Context, r *report) error {
	return r.check(ctx, releaseDir, alone, "go", "build", "-o", tool("")+"/", "./lint", "golang.org/x/tools/cmd/deadcode", "golang.org/x/vuln/cmd/govulncheck", "github.com/rhysd/actionlint/cmd/actionlint")
}

// checkFormat runs gofmt over the Go files that git knows or would add.
func checkFormat(ctx context.Context, r *report) error {
	files, err := gitFiles(ctx, "*.go")
	if err != nil {
		return err
	}
	bad, err := exec.CommandContext(ctx, "gofmt", append([]string{"-l"}, files...)...).CombinedOutput()
	if err != nil || len(bad) > 0 {
		return fmt.Errorf("gofmt -w would change, or cannot read (%v):\n%s", err, bad)
	}
	r.pass()
	return nil
}

// gitFiles returns the files that git knows or would add, by the end of their names.
func gitFiles(ctx context.Context, patterns ...string) (files []string, err error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"ls-files", "-co", "--exclude-standard"}, patterns...)...).Output()
	for f := range strings.Lines(string(out)) {
		if f = strings.TrimSpace(f); exists(f) {
			files = append(files, f)
		}
	}
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("git ls-files %q: %d files, %v", patterns, len(files), err)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forWindows returns the packages of modules that have files for Windows. What a check finds in the
// others, it finds for Linux.
func forWindows(ctx context.Context, modules []string) (packages []string, err error) {
	files, err := gitFiles(ctx, "*_windows.go", "*_windows_test.go")
	for _, f := range files {
		dir := filepath.Dir(f)
		of := dir
		for !exists(filepath.Join(of, "go.mod")) {
			of = filepath.Dir(of)
		}
		if slices.Contains(modules, of) && !strings.Contains(dir, "testdata") {
			packages = append(packages, "./"+dir)
		}
	}
	return slices.Compact(packages), err
}

// linted returns the modules whose packages are vetted and linted. Tests do not vet, except those of
// modules that are only for Linux, in make apiserver and make cluster.
func linted() []string { return slices.Concat(modules, []string{mountDir, exampleDir, labDir}) }

// The code does not depend on the architecture; the stage build compiles it for arm64.
func vet(ctx context.Context, r *report) error {
	packages, err := forWindows(ctx, linted())
	return errors.Join(err,
		r.check(ctx, ".", nil, "go", append([]string{"vet"}, workspace(linted()...)...)...),
		r.check(ctx, ".", windows(), "go", append([]string{"vet"}, packages...)...))
}

// lint checks all packages for Linux, and for Windows those with files for it.
func lint(ctx context.Context, r *report) error {
	packages, err := forWindows(ctx, linted())
	return errors.Join(err,
		r.check(ctx, ".", nil, tool("lint"), workspace(linted()...)...),
		r.check(ctx, ".", windows(), tool("lint"), packages...),
		r.check(ctx, releaseDir, alone, tool("lint"), "./..."))
}

// lintWorkflows checks the workflows of GitHub.
func lintWorkflows(ctx context.Context, r *report) error {
	return r.check(ctx, ".", nil, tool("actionlint"))
}

// checkTidy fails if a go.mod file is not what go mod tidy makes of it. That needs the
// go.mod files of many modules; those that are not in the cache are downloaded.
func checkTidy(ctx context.Context, r *report) error {
	var errs []error
	for _, m := range slices.Concat(modules, publishedDirs, []string{mountDir, exampleDir, labDir, releaseDir}) {
		errs = append(errs, r.check(ctx, m, alone, "go", "mod", "tidy", "-diff"))
	}
	return errors.Join(append(errs, r.check(ctx, exampleDir, alone, "go", "mod", "tidy", "-diff", "-modfile="+nextCSI))...)
}

// reachedElsewhere are functions that no program of ours reaches, and why they are there.
var reachedElsewhere = map[string]string{
	"internal/node.Native":                "the HostAPIs of pkg call it, which drivers import",
	"internal/node.NativeHost":            "the HostAPIs of pkg call it, which drivers import",
	"internal/winfs.Lstat":                "pkg/utils calls it, which drivers import",
	"internal/winfs.SymlinkOf":            "pkg/utils calls it, which drivers import",
	"internal/win32/native/fmifs.confine": "programs start the format helper on Windows only, tests do on Linux, too",
	"internal/win32/native/fmifs.isolate": "programs start the format helper on Windows only, tests do on Linux, too",
}

// deadCode fails on functions that no program reaches, whether it is built for Linux
// or for Windows. Tests are no programs: what only they call is dead, except in packages for them.
// What no program calls of the packages that drivers import may be called by theirs.
func deadCode(ctx context.Context, r *report) error {
	const format = "{{range .Funcs}}{{println .Position.File $.Path .Name}}{{end}}"
	found := map[string][]string{}
	for _, system := range []string{"linux", "windows"} {
		var out bytes.Buffer
		c := r.command(ctx, ".", []string{"GOOS=" + system}, tool("deadcode"), append([]string{"-filter", "kubernetes-csi/csi-proxy", "-f", format}, workspace()...)...)
		c.Stdout = &out
		if err := c.Run(); err != nil {
			return fmt.Errorf("deadcode for %s: %w", system, err)
		}
		found[system] = strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	dead := unreached(found, isBuilt)
	if len(dead) > 0 {
		return fmt.Errorf("reached by no program:\n%s", strings.Join(dead, "\n"))
	}
	r.pass()
	return nil
}

// unreached returns the functions that are unreachable on each system for which their file is built.
// found has the lines of deadcode for each system: file, package, name.
func unreached(found map[string][]string, built func(system, file string) bool) (dead []string) {
	for system, lines := range found {
		for _, line := range lines {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue
			}
			pkg := strings.TrimPrefix(strings.TrimPrefix(f[1], "github.com/kubernetes-csi/csi-proxy/"), "v2/")
			public := (strings.HasPrefix(pkg, "client/") || strings.HasPrefix(pkg, "pkg/")) && !strings.Contains(pkg, "/internal/")
			if public || strings.HasPrefix(pkg, "test/") || strings.HasSuffix(pkg, "test") || reachedElsewhere[pkg+"."+f[2]] != "" {
				continue
			}
			reached := false
			for other := range found {
				reached = reached || built(other, f[0]) && !slices.Contains(found[other], line)
			}
			if !reached {
				dead = append(dead, fmt.Sprintf("%s: %s.%s (seen for %s)", f[0], pkg, f[2], system))
			}
		}
	}
	slices.Sort(dead)
	return dead
}

// isBuilt reports whether a file is built for a system.
func isBuilt(system, file string) bool {
	c := build.Default
	c.GOOS, c.CgoEnabled = system, false
	ok, err := c.MatchFile(filepath.Split(file))
	return err == nil && ok
}

// vulnChecks are the modules that govulncheck scans, with the versions of their own
// go.mod, each for the systems that its code is for. The modules of the published
// clients are left out: they link old versions on purpose, and never ship.
var vulnChecks = []struct {
	module, systems, packages string
	strict                    bool // drivers require it: no known vulnerability at all, called or not
}{
	{".", "windows linux", "./...", true},
	{"client", "windows", "./...", true},
	{"cmd", "windows linux", "./...", false},
	{"hack", "linux", "./...", false},
	{"test", "linux", "./...", false},
	{mountDir, "windows", "./...", true},
	{exampleDir, "windows", "./...", false},
	{labDir, "linux windows", "./...", false},
	{clusterDir, "linux", deployTests, false}, // the others are Kubernetes' own programs
	{releaseDir, "linux", "./... tool", false},
}

// govulncheck scans each module on its own: in the workspace all of them would have
// the newest versions that any of them requires. Modules are skipped from when the database
// cannot be reached: it says so only after it has loaded a module.
func govulncheck(ctx context.Context, r *report) error {
	var errs []error
	reached := true
	for _, check := range vulnChecks {
		for system := range strings.FieldsSeq(check.systems) {
			name := fmt.Sprintf("module %s for %s", check.module, system)
			var out, said bytes.Buffer
			var err error
			if reached {
				c := r.command(ctx, check.module, append([]string{"GOOS=" + system}, alone...), tool("govulncheck"), append([]string{"-format", "json"}, strings.Fields(check.packages)...)...)
				c.Stdout, c.Stderr = &out, &said
				err = c.Run()
				reached = err == nil || !noDatabase(said.String())
			}
			switch found, wrong := findings(&out, check.strict); {
			case !reached:
				r.skip(name, "the vulnerability database cannot be reached from this machine")
			case err != nil:
				errs = append(errs, fmt.Errorf("govulncheck of %s: %w\n%s", name, err, said.String()))
			case wrong != nil:
				errs = append(errs, fmt.Errorf("govulncheck of %s: %w", name, wrong))
			case len(found) > 0:
				errs = append(errs, fmt.Errorf("%s has vulnerabilities:\n%s", name, strings.Join(found, "\n")))
			default:
				r.pass()
			}
		}
	}
	return errors.Join(errs...)
}

// noDatabase reports whether govulncheck failed because it could not read its database.
func noDatabase(said string) bool {
	return slices.ContainsFunc([]string{"vuln.go.dev", "dial tcp", "fetching vulnerabilities"}, func(s string) bool { return strings.Contains(said, s) })
}

// findings returns the vulnerabilities in govulncheck's JSON output, one line each:
// those that the module's code calls, and with strict also those in code of other
// modules that it does not call.
func findings(output io.Reader, strict bool) (found []string, err error) {
	scanned := false
	for d := json.NewDecoder(output); ; {
		// A message has one of these fields. A vulnerability is reported up to three times:
		// for the module that has it, for its package, and for each function that is called.
		var m struct {
			Config  *struct{}
			Finding *struct {
				OSV          string
				FixedVersion string `json:"fixed_version"`
				Trace        []struct{ Module, Version, Function string }
			}
		}
		if err := d.Decode(&m); err == io.EOF && scanned {
			slices.Sort(found)
			return slices.Compact(found), nil
		} else if err != nil { // or EOF: it has printed no configuration
			return nil, fmt.Errorf("its output was not understood: %w", err)
		}
		scanned = scanned || m.Config != nil
		if f := m.Finding; f != nil && len(f.Trace) > 0 && (f.Trace[0].Function != "" || strict && f.Trace[0].Module != "stdlib") {
			found = append(found, fmt.Sprintf("https://pkg.go.dev/vuln/%s in %s %s, fixed in %q", f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.FixedVersion))
		}
	}
}
