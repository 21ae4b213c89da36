package rows

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// goPackage contains the declarations of the Go package of a group, without type
// checking. That is enough to match fields; the compiler checks the rest.
type goPackage struct {
	name, path string
	structs    map[string][]goField
	named      map[string]string // type X uint32
	consts     map[string]bool
	methods    []goMethod // of Service, including embedded interfaces
}

type goField struct{ name, typ string }

// goMethod is a method Name(context.Context, *Request) (*Response, error).
type goMethod struct{ Name, Request, Response string }

func (p *goPackage) method(name string) (goMethod, bool) {
	i := slices.IndexFunc(p.methods, func(m goMethod) bool { return m.Name == name })
	if i < 0 {
		return goMethod{}, false
	}
	return p.methods[i], true
}

func (p *goPackage) field(of, name string) (goField, bool) {
	i := slices.IndexFunc(p.structs[of], func(f goField) bool { return f.name == name })
	if i < 0 {
		return goField{}, false
	}
	return p.structs[of][i], true
}

// sourceFiles parses the Go files of a directory, except for tests.
func sourceFiles(fset *token.FileSet, dir string) (map[string]*ast.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]*ast.File{}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if files[name], err = parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no Go files: %w", dir, fs.ErrNotExist)
	}
	return files, nil
}

// readGroup reads the package of a group in dir, whose import path is path.
func readGroup(dir, path string) (*goPackage, error) {
	files, err := sourceFiles(token.NewFileSet(), dir)
	if err != nil {
		return nil, err
	}
	p := &goPackage{
		path:    path,
		structs: map[string][]goField{},
		named:   map[string]string{},
		consts:  map[string]bool{},
	}
	interfaces := map[string]*ast.InterfaceType{}
	for _, f := range files {
		p.name = f.Name.Name
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.addType(spec)
					if t, ok := spec.Type.(*ast.InterfaceType); ok {
						interfaces[spec.Name.Name] = t
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						p.consts[n.Name] = gen.Tok == token.CONST
					}
				}
			}
		}
	}
	if t := interfaces["Service"]; t != nil {
		p.addMethods(t, interfaces)
	}
	if len(p.methods) == 0 {
		return nil, fmt.Errorf("%s: no interface named Service with methods", dir)
	}
	return p, nil
}

func (p *goPackage) addType(spec *ast.TypeSpec) {
	name := spec.Name.Name
	switch t := spec.Type.(type) {
	case *ast.StructType:
		fields := []goField{}
		for _, f := range t.Fields.List {
			typ := types.ExprString(f.Type)
			for _, n := range f.Names {
				fields = append(fields, goField{n.Name, typ})
			}
			if len(f.Names) == 0 {
				fields = append(fields, goField{"embedded " + typ, typ})
			}
		}
		p.structs[name] = fields
	case *ast.Ident:
		p.named[name] = t.Name
	}
}

// addMethods adds the methods of an interface, and of interfaces of the same package that
// it embeds.
func (p *goPackage) addMethods(t *ast.InterfaceType, interfaces map[string]*ast.InterfaceType) {
	for _, m := range t.Methods.List {
		if name, ok := m.Type.(*ast.Ident); ok && interfaces[name.Name] != nil {
			p.addMethods(interfaces[name.Name], interfaces)
			continue
		}
		sig, ok := m.Type.(*ast.FuncType)
		if !ok || len(m.Names) != 1 || sig.Params.NumFields() != 2 || sig.Results.NumFields() != 2 {
			continue
		}
		in := types.ExprString(sig.Params.List[len(sig.Params.List)-1].Type)
		out := types.ExprString(sig.Results.List[0].Type)
		if strings.HasPrefix(in, "*") && strings.HasPrefix(out, "*") {
			p.methods = append(p.methods, goMethod{m.Names[0].Name, in[1:], out[1:]})
		}
	}
}

// handMethod is a hand-written method.
type handMethod struct {
	texts  []string // its string literals, which include the method of the API that it calls
	fields []string // that it reads from the request, the variable in
}

// handWritten returns the hand-written functions of a package by name, and methods by
// "Type.Method".
func handWritten(dir string) (map[string]handMethod, error) {
	files, err := sourceFiles(token.NewFileSet(), dir)
	if err != nil {
		return nil, err
	}
	hand := map[string]handMethod{}
	for _, f := range files {
		if ast.IsGenerated(f) {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*") + "." + name
			}
			hand[name] = handMethod{textsIn(fn), fieldsIn(fn)}
		}
	}
	return hand, nil
}

// textsIn returns the string literals of a function.
func textsIn(fn *ast.FuncDecl) []string {
	var texts []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// fieldsIn returns the fields of the variable in that a function uses.
func fieldsIn(fn *ast.FuncDecl) []string {
	var fields []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "in" {
				fields = append(fields, sel.Sel.Name)
			}
		}
		return true
	})
	return fields
}
