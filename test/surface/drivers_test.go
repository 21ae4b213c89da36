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

var update = flag.Bool("update", false, "write the list of what drivers use anew")

// list tells, a line each, which driver uses which identifier of our modules.
const list = "../drivers/uses.txt"

// Each identifier that a driver's package uses, so that a review sees what is
// promised to whom.
func TestTheListOfWhatDriversUseIsCurrent(t *testing.T) {
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
			t.Errorf("the package of driver %s uses nothing of ours", driver)
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
		t.Errorf("%s is not what the packages use; run go test ./surface -update in module test", list)
	}
}

// published names an exported object of one of our modules, with its receiver or
// struct; "" is anything else.
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

// A package comment says which source was read.
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
			t.Errorf("package %s does not say whose source it follows", p.PkgPath)
		}
	}
}
