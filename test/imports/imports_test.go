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

// program builds the probe with more code, and returns its path.
func program(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	probe, err := os.ReadFile("testdata/probe.go")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "probe")
	files := map[string]string{"probe.go": string(probe), "more.go": "package main\n" + more}
	build := []string{"build", "-o", exe}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		build = append(build, file)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// importing builds the probe with imports.
func importing(t *testing.T, pkgs []string) string {
	t.Helper()
	var more strings.Builder
	for _, pkg := range pkgs {
		fmt.Fprintf(&more, "import _ %q\n", pkg)
	}
	return program(t, more.String())
}

// stateOf runs a probe, and returns its state. The test fails if it prints to stderr.
func stateOf(t *testing.T, exe string, args ...string) state {
	t.Helper()
	home := t.TempDir() // also the working directory, and for temporary files
	run := exec.Command(exe, args...)
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
	err := filepath.WalkDir(home, func(p string, _ fs.DirEntry, err error) error {
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
	before, after := stateOf(t, importing(t, theirs)), stateOf(t, importing(t, ours))
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
	const quiet = "quiet"
	effects := map[string]string{
		quiet:         ``,
		"goroutines":  `go func() { select {} }()`,
		"files":       `file, _ = os.Open("/dev/null")`,
		"flags":       `flag.Bool("v", false, "")`,
		"environment": `os.Setenv("A", "b")`,
		"directory":   `os.Chdir("/")`,
		"process":     `signal.Ignore(syscall.SIGUSR1)`,
		"loggers":     `slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))`,
		"written":     `os.WriteFile("state", nil, 0o600)`,
	}
	var more strings.Builder
	more.WriteString("import (\"flag\"; \"log/slog\"; \"os\"; \"os/signal\"; \"syscall\")\nvar file *os.File\nfunc init() {\n\tswitch os.Args[1] {\n")
	for what, code := range effects {
		fmt.Fprintf(&more, "\tcase %q:\n\t\t%s\n", what, code)
	}
	more.WriteString("\t}\n}\n")
	exe := program(t, more.String())
	before := stateOf(t, exe, quiet)
	for what, code := range effects {
		found := differences(before, stateOf(t, exe, what))
		if what == quiet && len(found) > 0 {
			t.Errorf("two equal programs differ: %q", found)
		}
		if what != quiet && !slices.ContainsFunc(found, func(d string) bool { return strings.HasPrefix(d, what+":") }) {
			t.Errorf("the effect of %s was not found: %q", code, found)
		}
	}
}
