package win32

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Recordings show the names of codes, and faults take them, so each code has one.
func TestCodesHaveNames(t *testing.T) {
	var got, want []string
	for _, c := range slices.Concat(ControlCodes(), InformationClasses()) {
		got = append(got, c.Name)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`^(IOCTL|FSCTL)_|^File.*Information`)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					if name := s.(*ast.ValueSpec).Names[0].Name; code.MatchString(name) {
						want = append(want, name)
					}
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the codes with names are\n%v, want\n%v", got, want)
	}
}
