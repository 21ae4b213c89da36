package surface_test

import (
	"go/ast"
	"go/types"
	"os"
	"path"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// What drivers implement compiles against the declarations of the published library as it does
// against ours, so that their source does not change.
func TestFakesCompileWithThePublishedLibrary(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Env:  append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"),
	}, "./fakes", "context", "regexp", "syscall")
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]*types.Package{}
	packages.Visit(pkgs, nil, func(p *packages.Package) { others[p.PkgPath] = p.Types })
	published := newDeclarations(library, "windows", alpha2.source(t), others)
	fakes := slices.IndexFunc(pkgs, func(p *packages.Package) bool { return p.Name == "fakes" })
	if fakes < 0 {
		t.Fatal("package fakes was not loaded")
	}
	p := pkgs[fakes]
	// The names in others.go are of other releases.
	syntax := slices.DeleteFunc(slices.Clone(p.Syntax), func(f *ast.File) bool {
		return path.Base(p.Fset.Position(f.Pos()).Filename) == "others.go"
	})
	if len(syntax) != len(p.Syntax)-1 {
		t.Errorf("left out %d files, want others.go", len(p.Syntax)-len(syntax))
	}
	if _, err := (&types.Config{Importer: published}).Check(p.PkgPath, p.Fset, syntax, nil); err != nil {
		t.Errorf("what drivers implement does not compile with the published library: %v", err)
	}
}
