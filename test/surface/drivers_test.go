package surface_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "rewrite the list of the identifiers that drivers use")

// list is a file with a line for each driver and identifier of our modules that it uses.
const list = "../drivers/uses.txt"

// The list shows a reviewer which identifiers the drivers depend on.
func TestUsesOfDriversAreCurrent(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile,
		Dir:  "../drivers",
		Env:  append(os.Environ(), "GOWORK=off", "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"),
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]bool{}
	per := map[string]int{}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, e)
		}
		for _, obj := range p.TypesInfo.Uses {
			if name := published(obj); name != "" {
				line := path.Base(p.PkgPath) + " " + name
				if !uses[line] {
					per[path.Base(p.PkgPath)]++
				}
				uses[line] = true
			}
		}
	}
	for _, driver := range []string{"gcepd", "awsebs", "azuredisk", "azurefile", "smb", "vsphere", "trident", "localprovisioner"} {
		if per[driver] == 0 {
			t.Errorf("the package of driver %s uses no identifier of our modules", driver)
		}
		t.Attr("measured", fmt.Sprintf("%s uses %d identifiers", driver, per[driver]))
	}
	got := strings.Join(slices.Sorted(maps.Keys(uses)), "\n") + "\n"
	if *update {
		if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date; run make generate", list)
	}
}

// published returns the name of an exported object of one of our modules, with its
// receiver or struct, or "" for any other object.
func published(obj types.Object) string {
	if obj.Pkg() == nil || !obj.Exported() || strings.HasPrefix(obj.Pkg().Path(), module+"/test/") {
		return ""
	}
	const modules = "github.com/kubernetes-csi/csi-proxy/"
	name, ours := strings.CutPrefix(obj.Pkg().Path(), modules)
	if !ours {
		return ""
	}
	switch obj := obj.(type) {
	case *types.PkgName:
		return ""
	case *types.Func:
		if recv := obj.Signature().Recv(); recv != nil {
			return name + "." + strings.TrimPrefix(types.TypeString(recv.Type(), func(*types.Package) string { return "" }), "*") + "." + obj.Name()
		}
	case *types.Var:
		if obj.IsField() {
			return name + " field " + obj.Name()
		}
	}
	return name + "." + obj.Name()
}

// A package comment names the source code that the package follows.
func TestDriverPackagesNameTheirSource(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax, Dir: "../drivers",
		Env: append(os.Environ(), "GOWORK=off", "GOOS=windows", "GOARCH=amd64")}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		if name := path.Base(p.PkgPath); name == "drivers" || name == "fakes" {
			continue
		}
		if !slices.ContainsFunc(p.Syntax, func(f *ast.File) bool {
			doc := f.Doc.Text()
			return strings.Contains(doc, "(kubernetes-") || strings.Contains(doc, "(NetApp/")
		}) {
			t.Errorf("the comment of package %s does not name the driver's source", p.PkgPath)
		}
	}
}
