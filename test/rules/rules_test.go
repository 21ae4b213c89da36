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

// builds tells whether f is built for the operating system.
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

// Files whose published declarations name types that Go has for Windows only. They
// hold nothing else: what their functions do is in portable files.
const (
	publishedHandles = "pkg/disk/hostapi/handle_windows.go"  // syscall.Handle
	publishedStructs = "pkg/disk/hostapi/storage_windows.go" // windows.GUID
	publishedErrors  = "internal/win32/system_windows.go"    // syscall.Errno in the library's errors
)

func TestImportRules(t *testing.T) {
	hosts := append(slices.Clone(services), "internal/storage", "internal/winfs", "internal/winpath", "pkg/hosterr",
		"internal/keymutex", "internal/node")
	rules := []struct {
		why    string
		in     []string // directories the rule is about
		except []string // directories and files it is not about
		banned func(imp string) bool
	}{
		{
			why:    "what decides runs the same everywhere: Windows paths and calls are winpath's and win32's, not the host Go runs on",
			in:     slices.Concat(hosts, []string{"pkg/utils"}),
			except: []string{publishedHandles},
			banned: func(i string) bool { return slices.Contains([]string{"os", "path/filepath", "syscall", "os/exec"}, i) },
		},
		{
			why: "gRPC and protobuf end at internal/wire: a driver in process links neither",
			in:  slices.Concat(hosts, []string{"pkg/utils", "internal/win32"}),
			banned: func(i string) bool {
				return strings.HasPrefix(i, "google.golang.org/") || strings.HasPrefix(i, client) || under(i, module+"/internal/wire", module+"/internal/apiserver")
			},
		},
		{
			why:    "a driver's test in process links no gRPC: only what serves a simulated node does",
			in:     []string{"pkg/simnode"},
			except: []string{"pkg/simnode/serve"},
			banned: func(i string) bool {
				return strings.HasPrefix(i, "google.golang.org/") || strings.HasPrefix(i, client) || under(i, module+"/internal/wire", module+"/internal/apiserver")
			},
		},
		{
			why:    "who runs the contract over a node of their own has only what is public",
			in:     []string{"pkg/conformance"},
			banned: func(i string) bool { return strings.HasPrefix(i, module+"/internal/") },
		},
		{
			why:    "the boundary's types build everywhere and know no operating system",
			in:     []string{"internal/win32"},
			except: []string{"internal/win32/native", "internal/win32/emulated", publishedErrors},
			banned: func(i string) bool {
				return i == "os" || i == "syscall" || strings.HasPrefix(i, "golang.org/x/sys") || strings.HasPrefix(i, module)
			},
		},
		{
			why:    "the client stands alone: a driver that imports it gets nothing of the proxy",
			in:     []string{"client"},
			banned: func(i string) bool { return strings.HasPrefix(i, module) },
		},
		{
			why:    "Windows calls are made below win32.API, by the service wrapper, by commands, and nowhere else; published structures have a windows.GUID in them",
			in:     []string{"."},
			except: []string{"internal/win32/native", "cmd", "client/pipe", "client/internal", "test", publishedStructs},
			banned: func(i string) bool { return strings.HasPrefix(i, "golang.org/x/sys/windows") },
		},
		{
			why: "no shell, ever: nothing that ships starts a process, but for the format helper, which is csi-proxy.exe itself",
			in:  []string{"client", "pkg", "internal", "cmd"},
			except: []string{
				"internal/win32/native/fmifs",
				"internal/win32/mingwtest", // calls the C compiler; only tests import it
				"cmd/csi-proxy-api-gen",    // calls protoc's plugins; not shipped
			},
			banned: func(i string) bool { return i == "os/exec" },
		},
		{
			why:    "COM is for what Windows documents no other way to do, and its objects are counted where they are released",
			in:     []string{"."},
			except: []string{"internal/win32/native/wmi"},
			banned: func(i string) bool { return strings.HasPrefix(i, "github.com/go-ole/") },
		},
		{
			why: "arrows point down: a service does not know how it is reached",
			in:  hosts,
			banned: func(i string) bool {
				return under(i, module+"/pkg/simnode", module+"/pkg/remote", module+"/cmd", module+"/internal/policy")
			},
		},
		{
			why:    "services and hosts ask the boundary; which side answers is the node's business",
			in:     []string{"pkg", "internal", "cmd"},
			except: []string{"internal/node", "pkg/simnode", "internal/win32/native", "internal/win32/emulated"},
			banned: func(i string) bool {
				return under(i, module+"/internal/win32/native", module+"/internal/win32/emulated")
			},
		},
		{
			why: "what a driver inherits stays light: commands' and metrics' libraries are the cmd module's",
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
			t.Errorf("the rule %q finds no file in %v", rule.why, rule.in)
		}
	}
}

// Where the fake stands: at win32.API and nowhere above. So nothing else may be
// built differently for Windows but what is named here.
func TestOnlyTheListenerAndTheServiceWrapperDifferByOS(t *testing.T) {
	allowed := map[string]string{
		"internal/win32/native":   "the boundary's Windows side",
		"internal/win32/emulated": "process lock of a state directory",
		"internal/node":           "opens the native side, or says that there is none",
		"internal/apiserver":      "the listener: named pipes, or unix sockets",
		"client/pipe":             "the dialer: named pipes, or unix sockets",
		"client/internal":         "the dialer: named pipes, or unix sockets",
		"cmd/internal/winsvc":     "the service wrapper",
		"test/wine/driver":        "below the boundary: loads a driver into Wine, for tests",
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
			t.Errorf("%s is built for some systems only; above win32.API only these may be: %v", f.path, allowed)
		}
		used[dir] = true
	}
	if !used["internal/win32/native"] || !used["internal/node"] {
		t.Errorf("no system-specific file found in %v: the search is broken", used)
	}
}

// Nothing happens at import: drivers import these packages.
func TestNothingHappensAtImport(t *testing.T) {
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
						if call, ok := val.(*ast.CallExpr); ok && !harmless(call) {
							t.Errorf("%s: the package variable %s is initialised by a call, which runs at import", f.path, v.Names[0].Name)
						}
					}
				}
			}
		}
	}
}

// harmless calls compute a constant value.
func harmless(c *ast.CallExpr) bool {
	switch fun := c.Fun.(type) {
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		if !ok {
			return false
		}
		return slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "sync.OnceValues", "sync.OnceValue",
			"apiversion.NewVersionOrPanic", "strings.NewReplacer", "crc32.MakeTable", "reflect.TypeFor"}, pkg.Name+"."+fun.Sel.Name)
	case *ast.ParenExpr, *ast.StarExpr, *ast.ArrayType:
		return true // a conversion
	case *ast.Ident:
		return slices.Contains([]string{"len", "new", "make"}, fun.Name)
	}
	return false
}

// A driver that imports a module inherits its go line.
func TestGoLine(t *testing.T) {
	for _, m := range []string{".", "client", "cmd", "test", "test/external", "test/drivers"} {
		b, err := os.ReadFile(filepath.Join(root, m, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^go 1\.25\.0$`).Match(b) {
			t.Errorf("module %s: want the line \"go 1.25.0\"; a dependency that needs more must not be taken", m)
		}
		if regexp.MustCompile(`(?m)^toolchain`).Match(b) {
			t.Errorf("module %s has a toolchain line", m)
		}
	}
}

// The client module's direct dependencies are a promise.
func TestClientDependsOnThreeModules(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "client", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for line := range strings.Lines(string(b)) {
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

// So are those of the module that drivers link in process: what is added here is
// in the build list of each.
func TestDriversInheritTheseModules(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{
		"github.com/Microsoft/go-winio":             "named pipes",
		"github.com/go-ole/go-ole":                  "WMI; it needs x/sys alone",
		"github.com/gofrs/flock":                    "one process at a time for a simulated node's state",
		client:                                      "the published messages",
		"golang.org/x/sync":                         "work that a retry joins",
		"golang.org/x/net":                          "tests of connections speak HTTP/2 by hand; grpc brings it along anyway",
		"golang.org/x/sys":                          "Windows",
		"google.golang.org/genproto/googleapis/rpc": "details of errors",
		"google.golang.org/grpc":                    "the pipes",
		"google.golang.org/protobuf":                "the messages",
	}
	found := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) < 2 || !strings.HasPrefix(f[1], "v") || strings.Contains(line, "// indirect") || f[0] == "=>" {
			continue
		}
		found++
		if reasons[f[0]] == "" {
			t.Errorf("the root module depends on %s, which every driver in process inherits: say here what for", f[0])
		}
	}
	if found != len(reasons) {
		t.Errorf("%d direct dependencies, %d with a reason here", found, len(reasons))
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
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

func TestBuildTagsAreUnderstood(t *testing.T) {
	src := "//go:build !windows\n\npackage p\n"
	syntax, err := parser.ParseFile(token.NewFileSet(), "x.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	f := file{path: "a/x.go", ast: syntax}
	if builds(f, "windows") || !builds(f, "linux") {
		t.Errorf("builds(%q): windows %t, linux %t, want false, true", src, builds(f, "windows"), builds(f, "linux"))
	}
	if g := (file{path: "a/x_windows.go", ast: &ast.File{}}); builds(g, "linux") || !builds(g, "windows") {
		t.Error("x_windows.go must build on windows alone")
	}
}

// Who builds on Windows, where there is no make, builds what make does: without its
// version resource, say, a program fails the tests that read it.
func TestWindowsBuildsWhatShips(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	makefile := read("Makefile")
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `\s*:?= *(.+)$`).FindStringSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return found[1]
	}
	ldflags := strings.Replace(variable("LDFLAGS"), "$(VERSION)", "$version", 1)
	build := strings.NewReplacer("CGO_ENABLED=0 $(GO)", "go", "$(TAGS)", variable("TAGS"), "'$(LDFLAGS)'", `"`+ldflags+`"`).Replace(variable("BUILD"))
	for _, path := range []string{".github/workflows/windows.yml", "docs/evidence/windows.md"} {
		for _, want := range []string{build + " -o bin/ ./cmd/csi-proxy ./cmd/csi-proxy-sim ./cmd/csi-proxyctl", "go run ./hack/stamp -version $version bin/csi-proxy.exe bin/csi-proxy-sim.exe bin/csi-proxyctl.exe"} {
			if !strings.Contains(read(path), want) {
				t.Errorf("%s does not have the line %s", path, want)
			}
		}
	}
}
