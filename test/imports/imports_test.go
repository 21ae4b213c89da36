package imports_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// list runs go list in one of the modules.
func list(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	c := exec.Command("go", append([]string{"list"}, args...)...)
	c.Dir = dir
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func internal(pkg string) bool {
	return slices.Contains(strings.Split(pkg, "/"), "internal")
}

// public returns the public packages of both modules.
func public(t *testing.T) []string {
	t.Helper()
	const format = `-f={{if ne .Name "main"}}{{.ImportPath}}{{end}}`
	all := append(list(t, "../..", format, "./pkg/..."), list(t, "../../client", format, "./...")...)
	return slices.DeleteFunc(all, internal)
}

// others returns the packages of other modules that pkgs depend on.
func others(t *testing.T, pkgs []string) []string {
	t.Helper()
	const format = `-f={{if not .Standard}}{{.ImportPath}}{{end}}`
	return slices.DeleteFunc(list(t, ".", append([]string{"-deps", format}, pkgs...)...), func(pkg string) bool {
		return internal(pkg) || strings.HasPrefix(pkg, "github.com/kubernetes-csi/csi-proxy/")
	})
}

// state is the state that a program reports, see testdata/probe.go.
type state map[string][]string

// program builds and runs the probe with imports and initialization code, and
// returns its state. The test fails if the program prints to stderr.
func program(t *testing.T, imports []string, initialize string) state {
	t.Helper()
	dir := t.TempDir()
	probe, err := os.ReadFile("testdata/probe.go")
	if err != nil {
		t.Fatal(err)
	}
	var more strings.Builder
	fmt.Fprintln(&more, "package main")
	for _, pkg := range imports {
		fmt.Fprintf(&more, "import _ %q\n", pkg)
	}
	more.WriteString(initialize)
	for name, text := range map[string]string{"probe.go": string(probe), "more.go": more.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "probe")
	build := exec.Command("go", "build", "-o", exe, filepath.Join(dir, "probe.go"), filepath.Join(dir, "more.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	home := filepath.Join(dir, "home") // also the working directory, and for temporary files
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(exe)
	run.Dir = home
	run.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PWD=" + home, "XDG_RUNTIME_DIR=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home}
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("the program printed %q to stderr", &stderr)
	}
	var s state
	if err := json.Unmarshal(stdout.Bytes(), &s); err != nil {
		t.Fatalf("the program printed %q: %v", &stdout, err)
	}
	err = filepath.WalkDir(home, func(p string, _ fs.DirEntry, err error) error {
		if p != home {
			s["written"] = append(s["written"], strings.TrimPrefix(p, home))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Each program has its own home directory.
	for _, values := range s {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], home, "$HOME")
		}
	}
	return s
}

// differences describes what differs between two states.
func differences(before, after state) []string {
	var found []string
	for _, what := range []string{"goroutines", "files", "flags", "environment", "directory", "process", "loggers", "written"} {
		if !slices.Equal(before[what], after[what]) {
			found = append(found, fmt.Sprintf("%s: %q instead of %q", what, after[what], before[what]))
		}
	}
	return found
}

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc: runs on Linux")
	}
}

func TestImportsHaveNoEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	needsLinux(t)
	t.Parallel()
	ours := public(t)
	if len(ours) < 60 {
		t.Fatalf("found %d public packages, want those of both modules: %q", len(ours), ours)
	}
	theirs := others(t, ours)
	if !slices.Contains(theirs, "google.golang.org/grpc") {
		t.Fatalf("the packages of other modules are %q, want gRPC among them", theirs)
	}
	before, after := program(t, theirs, ""), program(t, ours, "")
	for _, d := range differences(before, after) {
		t.Errorf("importing %d public packages changes %s", len(ours), d)
	}
	t.Attr("measured", fmt.Sprintf("%d public packages imported in addition to %d packages of other modules: no difference", len(ours), len(theirs)))
}

// The test finds each kind of effect that an import can have.
func TestEffectsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	needsLinux(t)
	t.Parallel()
	before := program(t, nil, "")
	if again := differences(before, program(t, nil, "")); len(again) > 0 {
		t.Fatalf("two equal programs differ: %q", again)
	}
	for what, initialize := range map[string]string{
		"goroutines":  `func init() { go func() { select {} }() }`,
		"files":       `import "os"; var f, _ = os.Open("/dev/null")`,
		"flags":       `import "flag"; var verbose = flag.Bool("v", false, "")`,
		"environment": `import "os"; func init() { os.Setenv("A", "b") }`,
		"directory":   `import "os"; func init() { os.Chdir("/") }`,
		"process":     `import ("os"; "os/signal"; "syscall"); func init() { signal.Ignore(os.Signal(syscall.SIGUSR1)) }`,
		"loggers":     `import ("log/slog"; "os"); func init() { slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil))) }`,
		"written":     `import "os"; func init() { os.WriteFile("state", nil, 0o600) }`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			found := differences(before, program(t, nil, initialize))
			if !slices.ContainsFunc(found, func(d string) bool { return strings.HasPrefix(d, what+":") }) {
				t.Errorf("the effect of %s was not found: %q", initialize, found)
			}
		})
	}
}
