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

// declarations are packages of bodiless Go files, type-checked for one system.
type declarations struct {
	system string
	files  fs.FS // pkg/… below the module's root
	others map[string]*types.Package
	done   map[string]*types.Package
}

func newDeclarations(system string, files fs.FS, others map[string]*types.Package) *declarations {
	return &declarations{system: system, files: files, others: others, done: map[string]*types.Package{}}
}

// Import implements types.Importer: packages of the module are those in files,
// all others were loaded before.
func (d *declarations) Import(name string) (*types.Package, error) {
	dir, ours := strings.CutPrefix(name, module+"/")
	if !ours {
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

// names are the packages that have declarations.
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

// load are our packages for a system, and what the declarations import.
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

// breaks are the differences between two packages that a driver could trip over.
func breaks(published, ours *types.Package) []string {
	var found []string
	for _, c := range apidiff.Changes(published, ours).Changes {
		if !c.Compatible {
			found = append(found, c.Message)
		}
	}
	return found
}

// page lists what is not as published: rows of package, difference, reason.
const page = "../../docs/compatible.md"

type exception struct{ pkg, difference string }

// exceptions are the rows of the page's table, and their reasons.
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

func TestTheLibraryIsAsPublished(t *testing.T) {
	excepted := exceptions(t)
	met := map[exception]bool{}
	for _, system := range systems {
		published := newDeclarations(system, os.DirFS("testdata/v2"), nil)
		names := published.names(t)
		if len(names) < 14 {
			t.Fatalf("declarations of %d packages, want those of 14 and more: %v", len(names), names)
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
					t.Errorf("on %s, %s is not as published: %s", system, name, d)
				}
				met[e] = true
			}
		}
	}
	for e, why := range excepted {
		if !met[e] {
			t.Errorf("%s has a row for %s, %q, which is as published", page, e.pkg, e.difference)
			continue
		}
		t.Attr("measured", fmt.Sprintf("not as published: %s, %s: %s", strings.TrimPrefix(e.pkg, module+"/"), e.difference, why))
	}
}

// What the check is good for: a package that differs by one thing is noticed.
func TestADoctoredPackageIsNoticed(t *testing.T) {
	const disk, host, iscsi, storage = "pkg/disk/disk.go", "pkg/disk/hostapi/hostapi.go", "pkg/iscsi/iscsi.go", "pkg/disk/hostapi/storage.go"
	for _, c := range []struct{ name, file, from, to, want string }{
		{"a field of another type", disk, "TotalBytes int64", "TotalBytes uint64", "GetDiskStatsResponse.TotalBytes: changed"},
		{"a field that is gone", disk, "IsOnline   bool", "", "SetDiskStateRequest.IsOnline: removed"},
		{"a field with another name", disk, "LUNID   string", "LunID string", "DiskLocation.LUNID: removed"},
		{"a function that is gone", disk, "func New(", "func Make(", "New: removed"},
		{"a parameter more", disk, "func New(hostAPI diskapi.HostAPI)", "func New(hostAPI diskapi.HostAPI, more ...int)", "New: changed"},
		{"a method more in an interface", disk, "type Interface interface {", "type Interface interface {\nMore()", "Interface.More: added"},
		{"a method of a type that is gone", disk, "func (*Disk) Rescan(", "func (*Disk) rescan(", "Rescan: removed"},
		{"a map of values", disk, "map[uint32]*DiskIDs", "map[uint32]DiskIDs", "ListDiskIDsResponse.DiskIDs: changed"},
		{"a response by value", disk, "*RescanRequest) (*RescanResponse, error)\n\tSet", "*RescanRequest) (RescanResponse, error)\n\tSet", "Interface.Rescan: changed"},
		{"an interface for a struct", host, "func New() DiskAPI", "func New() HostAPI", "New: changed"},
		{"a constant of another value", iscsi, "MUTUAL_CHAP  = 2", "MUTUAL_CHAP  = 3", "MUTUAL_CHAP: value changed"},
		{"a constant that gets a type", iscsi, "NONE         = 0", "NONE AuthenticationType = 0", "NONE: changed"},
		{"a constant that loses its type", storage, "PropertyStandardQuery   StorageQueryType = 0", "PropertyStandardQuery = 0", "PropertyStandardQuery: changed"},
		{"a type of another size", iscsi, "type AuthenticationType uint32", "type AuthenticationType int", "AuthenticationType: changed"},
		{"a type that becomes opaque", storage, "DeviceNumber    uint32", "deviceNumber uint32", "StorageDeviceNumber.DeviceNumber: removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			original := os.DirFS("testdata/v2")
			doctored := fstest.MapFS{}
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
						// Inside, a doctored package need not fit together.
						b = bytes.ReplaceAll(b, []byte(c.from), []byte(c.to))
						b = bytes.ReplaceAll(b, []byte("var _ Interface = &Disk{}"), nil)
					}
					doctored[name] = &fstest.MapFile{Data: b}
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
				t.Errorf("a package and itself: %q", found)
			}
			after, err := newDeclarations("linux", doctored, std).Import(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := strings.Join(breaks(before, after), "\n"); !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q in it", found, c.want)
			}
		})
	}
}

// standard is what the declarations import, as far as doctored ones do.
func standard(t *testing.T) map[string]*types.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile}, "context")
	if err != nil || len(pkgs) != 1 {
		t.Fatal(len(pkgs), err)
	}
	return map[string]*types.Package{"context": pkgs[0].Types}
}
