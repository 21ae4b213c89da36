package surface_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

// A release is a published module.
type release struct {
	module, version, sum string
	dirs                 []string // of the packages that are compared
}

const (
	library = "github.com/kubernetes-csi/csi-proxy/v2"
	client  = "github.com/kubernetes-csi/csi-proxy/client"
)

var (
	alpha1   = release{library, "v2.0.0-alpha.1", "h1:tVPvlL5N5X598hrO3g9rhyoi6h0LP4RpSJlGHItsbEE=", []string{"pkg"}}
	alpha2   = release{library, "v2.0.0-alpha.2", "h1:4tHVP88AtKy+gYMXhigqeABRPk0L8tfwjhEexFxedUo=", []string{"pkg"}}
	client13 = release{client, "v1.3.0", "h1:c8JAHmspuI5w+/IBuspdartuFIZ0LcKOvz6lbHyi7WQ=", []string{".", "api", "apiversion", "groups"}}
)

// source downloads the release through the Go module proxy, once, and returns its files.
func (r release) source(t *testing.T) fs.FS {
	t.Helper()
	c := exec.Command("go", "mod", "download", "-json", r.module+"@"+r.version)
	// The sum is pinned here, so no database of sums is asked.
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOSUMDB=off")
	out, err := c.Output()
	var answer struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &answer); err != nil || jsonErr != nil {
		t.Fatalf("download %s@%s: %v, %v %s", r.module, r.version, err, jsonErr, answer.Error)
	}
	if answer.Sum != r.sum {
		t.Fatalf("%s@%s has the sum %s, want %s", r.module, r.version, answer.Sum, r.sum)
	}
	return os.DirFS(answer.Dir)
}

var systems = []string{"windows", "linux"}

// declarations are the packages of a published module, type-checked for one system without
// their function bodies.
type declarations struct {
	module string
	system string
	files  fs.FS
	others map[string]*types.Package // what they import, as far as our packages import it too
	done   map[string]*types.Package
	empty  map[string]bool // names by which files know a package that is empty here
}

func newDeclarations(module, system string, files fs.FS, others map[string]*types.Package) *declarations {
	return &declarations{module: module, system: system, files: files, others: others, done: map[string]*types.Package{}, empty: map[string]bool{}}
}

// sources returns the files of a package that belong to the system.
func (d *declarations) sources(dir string) ([]string, error) {
	names, err := fs.Glob(d.files, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	system := build.Context{
		GOOS: d.system, GOARCH: "amd64", Compiler: "gc", JoinPath: path.Join,
		OpenFile: func(name string) (io.ReadCloser, error) { return d.files.Open(name) },
	}
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		match, err := system.MatchFile(path.Split(name))
		if err != nil {
			return nil, err
		}
		if match {
			found = append(found, name)
		}
	}
	return found, nil
}

// Import implements types.Importer: it reads the packages of the module from files and takes
// all others from others. One that is not there is empty: what a published package declares
// with it cannot be compared, and is missing here.
func (d *declarations) Import(name string) (*types.Package, error) {
	if p := d.done[name]; p != nil {
		return p, nil
	}
	dir, ours := strings.CutPrefix(name+"/", d.module+"/")
	if !ours {
		if p := d.others[name]; p != nil {
			return p, nil
		}
		p := types.NewPackage(name, path.Base(strings.TrimSuffix(name, "/v2")))
		p.MarkComplete()
		d.done[name] = p
		return p, nil
	}
	sources, err := d.sources(path.Clean(dir))
	if err != nil || len(sources) == 0 {
		return nil, fmt.Errorf("no declarations of %s for %s: %w", name, d.system, err)
	}
	fset := token.NewFileSet()
	var syntax []*ast.File
	for _, source := range sources {
		b, err := fs.ReadFile(d.files, source)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, source, b, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, spec := range f.Imports {
			other := strings.Trim(spec.Path.Value, `"`)
			if strings.HasPrefix(other, d.module+"/") || d.others[other] != nil {
				continue
			}
			if spec.Name != nil {
				d.empty[spec.Name.Name] = true
			} else {
				d.empty[path.Base(strings.TrimSuffix(other, "/v2"))] = true
			}
		}
		syntax = append(syntax, f)
	}
	var wrong error
	conf := types.Config{Importer: d, IgnoreFuncBodies: true, Error: func(err error) {
		if e := err.(types.Error); !d.undeclared(e.Msg) && wrong == nil {
			wrong = err
		}
	}}
	p, _ := conf.Check(name, fset, syntax, nil) // wrong is its first error that counts
	if wrong != nil {
		return nil, wrong
	}
	d.done[name] = p
	return p, nil
}

// undeclared reports whether a type error is about a name of a package that is empty here.
func (d *declarations) undeclared(message string) bool {
	name, found := strings.CutPrefix(message, "undefined: ")
	if !found {
		return false
	}
	name, _, _ = strings.Cut(name, ".")
	return d.empty[name]
}

// names returns the packages below the directories that have declarations for the system.
func (d *declarations) names(t *testing.T, dirs []string) []string {
	t.Helper()
	var found []string
	for _, root := range dirs {
		err := fs.WalkDir(d.files, root, func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			if p != "." && root == "." {
				return fs.SkipDir
			}
			sources, err := d.sources(p)
			if len(sources) > 0 {
				found = append(found, path.Join(d.module, p))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// load loads our packages of a module for a system, and all that they import.
func load(t *testing.T, module, system string, names []string) map[string]*types.Package {
	t.Helper()
	root := map[string]string{library: "../..", client: "../../client"}[module]
	var patterns []string
	for _, name := range names {
		dir := path.Join(root, strings.TrimPrefix(name, module))
		if _, err := os.Stat(dir); err == nil {
			patterns = append(patterns, name)
		}
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports | packages.NeedDeps,
		Dir:  root,
		Env:  append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*types.Package{}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, e)
		}
		found[p.PkgPath] = p.Types
	})
	return found
}

// breaks returns the incompatible differences between two packages. Names with XXX_ belong to the
// generator of an old protobuf.
func breaks(published, ours *types.Package) []string {
	var found []string
	for _, c := range apidiff.Changes(published, ours).Changes {
		if !c.Compatible && !strings.Contains(c.Message, ".XXX_") {
			found = append(found, c.Message)
		}
	}
	return found
}

// page has a table of allowed differences: package, difference, reason.
const page = "../../docs/drivers/compatible.md"

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
		found[exception{library + "/" + plain(cells[0]), plain(cells[1])}] = strings.TrimSpace(cells[2])
	}
	return found
}

func TestPublishedModulesAreCompatible(t *testing.T) {
	excepted := exceptions(t)
	met := map[exception]bool{}
	for _, r := range []release{alpha1, alpha2, client13} {
		files := r.source(t)
		for _, system := range systems {
			published := newDeclarations(r.module, system, files, nil)
			names := published.names(t, r.dirs)
			if len(names) < 2 {
				t.Fatalf("found declarations of %d packages of %s@%s: %v", len(names), r.module, r.version, names)
			}
			ours := load(t, r.module, system, names)
			published.others = ours
			for _, name := range names {
				old, err := published.Import(name)
				if err != nil {
					if system == "windows" {
						t.Fatal(err)
					}
					continue // the published package is for Windows only
				}
				differences := []string{"the whole package"}
				if ours[name] != nil {
					differences = breaks(old, ours[name])
				}
				for _, d := range differences {
					e := exception{name, d}
					if excepted[e] == "" {
						t.Errorf("on %s, %s differs from %s: %s", system, name, r.version, d)
					}
					met[e] = true
				}
			}
		}
	}
	for e, why := range excepted {
		if !met[e] {
			t.Errorf("%s has a row for %s, %q, but there is no such difference", page, e.pkg, e.difference)
			continue
		}
		t.Attr("measured", fmt.Sprintf("not as published: %s, %s: %s", strings.TrimPrefix(e.pkg, library+"/"), e.difference, why))
	}
}
