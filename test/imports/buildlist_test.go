package imports_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."

	clientModule  = "github.com/kubernetes-csi/csi-proxy/client"
	libraryModule = "github.com/kubernetes-csi/csi-proxy/v2"
	adapterModule = "github.com/kubernetes-csi/csi-proxy/mountutils"

	// libraryVersion is the one that the example driver and the lab require, so that they and these
	// drivers share what is compiled.
	libraryVersion = "v2.0.0"
)

// driver is a driver's module in its own directory.
type driver struct {
	t   *testing.T
	dir string
	env []string
}

// newDriver makes a driver from programs in testdata, each in a directory of its name. Its go.mod
// requires modules, and replaces some with directories of this repository.
func newDriver(t *testing.T, require, replace map[string]string, programs ...string) *driver {
	t.Helper()
	d := &driver{t: t, dir: t.TempDir(), env: []string{"GOWORK=off", "GOFLAGS=-mod=mod -trimpath", "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"}}
	for _, name := range programs {
		if err := os.CopyFS(filepath.Join(d.dir, name), os.DirFS(filepath.Join("testdata", name))); err != nil {
			t.Fatal(err)
		}
	}
	var mod strings.Builder
	mod.WriteString("module example.com/driver\n\ngo 1.25.0\n")
	for _, path := range slices.Sorted(maps.Keys(require)) {
		fmt.Fprintf(&mod, "\nrequire %s %s\n", path, require[path])
	}
	for _, path := range slices.Sorted(maps.Keys(replace)) {
		fmt.Fprintf(&mod, "\nreplace %s => %s\n", path, absolute(t, replace[path]))
	}
	d.write("go.mod", mod.String())
	return d
}

func absolute(t *testing.T, dir string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func (d *driver) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) try(args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Dir = d.dir
	c.Env = append(os.Environ(), d.env...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

func (d *driver) run(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// built has the versions of a driver's modules.
type built struct {
	all    map[string]string // go list -m all
	linked map[string]string // modules with a package in the program
}

// compile compiles a program of the driver, after go mod tidy, and returns its modules.
func (d *driver) compile(program string) built {
	d.t.Helper()
	versions := func(text string) map[string]string {
		m := map[string]string{}
		for line := range strings.Lines(text) {
			path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
			if path != "" && path != "example.com/driver" {
				m[path] = version
			}
		}
		return m
	}
	const module = "{{.Path}} {{if .Replace}}ours{{else}}{{.Version}}{{end}}"
	return built{
		all:    versions(d.run("list", "-m", "-f", module, "all")),
		linked: versions(d.run("list", "-export", "-deps", "-f", "{{with .Module}}"+module+"{{end}}", "./"+program)),
	}
}

// heavy are modules that a driver's build list must not gain from us: libraries for
// commands, metrics, charts and tests. OpenTelemetry and similar modules come with
// gRPC.
var heavy = []string{"github.com/spf13/", "github.com/inconshreveable/", "github.com/prometheus/client_golang", "github.com/prometheus/common",
	"k8s.io/", "sigs.k8s.io/", "helm.sh/", "github.com/stretchr/", "github.com/rogpeppe/", "github.com/bufbuild/", "gopkg.in/check", "github.com/onsi/"}

// floor is the version of a module that our modules require, and that a driver which
// imports them gets at least, with the reason why it is not older.
type floor struct{ version, reason string }

// floors has every module that a driver links because of ours. The rule is the oldest
// version without a known vulnerability (https://pkg.go.dev/vuln), or the oldest that
// our code or another module in the list needs, if that is newer.
var floors = map[string]floor{
	"google.golang.org/grpc": {"v1.83.2", "the oldest without a known vulnerability. Older ones have CVE-2026-33186 (fixed in v1.79.3), " +
		"GHSA-hrxh-6v49-42gf (v1.82.1), CVE-2026-84304 (v1.83.1) and CVE-2026-84445 (v1.83.2)"},
	"google.golang.org/protobuf":                {"v1.36.11", "grpc v1.83.2 requires it"},
	"google.golang.org/genproto/googleapis/rpc": {"v0.0.0-20260526163538-3dc84a4a5aaa", "grpc v1.83.2 requires it"},
	"golang.org/x/net":                          {"v0.58.0", "grpc v1.83.2 requires it. No known vulnerability from v0.56.0 on"},
	"golang.org/x/text":                         {"v0.41.0", "grpc v1.83.2 requires it. No known vulnerability from v0.39.0 on"},
	"golang.org/x/sys":                          {"v0.47.0", "grpc v1.83.2 requires it. Our code needs NtQueryInformationFile, of v0.45.0. No known vulnerability from v0.44.0 on"},
	"golang.org/x/sync":                         {"v0.22.0", "grpc v1.83.2 requires it"},
	"github.com/Microsoft/go-winio":             {"v0.6.2", "the newest that Go 1.25 builds. v0.6.3 and later need Go 1.26"},
	"github.com/go-ole/go-ole":                  {"v1.3.0", "for the two operations that only WMI has: formatting, and global SMB mappings. Its newest version"},
}

var samples = []struct {
	name             string
	require, replace map[string]string
}{
	{
		"client", // a driver that uses pipes, with the client module
		map[string]string{clientModule: "v1.3.0"},
		map[string]string{clientModule: "client"},
	},
	{
		"library", // a driver in a HostProcess container, with the library
		map[string]string{libraryModule: libraryVersion},
		map[string]string{libraryModule: "."},
	},
	{
		"both", // a driver that can use both, with pkg/remote
		map[string]string{libraryModule: libraryVersion, clientModule: "v1.3.0"},
		map[string]string{libraryModule: ".", clientModule: "client"},
	},
}

// TestBuildLists compiles each driver for Windows, and checks its build list. The last one requires
// both modules with the versions in their own go.mod, while the workspace uses newer versions, which
// the commands require: all packages of both compile with them.
func TestBuildLists(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			d := newDriver(t, s.require, s.replace, s.name)
			d.run("mod", "tidy")
			check(t, s.name, d.compile(s.name))
			if s.name == "both" {
				d.run("build", libraryModule+"/...", clientModule+"/...")
			}
		})
	}
}

// check checks that a driver's build list has no unwanted modules and the versions in floors.
func check(t *testing.T, name string, b built) {
	t.Helper()
	if len(b.linked) < 3 || len(b.all) < len(b.linked) {
		t.Fatalf("%s: %d modules linked, %d in all: the output of go list was not understood", name, len(b.linked), len(b.all))
	}
	for path := range b.all {
		if slices.ContainsFunc(heavy, func(p string) bool { return strings.HasPrefix(path, p) }) {
			t.Errorf("%s: the build list gains %s %s, which drivers do not need", name, path, b.all[path])
		}
	}
	for path, version := range b.linked {
		if want := floors[path].version; version != "ours" && version != want {
			t.Errorf("%s: a driver links %s %s, but the version in floors is %q: require that one, or change it there with its reason", name, path, version, want)
		}
	}
}

// What the packages for the Windows side of a driver add to it: the modules with a package in its
// build, and what of them it links. The pipes bring no Win32 calls and no COM, the work in process
// brings no gRPC, and the core brings neither. A driver that uses the adapter had the modules of
// k8s.io/mount-utils before.
func TestMounterBuildLists(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	engine := []string{"github.com/go-ole/go-ole", "golang.org/x/sync", "golang.org/x/sys"}
	require := map[string]string{libraryModule: libraryVersion, clientModule: "v1.3.0", adapterModule: "v0.0.0"}
	replace := map[string]string{libraryModule: ".", clientModule: "client", adapterModule: "mountutils"}
	d := newDriver(t, require, replace, "mounter-core", "mounter-inprocess", "mounter-pipes", "mounter-adapter")
	d.run("mod", "tidy")
	d.run("build", "-o", d.dir, "./...")
	const grpc, calls, com = "google.golang.org/grpc.", project + "internal/win32/native.(*", project + "internal/win32/native/wmi.(*"
	for _, s := range []struct {
		program string
		symbols []string // beginnings of names that the linker keeps
		links   []string
	}{
		{"mounter-core", nil, engine},
		{"mounter-inprocess", []string{calls, com}, engine},
		{"mounter-pipes", []string{grpc}, slices.Concat(engine, []string{"github.com/Microsoft/go-winio", "golang.org/x/net", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"})},
		{"mounter-adapter", []string{calls, com}, slices.Concat(engine, []string{"github.com/go-logr/logr", "k8s.io/klog/v2", "k8s.io/mount-utils", "k8s.io/utils"})},
	} {
		t.Run(s.program, func(t *testing.T) {
			b := d.compile(s.program)
			symbols := d.run("tool", "nm", "-sort=none", s.program+".exe")
			for _, part := range []string{grpc, calls, com} {
				if n := strings.Count(symbols, " "+part); n > 0 != slices.Contains(s.symbols, part) {
					t.Errorf("it links %d symbols of %s, want them only in %q", n, strings.TrimSuffix(part, "."), s.symbols)
				}
			}
			var others []string
			for path, version := range b.linked {
				if version != "ours" {
					others = append(others, path)
				}
				if f, ok := floors[path]; ok && version != "ours" && version != f.version {
					t.Errorf("it links %s %s, but the version in floors is %s", path, version, f.version)
				}
			}
			slices.Sort(others)
			slices.Sort(s.links)
			if !slices.Equal(others, s.links) {
				t.Errorf("it links the modules %q, want %q", others, s.links)
			}
			t.Logf("%d modules of others linked: %q", len(others), others)
		})
	}
}

// TestRemoteNeedsTwoReplaceLines checks what the page on modules says about
// pkg/remote: it needs a newer client than the published one, and go.mod of a
// dependency cannot replace it.
func TestRemoteNeedsTwoReplaceLines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	d := newDriver(t, map[string]string{libraryModule: libraryVersion}, map[string]string{libraryModule: "."}, "both")
	if out, err := d.try("mod", "tidy"); err == nil {
		t.Errorf("go mod tidy succeeded (%q): the page on modules has a line too many", out)
	} else if !strings.Contains(err.Error(), clientModule+"/") {
		t.Errorf("go mod tidy: %v, want an error that names a package of the client", err)
	}
}

// TestWorkspace finds all packages of the driver that runs either way without replace lines: in a
// workspace, the replace lines of the modules that it uses have an effect.
func TestWorkspace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes too long with -short; make test runs it")
	}
	// Its go.mod has a version that is published.
	d := newDriver(t, map[string]string{libraryModule: "v2.0.0-alpha.2"}, nil, "both")
	d.write("go.work", fmt.Sprintf("go 1.25.0\n\nuse .\n\nuse %s\n", absolute(t, ".")))
	d.env = append(d.env, "GOWORK="+filepath.Join(d.dir, "go.work"), "GOFLAGS=-trimpath")
	if deps := d.run("list", "-deps", "./both"); !strings.Contains(deps, clientModule+"/transport") {
		t.Errorf("the driver depends on\n%s", deps)
	}
}
