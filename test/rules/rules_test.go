package rules_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// prefixes of import paths.
const (
	module = "github.com/kubernetes-csi/csi-proxy/v2"
	client = "github.com/kubernetes-csi/csi-proxy/client"
)

// file is one Go source file of the project that is not a test.
type file struct {
	path      string // slash-separated, from the project's root
	generated bool
	windows   bool // built for Windows only
	notAny    bool // built for some systems only
	ast       *ast.File
	imports   []string
}

func (f file) dir() string { return path.Dir(f.path) }

func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n == "bin" || n != ".." && strings.HasPrefix(n, ".") && p != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(rel), ast: syntax, generated: ast.IsGenerated(syntax)}
		for _, i := range syntax.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, name)
		}
		f.windows = builds(f, "windows") && !builds(f, "linux")
		f.notAny = builds(f, "windows") != builds(f, "linux")
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found %d Go files under %s, want the whole project", len(files), root)
	}
	return files
}

var osSuffix = regexp.MustCompile(`_(windows|linux|unix|darwin)(_[a-z0-9]+)?\.go$`)

// builds reports whether f is built for the operating system.
func builds(f file, system string) bool {
	if m := osSuffix.FindStringSubmatch(f.path); m != nil && m[1] != "unix" && m[1] != system {
		return false
	}
	for _, group := range f.ast.Comments {
		if group.Pos() > f.ast.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err == nil && !expr.Eval(func(tag string) bool {
				return tag == system || tag == "unix" && system == "linux" || strings.HasPrefix(tag, "go1.")
			}) {
				return false
			}
		}
	}
	return true
}

func under(dir string, tops ...string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") })
}

var services = []string{"pkg/disk", "pkg/filesystem", "pkg/volume", "pkg/smb", "pkg/iscsi", "pkg/system"}

// Files with published declarations whose types exist on Windows only. Their functions
// call code in portable files.
const (
	publishedHandles = "pkg/disk/hostapi/handle_windows.go"  // syscall.Handle
	publishedStructs = "pkg/disk/hostapi/storage_windows.go" // windows.GUID
	publishedErrors  = "internal/win32/system_windows.go"    // syscall.Errno in the library's errors
)

func TestImportRules(t *testing.T) {
	hosts := append(slices.Clone(services), "internal/storage", "internal/winfs", "internal/winpath", "pkg/hosterr",
		"internal/keymutex", "internal/node", "internal/service")
	rules := []struct {
		why    string
		in     []string // directories the rule is about
		except []string // directories and files it is not about
		banned func(imp string) bool
	}{
		{
			why:    "code that makes decisions runs the same on every system: it uses winpath and win32, not the system that Go runs on",
			in:     slices.Concat(hosts, []string{"pkg/utils"}),
			except: []string{publishedHandles},
			banned: func(i string) bool { return slices.Contains([]string{"os", "path/filepath", "syscall", "os/exec"}, i) },
		},
		{
			why: "only internal/wire and above use gRPC and protobuf, so that a driver in process links neither",
			in:  slices.Concat(hosts, []string{"pkg/utils", "internal/win32"}),
			banned: func(i string) bool {
				return strings.HasPrefix(i, "google.golang.org/") || strings.HasPrefix(i, client) || under(i, module+"/internal/wire", module+"/internal/apiserver")
			},
		},
		{
			why:    "a driver's test in process links no gRPC: only pkg/simnode/serve and control do",
			in:     []string{"pkg/simnode"},
			except: []string{"pkg/simnode/serve", "pkg/simnode/control"},
			banned: func(i string) bool {
				return strings.HasPrefix(i, "google.golang.org/") || strings.HasPrefix(i, client) || under(i, module+"/internal/wire", module+"/internal/apiserver")
			},
		},
		{
			why: "nodespec describes nodes for programs that link none: it uses the standard library and pkg/rules only",
			in:  []string{"pkg/simnode/nodespec"},
			banned: func(i string) bool {
				first, _, _ := strings.Cut(i, "/")
				return strings.Contains(first, ".") && !under(i, module+"/pkg/simnode/nodespec", module+"/pkg/rules")
			},
		},
		{
			why:    "other projects run the conformance tests and can use public packages only",
			in:     []string{"pkg/conformance"},
			banned: func(i string) bool { return strings.HasPrefix(i, module+"/internal/") },
		},
		{
			why:    "the types of internal/win32 build everywhere and use no operating system",
			in:     []string{"internal/win32"},
			except: []string{"internal/win32/native", "internal/win32/emulated", "internal/win32/filestatus", publishedErrors}, // above the types
			banned: func(i string) bool {
				return i == "os" || i == "syscall" || strings.HasPrefix(i, "golang.org/x/sys") || strings.HasPrefix(i, module)
			},
		},
		{
			why: "the rooms of internal/apiserver have one order: pipes and failure know no other, limit and calls know these, serve knows all",
			in:  []string{"internal/apiserver"}, except: []string{"internal/apiserver/serve"},
			banned: func(i string) bool {
				return under(i, module+"/internal/apiserver/serve", module+"/internal/apiserver/limit", module+"/internal/apiserver/calls")
			},
		},
		{
			why:    "the same",
			in:     []string{"internal/apiserver/pipes", "internal/apiserver/failure"},
			banned: func(i string) bool { return under(i, module+"/internal/apiserver") },
		},
		{
			why:    "the client module is independent: a driver that imports it links nothing of the proxy",
			in:     []string{"client"},
			banned: func(i string) bool { return strings.HasPrefix(i, module) },
		},
		{
			why:    "only code below win32.API, the listener, the service wrapper, commands and what tests a real Windows make Windows calls; published structures use windows.GUID",
			in:     []string{"."},
			except: []string{"internal/win32/native", "internal/apiserver/pipes", "internal/testbed", "cmd", "client/pipe", "client/internal", "test", "examples", publishedStructs},
			banned: func(i string) bool { return strings.HasPrefix(i, "golang.org/x/sys/windows") },
		},
		{
			why: "no shell: shipped programs start no process except the format helper, which is csi-proxy.exe itself",
			in:  []string{"client", "pkg", "internal", "cmd"},
			except: []string{
				"internal/win32/native/fmifs",
				"internal/win32/mingwtest", // calls the C compiler; only tests import it
				"cmd/csi-proxy-api-gen",    // calls protoc's plugins; not shipped
				"cmd/internal/verify",      // runs its parts in children, and mountvol if the user wants it; not for nodes
			},
			banned: func(i string) bool { return i == "os/exec" },
		},
		{
			why:    "COM is used only where Windows documents no other way, in one package that counts and releases its objects",
			in:     []string{"."},
			except: []string{"internal/win32/native/wmi"},
			banned: func(i string) bool { return strings.HasPrefix(i, "github.com/go-ole/") },
		},
		{
			why:    "a service does not depend on how it is called",
			in:     hosts,
			except: []string{"internal/node/nodetest"}, // tests import it
			banned: func(i string) bool {
				return under(i, module+"/pkg/simnode", module+"/pkg/remote", module+"/cmd", module+"/internal/policy")
			},
		},
		{
			why: "services and hosts use win32.API; internal/node chooses its implementation",
			in:  []string{"pkg", "internal", "cmd"},
			except: []string{
				"internal/node", "pkg/simnode", "internal/win32/native", "internal/win32/emulated",
				"internal/testbed", "cmd/internal/verify", // make disks for tests
			},
			banned: func(i string) bool {
				return under(i, module+"/internal/win32/native", module+"/internal/win32/emulated")
			},
		},
		{
			why: "drivers inherit few dependencies: libraries for commands and metrics belong to module cmd",
			in:  []string{"pkg", "internal", "client"},
			banned: func(i string) bool {
				return slices.ContainsFunc([]string{"github.com/spf13/", "k8s.io/", "sigs.k8s.io/", "github.com/prometheus/"}, func(p string) bool { return strings.HasPrefix(i, p) })
			},
		},
	}
	files := sources(t)
	for _, rule := range rules {
		checked := 0
		for _, f := range files {
			in := under(f.dir(), rule.in...) || slices.Contains(rule.in, ".")
			if !in || under(f.dir(), rule.except...) || slices.Contains(rule.except, f.path) {
				continue
			}
			checked++
			for _, i := range f.imports {
				if rule.banned(i) {
					t.Errorf("%s imports %q: %s", f.path, i, rule.why)
				}
			}
		}
		if checked == 0 {
			t.Errorf("the rule %q applies to no file in %v", rule.why, rule.in)
		}
	}
}

// Above win32.API the same code runs on every system, except for the packages that
// are listed here.
func TestSystemSpecificFiles(t *testing.T) {
	allowed := map[string]string{
		"internal/win32/native":   "Windows' implementation of win32.API",
		"internal/win32/emulated": "locks a state directory for one process",
		"internal/node":           "opens the native implementation, or fails off Windows",
		"internal/apiserver":      "listens on named pipes, or unix sockets",
		"client/pipe":             "dials named pipes, or unix sockets",
		"client/internal":         "dials named pipes, or unix sockets",
		"cmd/internal/dllsearch":  "restricts the search for DLLs",
		"cmd/csi-proxyctl":        "reads the rights of the service's files",
		"cmd/internal/admindir":   "makes directories with the rights of Windows, and reads them",
		"cmd/internal/logs":       "makes a directory for administrators",
		"cmd/internal/winsvc":     "the service wrapper",
		"cmd/internal/install":    "installs the service",
		"cmd/internal/verify":     "asks a real Windows",
		"internal/testbed":        "virtual disks and services of a real Windows",
		"test/wine/driver":        "loads a driver into Wine, for tests",
		"examples":                "a driver of its own, which measures shares",
		"lab/relay":               "owns named pipes under Wine",
		"lab/internal/port":       "reserves a port of loopback",
		"lab/mirror":              "hears of changes of files, by inotify",
	}
	used := map[string]bool{}
	for _, f := range sources(t) {
		if !f.notAny || slices.Contains([]string{publishedHandles, publishedStructs, publishedErrors}, f.path) {
			continue
		}
		dir := ""
		for d := range allowed {
			if under(f.dir(), d) {
				dir = d
			}
		}
		if dir == "" {
			t.Errorf("%s is built for some systems only; above win32.API only these packages may have such files: %v", f.path, allowed)
		}
		used[dir] = true
	}
	if !used["internal/win32/native"] || !used["internal/node"] {
		t.Errorf("no system-specific file found in %v: the search is broken", used)
	}
}

// Packages that drivers import run no code at import.
func TestNoInit(t *testing.T) {
	for _, f := range sources(t) {
		if f.generated || under(f.dir(), "test", "cmd") {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s has an init function", f.path)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					v, ok := s.(*ast.ValueSpec)
					if !ok || d.Tok != token.VAR {
						continue
					}
					for _, val := range v.Values {
						ast.Inspect(val, func(n ast.Node) bool {
							if call, ok := n.(*ast.CallExpr); ok && !harmless(call) {
								t.Errorf("%s: the package variable %s is initialized by a call, which runs at import", f.path, v.Names[0].Name)
							}
							_, body := n.(*ast.FuncLit) // runs when it is called
							return !body
						})
					}
				}
			}
		}
	}
}

// A process can also be started without os/exec.
func TestNoOtherWayToStartProcesses(t *testing.T) {
	for _, f := range sources(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"StartProcess", "ForkExec", "CreateProcess", "CreateProcessAsUser", "ShellExecute"}, s.Sel.Name) {
				t.Errorf("%s calls %s; the format helper is the only process that shipped programs start", f.path, s.Sel.Name)
			}
			return true
		})
	}
}

// harmless reports whether a call only computes a constant value.
func harmless(c *ast.CallExpr) bool {
	switch fun := c.Fun.(type) {
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return false
		}
		return slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "sync.OnceValues", "sync.OnceValue",
			"apiversion.NewVersionOrPanic", "strings.NewReplacer", "crc32.MakeTable", "reflect.TypeFor", "arrivalLimit.String"}, pkg.Name+"."+fun.Sel.Name)
	case *ast.ParenExpr, *ast.StarExpr, *ast.ArrayType:
		return true // a conversion
	case *ast.Ident:
		return slices.Contains([]string{"len", "new", "make"}, fun.Name)
	}
	return false
}

// Times are kept as time.Time and durations, whose differences do not change when the clock of
// the node is set. Numbers that stand for a time of day are for names and seeds only.
func TestNoNumbersOfTheClock(t *testing.T) {
	named := map[string]bool{
		"hack/stages/stages.go":             true, // a seed
		"internal/testbed/disks_windows.go": true, // the signature of a disk
	}
	for _, f := range sources(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}, s.Sel.Name) {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" { // time.Unix makes a Time
					return true
				}
				if !named[f.path] {
					t.Errorf("%s calls %s, which is of the wall clock", f.path, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// A driver that imports a module inherits its go line. Modules that no driver imports
// may require the Go version that builds the project.
func TestGoLines(t *testing.T) {
	const forDrivers, toBuild = "1.25.0", "1.26.0"
	for file, want := range map[string]string{
		"go.mod": forDrivers, "client/go.mod": forDrivers, "mountutils/go.mod": forDrivers,
		"examples/csi-driver/go.mod": forDrivers, "examples/csi-driver/csi-1.13.mod": forDrivers,
		"test/published/go.mod": forDrivers, "test/published/v1.3.0/go.mod": forDrivers,
		"go.work": toBuild, "cmd/go.mod": toBuild, "hack/go.mod": toBuild, "hack/release/go.mod": toBuild, "lab/go.mod": toBuild, "test/go.mod": toBuild,
	} {
		text := read(t, file)
		if got := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(text); got == nil || got[1] != want {
			t.Errorf("%s: go line %q, want \"go %s\"; dependencies that need a newer Go are not allowed", file, got, want)
		}
		if regexp.MustCompile(`(?m)^toolchain`).MatchString(text) {
			t.Errorf("%s has a toolchain line", file)
		}
	}
	version := strings.TrimSuffix(toBuild, ".0")
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/run/install.md", "docs/develop/windows.md"} {
		if !strings.Contains(read(t, page), "Go "+version+" or newer") {
			t.Errorf("%s does not say that the project needs \"Go %s or newer\"", page, version)
		}
	}
	if !strings.Contains(read(t, ".github/workflows/linux.yml"), "go-version: '"+version+"'") {
		t.Errorf("the Linux workflow does not run Go %s, the oldest that is promised to work", version)
	}
}

// read returns a file of the project.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The client module promises to have these direct dependencies only.
func TestClientDependsOnThreeModules(t *testing.T) {
	b := read(t, "client/go.mod")
	var direct []string
	for line := range strings.Lines(b) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && !strings.Contains(line, "// indirect") {
			direct = append(direct, f[0])
		}
	}
	slices.Sort(direct)
	want := []string{"github.com/Microsoft/go-winio", "google.golang.org/grpc", "google.golang.org/protobuf"}
	if !slices.Equal(direct, want) {
		t.Errorf("direct dependencies of client: %v, want %v", direct, want)
	}
}

// A dependency of the root module becomes a dependency of every driver that uses
// the library, so each has a reason.
func TestDriversInheritTheseModules(t *testing.T) {
	b := read(t, "go.mod")
	reasons := map[string]string{
		"github.com/Microsoft/go-winio":             "named pipes",
		"github.com/go-ole/go-ole":                  "WMI; it needs x/sys alone",
		"github.com/gofrs/flock":                    "lets one process at a time use the state of a simulated node",
		client:                                      "the published messages",
		"golang.org/x/sync":                         "lets a retry join running work",
		"golang.org/x/net":                          "HTTP/2 frames in tests of connections; grpc requires it anyway",
		"golang.org/x/sys":                          "Windows",
		"google.golang.org/genproto/googleapis/rpc": "error details",
		"google.golang.org/grpc":                    "the pipes",
		"google.golang.org/protobuf":                "the messages",
	}
	found := 0
	for line := range strings.Lines(b) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) < 2 || !strings.HasPrefix(f[1], "v") || strings.Contains(line, "// indirect") || f[0] == "=>" {
			continue
		}
		found++
		if reasons[f[0]] == "" {
			t.Errorf("the root module depends on %s, and so does every driver in process: add the reason to this test", f[0])
		}
	}
	if found != len(reasons) {
		t.Errorf("go.mod has %d direct dependencies, this test has reasons for %d", found, len(reasons))
	}
}

func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if f.generated && !documented[f.dir()] {
			documented[f.dir()] = true // generated packages are documented by their protos
		}
		documented[f.dir()] = documented[f.dir()] || f.ast.Doc != nil && len(f.ast.Doc.Text()) > 30
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// The build commands for Windows, where there is no make, are those of the Makefile.
// A program without its version resource, for example, fails tests.
func TestWindowsBuildMatchesMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `\s*:?= *(.+)$`).FindStringSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return found[1]
	}
	ldflags := strings.Replace(variable("LDFLAGS"), "$(VERSION)", "$version", 1)
	build := strings.NewReplacer("CGO_ENABLED=0 $(GO)", "go", "$(TAGS)", variable("TAGS"), "'$(LDFLAGS)'", `"`+ldflags+`"`).Replace(variable("BUILD"))
	for _, path := range []string{".github/workflows/windows.yml", "docs/develop/windows.md"} {
		for _, want := range []string{build + " -o bin/ ./cmd/csi-proxy ./cmd/csi-proxy-sim ./cmd/csi-proxyctl", "go run ./hack/stamp -version $version bin/csi-proxy.exe bin/csi-proxy-sim.exe bin/csi-proxyctl.exe"} {
			if !strings.Contains(read(t, path), want) {
				t.Errorf("%s does not have the line %s", path, want)
			}
		}
	}
}
