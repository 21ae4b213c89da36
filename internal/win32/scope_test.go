package win32

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// declared reads the declarations of this package from its source, so that tests
// cover constants and functions added later.
func declared(t testing.TB) *types.Scope {
	t.Helper()
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), ".go") || strings.HasSuffix(n.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, n.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{
		// Imports do not matter to constants and names.
		Importer: noImports{},
		Error:    func(error) {},
	}
	pkg, _ := conf.Check("win32", fset, files, nil)
	return pkg.Scope()
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, errors.New("not imported")
}

type goConstant struct {
	name, kind string // kind is "Errno", "NTStatus" or "" for a plain number
	value      uint64
}

// constants returns the exported constants of the package, except names and the sizes
// of structures.
func constants(t testing.TB) []goConstant {
	t.Helper()
	var cs []goConstant
	scope := declared(t)
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if !ok || !c.Exported() || strings.HasPrefix(name, "Sizeof") || c.Val().Kind() == constant.String || name == "TraceLevel" { // a log level
			continue
		}
		v, exact := constant.Uint64Val(constant.ToInt(c.Val()))
		if !exact {
			t.Fatalf("constant %s = %s is not a number of Windows", name, c.Val())
		}
		kind := ""
		if n, ok := c.Type().(*types.Named); ok {
			kind = n.Obj().Name()
		}
		cs = append(cs, goConstant{name, kind, v})
	}
	return cs
}

// exported returns the package's functions or variables with a prefix.
func exported[Kind types.Object](t testing.TB, prefix string) []string {
	t.Helper()
	var names []string
	scope := declared(t)
	for _, name := range scope.Names() {
		if o, ok := scope.Lookup(name).(Kind); ok && o.Exported() && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestCallNames(t *testing.T) {
	api := reflect.TypeFor[API]()
	var want []string
	for i := range api.NumMethod() {
		want = append(want, api.Method(i).Name)
	}
	if got := CallNames(); !slices.Equal(got, want) {
		t.Errorf("CallNames() = %q, want %q", got, want)
	}
}
