package surface_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/kubernetes-csi/csi-proxy/v2"

var systems = []string{"windows", "linux"}

// declarations are packages of Go files without function bodies, type-checked for one system.
type declarations struct {
	system string
	files  fs.FS // pkg/… below the module's root
	others map[string]*types.Package
	done   map[string]*types.Package
}

func newDeclarations(system string, files fs.FS, others map[string]*types.Package) *declarations {
	return &declarations{system: system, files: files, others: others, done: map[string]*types.Package{}}
}

// Import implements types.Importer: it reads packages of the module from files and
// takes all others from others.
func (d *declarations) Import(name string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(name, module+"/")
	if !ours || !strings.HasPrefix(dir, "pkg/") {
		if p := d.others[name]; p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("package %s was not loaded", name)
	}
	if p := d.done[name]; p != nil {
		return p, nil
	}
	sources, err := fs.Glob(d.files, dir+"/*.go")
	if err != nil || len(sources) == 0 {
		return nil, fmt.Errorf("no declarations of %s: %w", name, err)
	}
	fset := token.NewFileSet()
	var syntax []*ast.File
	for _, source := range sources {
		if strings.HasSuffix(source, "_windows.go") && d.system != "windows" {
			continue
		}
		b, err := fs.ReadFile(d.files, source)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, source, b, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, f)
	}
	p, err := (&types.Config{Importer: d}).Check(name, fset, syntax, nil)
	if err != nil {
		return nil, err
	}
	d.done[name] = p
	return p, nil
}

// names returns the packages that have declarations.
func (d *declarations) names(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	err := fs.WalkDir(d.files, "pkg", func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".go") {
			found[module+"/"+path.Dir(p)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}

// load loads our packages for a system and the packages that the declarations import.
func load(t *testing.T, system string, names []string) map[string]*types.Package {
	t.Helper()
	patterns := []string{"context", "regexp", "syscall"}
	for _, name := range names {
		if dir := strings.TrimPrefix(name, module); exists("../.." + dir) {
			patterns = append(patterns, "."+dir)
		}
	}
	if system == "windows" {
		patterns = append(patterns, "golang.org/x/sys/windows")
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile,
		Dir:  "../..",
		Env:  append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*types.Package{}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, e)
		}
		found[p.PkgPath] = p.Types
	}
	return found
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// breaks returns the incompatible differences between two packages.
func breaks(published, ours *types.Package) []string {
	var found []string
	for _, c := range apidiff.Changes(published, ours).Changes {
		if !c.Compatible {
			found = append(found, c.Message)
		}
	}
	return found
}

// page has a table of allowed differences: package, difference, reason.
const page = "../../docs/compatible.md"

type exception struct{ pkg, difference string }

// exceptions returns the rows of the page's table with their reasons.
func exceptions(t *testing.T) map[exception]string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[exception]string{}
	for line := range bytes.Lines(b) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(string(line)), "|"), "|")
		if len(cells) != 3 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`pkg/") {
			continue
		}
		plain := func(s string) string { return strings.Trim(strings.TrimSpace(s), "`") }
		found[exception{module + "/" + plain(cells[0]), plain(cells[1])}] = strings.TrimSpace(cells[2])
	}
	return found
}

func TestLibraryIsCompatible(t *testing.T) {
	excepted := exceptions(t)
	met := map[exception]bool{}
	for _, system := range systems {
		published := newDeclarations(system, os.DirFS("testdata/v2"), nil)
		names := published.names(t)
		if len(names) < 14 {
			t.Fatalf("found declarations of %d packages, want at least 14: %v", len(names), names)
		}
		ours := load(t, system, names)
		published.others = ours
		for _, name := range names {
			old, err := published.Import(name)
			if err != nil {
				t.Fatal(err)
			}
			differences := []string{"the whole package"}
			if ours[name] != nil {
				differences = breaks(old, ours[name])
			}
			for _, d := range differences {
				e := exception{name, d}
				if excepted[e] == "" {
					t.Errorf("on %s, %s differs from the published package: %s", system, name, d)
				}
				met[e] = true
			}
		}
	}
	for e, why := range excepted {
		if !met[e] {
			t.Errorf("%s has a row for %s, %q, but there is no such difference", page, e.pkg, e.difference)
			continue
		}
		t.Attr("measured", fmt.Sprintf("not as published: %s, %s: %s", strings.TrimPrefix(e.pkg, module+"/"), e.difference, why))
	}
}

// The check finds each kind of incompatible change.
func TestBreaksFindsChanges(t *testing.T) {
	const disk, host, iscsi, storage = "pkg/disk/disk.go", "pkg/disk/hostapi/hostapi.go", "pkg/iscsi/iscsi.go", "pkg/disk/hostapi/storage.go"
	for _, c := range []struct{ name, file, from, to, want string }{
		{"field with another type", disk, "TotalBytes int64", "TotalBytes uint64", "GetDiskStatsResponse.TotalBytes: changed"},
		{"removed field", disk, "IsOnline   bool", "", "SetDiskStateRequest.IsOnline: removed"},
		{"renamed field", disk, "LUNID   string", "LunID string", "DiskLocation.LUNID: removed"},
		{"removed function", disk, "func New(", "func Make(", "New: removed"},
		{"added parameter", disk, "func New(hostAPI diskapi.HostAPI)", "func New(hostAPI diskapi.HostAPI, more ...int)", "New: changed"},
		{"added method of an interface", disk, "type Interface interface {", "type Interface interface {\nMore()", "Interface.More: added"},
		{"removed method", disk, "func (*Disk) Rescan(", "func (*Disk) rescan(", "Rescan: removed"},
		{"map of values", disk, "map[uint32]*DiskIDs", "map[uint32]DiskIDs", "ListDiskIDsResponse.DiskIDs: changed"},
		{"response by value", disk, "*RescanRequest) (*RescanResponse, error)\n\tSet", "*RescanRequest) (RescanResponse, error)\n\tSet", "Interface.Rescan: changed"},
		{"interface instead of a struct", host, "func New() DiskAPI", "func New() HostAPI", "New: changed"},
		{"constant with another value", iscsi, "MUTUAL_CHAP  = 2", "MUTUAL_CHAP  = 3", "MUTUAL_CHAP: value changed"},
		{"constant with a type", iscsi, "NONE         = 0", "NONE AuthenticationType = 0", "NONE: changed"},
		{"constant without its type", storage, "PropertyStandardQuery   StorageQueryType = 0", "PropertyStandardQuery = 0", "PropertyStandardQuery: changed"},
		{"type of another size", iscsi, "type AuthenticationType uint32", "type AuthenticationType int", "AuthenticationType: changed"},
		{"unexported field", storage, "DeviceNumber    uint32", "deviceNumber uint32", "StorageDeviceNumber.DeviceNumber: removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			original := os.DirFS("testdata/v2")
			changed := fstest.MapFS{}
			for _, dir := range []string{"pkg/disk", "pkg/disk/hostapi", "pkg/iscsi", "pkg/iscsi/hostapi"} {
				sources, err := fs.Glob(original, dir+"/*.go")
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range sources {
					b, err := fs.ReadFile(original, name)
					if err != nil {
						t.Fatal(err)
					}
					if name == c.file {
						if bytes.Count(b, []byte(c.from)) != 1 {
							t.Fatalf("%s has %q %d times, want once", name, c.from, bytes.Count(b, []byte(c.from)))
						}
						// The changed package may no longer satisfy its own assertion.
						b = bytes.ReplaceAll(b, []byte(c.from), []byte(c.to))
						b = bytes.ReplaceAll(b, []byte("var _ Interface = &Disk{}"), nil)
					}
					changed[name] = &fstest.MapFile{Data: b}
				}
			}
			std := standard(t)
			name := module + "/" + path.Dir(c.file)
			before, err := newDeclarations("linux", original, std).Import(name)
			if err != nil {
				t.Fatal(err)
			}
			same, err := newDeclarations("linux", original, std).Import(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := breaks(before, same); len(found) > 0 {
				t.Errorf("breaks of a package and itself = %q, want none", found)
			}
			after, err := newDeclarations("linux", changed, std).Import(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := strings.Join(breaks(before, after), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("breaks = %q, want %q in it", found, c.want)
			}
		})
	}
}

// standard loads the packages that the changed declarations import.
func standard(t *testing.T) map[string]*types.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile}, "context")
	if err != nil || len(pkgs) != 1 {
		t.Fatal(len(pkgs), err)
	}
	return map[string]*types.Package{"context": pkgs[0].Types}
}
