package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// racing are the tests for the race detector: those of packages that start goroutines, and in
// the others those that do so themselves. It finds nothing in the rest. What that has in common
// with callers that run at the same time is tested with them, above all by the contract through
// pipes.
type racing struct {
	packages []string // with all their tests
	others   []string // with some of them
	tests    []string // those
}

func racingTests(ctx context.Context, patterns ...string) (found racing, err error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{end}}`}, patterns...)...)
	out, err := list.Output()
	if err != nil {
		return found, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		all, tests, err := concurrent(dir)
		switch {
		case err != nil:
			return found, err
		case all:
			found.packages = append(found.packages, name)
		case len(tests) > 0:
			found.others, found.tests = append(found.others, name), append(found.tests, tests...)
		}
	}
	return found, nil
}

// function is what a function of a test file does.
type function struct {
	starts bool            // a goroutine
	calls  map[string]bool // names of functions and methods
}

// concurrent reports whether the package in dir starts goroutines. If only its tests do, it
// returns their names.
func concurrent(dir string) (all bool, tests []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, nil, err
	}
	functions := map[string]*function{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, nil, err
		}
		for _, d := range file.Decls {
			f := look(d)
			if f.starts && !strings.HasSuffix(name, "_test.go") {
				return true, nil, nil
			}
			if d, ok := d.(*ast.FuncDecl); ok {
				if had := functions[d.Name.Name]; had != nil { // a method of another type
					f.starts = f.starts || had.starts
					for c := range had.calls {
						f.calls[c] = true
					}
				}
				functions[d.Name.Name] = f
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range functions {
			for c := range f.calls {
				if g := functions[c]; !f.starts && g != nil && g.starts {
					f.starts, changed = true, true
				}
			}
		}
	}
	for name, f := range functions {
		if f.starts && strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return false, tests, nil
}

func look(d ast.Decl) *function {
	f := &function{calls: map[string]bool{}}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			f.starts = true
		case *ast.Ident: // also of a function that is passed on
			f.calls[n.Name] = true
			f.starts = f.starts || n.Name == "Go" || n.Name == "Parallel" || n.Name == "RunConcurrently"
		}
		return true
	})
	return f
}

// raceTests runs the concurrent tests under the race detector.
func raceTests(ctx context.Context, r *report) error {
	if !have("gcc") {
		r.skip("all", "the race detector needs gcc")
		return nil
	}
	found, err := racingTests(ctx, "./internal/...", "./pkg/...", "./client/...", "./cmd/csi-proxy/...", "./cmd/csi-proxy-sim/...", "./cmd/csi-proxyctl/...", "./cmd/internal/...")
	if err != nil {
		return err
	}
	// The contract runs through pipes only, which is the same code and more. The rehearsals of
	// csi-proxy-verify are processes that do one thing after another. The race detector
	// takes memory and time for each of thousands of connections.
	skip := strings.Join([]string{"^Test(MemoryOfConnections|HostileClientsHarmOnlyThemselves|ManyProcessesHarmNobody)$", "^TestInProcess$", rehearsals, "^TestScriptsInBubble$", "^TestScripts$/" + oneAfterAnother}, "|")
	env := []string{"CGO_ENABLED=1"}
	return errors.Join(
		r.goTest(ctx, ".", env, append(busy("-race", vettedBefore, quick, "-skip", skip), found.packages...)...),
		r.goTest(ctx, ".", env, append(busy("-race", vettedBefore, quick, "-run", "^("+strings.Join(found.tests, "|")+")$"), found.others...)...))
}

// rehearsals matches tests that run csi-proxy-verify on a simulated node.
const rehearsals = "^Test(Rehearsal|QuestionsFindTheWorld|FirstContact)$"

// oneAfterAnother matches the scripts of csi-proxyctl that make hundreds of calls, nearly all of
// them one after another, as those in the bubble do, each by a process of its own. The race detector has little to look at
// there, and its processes take long to start. A new script runs with it.
const oneAfterAnother = "^(bounds|bundle|call|clear|completion|configured|doctor|hang|incidents|iscsi|smb|system|usage)$"
