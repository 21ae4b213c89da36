package surface_test

import (
	"go/types"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// What drivers write compiles against the declarations of the published library as it does
// against ours, so that their source does not change. For the client, `make test` builds the
// same packages with the published module.
func TestDriversCompileWithThePublishedLibrary(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Dir:  "../drivers",
		Env:  append(os.Environ(), "GOWORK=off", "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"),
	}, "./...", "context", "regexp", "syscall")
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]*types.Package{}
	packages.Visit(pkgs, nil, func(p *packages.Package) { others[p.PkgPath] = p.Types })
	compiled := 0
	for _, p := range pkgs {
		uses := false
		for name := range p.Imports {
			uses = uses || strings.HasPrefix(name, module+"/pkg/")
		}
		if !strings.HasPrefix(p.PkgPath, module+"/test/drivers/") || !uses {
			continue
		}
		compiled++
		published := newDeclarations("windows", os.DirFS("testdata/v2"), others)
		if _, err := (&types.Config{Importer: published}).Check(p.PkgPath, p.Fset, p.Syntax, nil); err != nil {
			t.Errorf("%s does not compile with the published library: %v", path.Base(p.PkgPath), err)
		}
	}
	if compiled < 4 {
		t.Errorf("only %d packages of drivers use the library", compiled)
	}
}
