package winapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// The names are exactly those of the calls of package win32: one that is missing could not be used
// in a fault, and a fault with another would be refused.
func TestNamesMatchWin32(t *testing.T) {
	want := map[string]string{"AnyCall": `"*"`}
	for m := range reflect.TypeFor[win32.API]().NumMethod() {
		name := reflect.TypeFor[win32.API]().Method(m).Name
		want[name] = fmt.Sprintf("%q", name)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "calls.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			got[v.Names[0].Name] = v.Values[0].(*ast.BasicLit).Value
		}
		return true
	})
	if !maps.Equal(got, want) {
		t.Errorf("the names are\n%v, want\n%v", got, want)
	}
}
