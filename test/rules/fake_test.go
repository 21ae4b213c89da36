package rules_test

import (
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// Everything above win32.API has one implementation. win32.API itself has three:
// native, emulated, which has a second type for calls with a privilege, and that of
// Observe, which wraps another one.
func TestImplementationsOfWin32API(t *testing.T) {
	pkgs := load(t, "windows")
	impls := implementers(t, pkgs, module+"/internal/win32", "API")
	want := []string{"internal/win32.observed", "internal/win32/emulated.Node", "internal/win32/emulated.privileged", "internal/win32/native.API"}
	if !slices.Equal(impls, want) {
		t.Errorf("win32.API is implemented by %v, want %v", impls, want)
	}
	for _, group := range services {
		dir := module + "/" + group + "/hostapi"
		if !slices.ContainsFunc(pkgs, func(p *packages.Package) bool { return p.PkgPath == dir }) {
			continue // the group has no host yet
		}
		if impls := implementers(t, pkgs, dir, "HostAPI"); len(impls) != 1 {
			t.Errorf("%s.HostAPI is implemented by %v, want one implementation", dir, impls)
		}
	}
}

func load(t *testing.T, goos string) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  root,
		Env:  append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0"),
	}, module+"/internal/...", module+"/pkg/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, e)
		}
	}
	return pkgs
}

func implementers(t *testing.T, pkgs []*packages.Package, pkg, name string) []string {
	t.Helper()
	i := slices.IndexFunc(pkgs, func(p *packages.Package) bool { return p.PkgPath == pkg })
	if i < 0 {
		t.Fatalf("no package %s", pkg)
	}
	obj := pkgs[i].Types.Scope().Lookup(name)
	if obj == nil {
		t.Fatalf("no type %s.%s", pkg, name)
	}
	iface := obj.Type().Underlying().(*types.Interface)
	var found []string
	for _, p := range pkgs {
		for _, n := range p.Types.Scope().Names() {
			tn, ok := p.Types.Scope().Lookup(n).(*types.TypeName)
			if !ok || types.IsInterface(tn.Type()) {
				continue
			}
			if types.Implements(tn.Type(), iface) || types.Implements(types.NewPointer(tn.Type()), iface) {
				found = append(found, strings.TrimPrefix(p.PkgPath, module+"/")+"."+n)
			}
		}
	}
	slices.Sort(found)
	return found
}
