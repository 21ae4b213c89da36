package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A generator writes files that are checked in.
type generator struct {
	name, does string
	budget     time.Duration
	write      func(context.Context, *report) error

	// check fails if a file is out of date. It is nil if a test of a module compares the files.
	check func(context.Context, *report) error
}

// generators returns them in the order in which they run: some use the code that earlier
// ones write.
func generators() []generator {
	return []generator{
		{
			name: "api", does: "Go code of the API and of two other services, rows, pkg/remote and the overview of the API, from .proto files; a test of the generator compares them", budget: time.Minute,
			write: goRun("./cmd/csi-proxy-api-gen", "-root", "."),
		},
		{
			name: "win32", does: "calls of Windows, from their prototypes in internal/win32/native", budget: 30 * time.Second,
			write: goTool("generate", "./internal/win32/native"),
			check: checkSyscalls,
		},
		{
			name: "manifests", does: "deploy/manifests, from the chart, and docs/run/dashboard.svg, from the dashboard", budget: 4 * time.Minute,
			write: func(ctx context.Context, r *report) error {
				return r.goTest(ctx, clusterDir, []string{"GOWORK=off"}, deployTests, "-run", "^Test(ManifestsAreOfTheChart|Fleet)$", "-update")
			},
		},
	}
}

// generate returns the stages that write generated files.
func generate(some []generator) []phase {
	var phases []phase
	for _, g := range some {
		phases = append(phases, phase{{g.name, g.does, g.budget, g.write}})
	}
	return phases
}

// checkGenerated fails on a generated file that is out of date, and on a go.mod file that is
// not tidy.
func checkGenerated(ctx context.Context, r *report) error {
	var errs []error
	for _, g := range generators() {
		if g.check == nil {
			continue
		}
		if err := g.check(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; run make generate", g.name, err))
		}
	}
	for _, m := range slices.Concat(modules[:], publishedDirs, []string{mountDir, exampleDir, labDir, releaseDir}) {
		errs = append(errs, r.tidy(ctx, m, "go.mod"))
	}
	return errors.Join(append(errs, r.tidy(ctx, exampleDir, nextCSI))...)
}

// goTool returns a function that runs the go command in the project's directory.
func goTool(args ...string) func(context.Context, *report) error {
	return func(ctx context.Context, r *report) error {
		if err := r.command(ctx, ".", nil, "go", args...).Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
		r.pass()
		return nil
	}
}

func goRun(args ...string) func(context.Context, *report) error {
	return goTool(append([]string{"run"}, args...)...)
}

// checkSyscalls compares zsyscall_windows.go with what mkwinsyscall prints for all
// files of the package.
func checkSyscalls(ctx context.Context, r *report) error {
	const dir = "internal/win32/native"
	have, err := os.ReadFile(filepath.Join(dir, "zsyscall_windows.go"))
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "zsyscall")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	sources, err := filepath.Glob(filepath.Join(dir, "*_windows.go"))
	if err != nil {
		return err
	}
	out := filepath.Join(tmp, "zsyscall_windows.go")
	args := []string{"run", "golang.org/x/sys/windows/mkwinsyscall", "-output", out}
	for _, s := range sources {
		if base := filepath.Base(s); base != "zsyscall_windows.go" && !strings.HasSuffix(base, "_test.go") {
			args = append(args, base)
		}
	}
	// mkwinsyscall takes every package for one of Go's own if it does not know GOROOT, as
	// when it is built with -trimpath. go generate sets it.
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	if err := r.command(ctx, dir, []string{"GOROOT=" + strings.TrimSpace(string(goroot))}, "go", args...).Run(); err != nil {
		return fmt.Errorf("mkwinsyscall: %w", err)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("out of date: %s/zsyscall_windows.go", dir)
	}
	r.pass()
	return nil
}

// tidy fails if a module's file is not what go mod tidy makes of it. That needs the
// go.mod files of many modules; those that are not in the cache are downloaded.
func (r *report) tidy(ctx context.Context, module, file string) error {
	c := r.command(ctx, module, []string{"GOWORK=off"}, "go", "mod", "tidy", "-diff", "-modfile="+file)
	var diff bytes.Buffer
	c.Stdout = &diff
	err := c.Run()
	switch {
	case err == nil:
		r.pass()
		return nil
	case diff.Len() == 0:
		return fmt.Errorf("go mod tidy of %s/%s: %w", module, file, err)
	}
	r.logf("%s", diff.String())
	return fmt.Errorf("%s/%s is not tidy; run make tidy", module, file)
}
