package winapi

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// constants returns the constants in the Go files of a directory, with their
// literal values.
func constants(t *testing.T, dir string, wanted func(name string) bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, n := range v.Names {
					if !wanted(n.Name) {
						continue
					}
					l, ok := v.Values[i].(*ast.BasicLit)
					if !ok {
						t.Fatalf("%s: the value of %s is not a literal", name, n.Name)
					}
					all[n.Name] = constant.MakeFromLiteral(l.Value, l.Kind, 0).ExactString()
				}
			}
		}
	}
	return all
}

var (
	answer = regexp.MustCompile(`^(ERROR|STATUS|ISDSC|RPC_S|NERR)_`)
	code   = regexp.MustCompile(`^(IOCTL|FSCTL)_|^File.*Information`)
)

// The names are exactly those of package win32. A missing name could not be used in a
// fault, and a fault with an extra name would be refused.
func TestNamesMatchWin32(t *testing.T) {
	calls := map[string]string{"AnyCall": `"*"`}
	for m := range reflect.TypeFor[win32.API]().NumMethod() {
		name := reflect.TypeFor[win32.API]().Method(m).Name
		calls[name] = fmt.Sprintf("%q", name)
	}
	want := constants(t, "../../../internal/win32", func(name string) bool { return answer.MatchString(name) || code.MatchString(name) })
	for name := range want {
		if answer.MatchString(name) {
			want[name] = fmt.Sprintf("%q", name) // winapi's errors are strings
		}
	}
	for name, value := range calls {
		want[name] = value
	}
	got := constants(t, ".", func(string) bool { return true })
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %s here, want %s", name, got[name], value)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s is not in package win32", name)
		}
	}
}

// Recordings show names, and csi-proxyctl accepts them, so each code has one.
func TestCodesHaveNames(t *testing.T) {
	got := map[string]string{}
	for _, c := range append(win32.ControlCodes(), win32.InformationClasses()...) {
		got[c.Name] = fmt.Sprint(c.Code)
	}
	want := constants(t, "../../../internal/win32", code.MatchString)
	if !maps.Equal(got, want) {
		t.Errorf("win32.ControlCodes and win32.InformationClasses have\n%v, want\n%v", got, want)
	}
}
