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
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goPackage contains the declarations of the Go package of a group, without type
// checking. That is enough to match fields; the compiler checks the rest.
type goPackage struct {
	name    string
	structs map[string][]goField
	named   map[string]string // type X uint32
	consts  map[string]int64
	methods map[string]goMethod // of Service, including embedded interfaces
	order   []string            // names of methods in the order of the source
}

type goField struct{ name, typ string }

// goMethod is a method M(context.Context, *Request) (*Response, error).
type goMethod struct{ request, response string }

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

// readGroup reads the package of a group.
func readGroup(dir string) (*goPackage, error) {
	files, err := sourceFiles(token.NewFileSet(), dir)
	if err != nil {
		return nil, err
	}
	p := &goPackage{
		structs: map[string][]goField{},
		named:   map[string]string{},
		consts:  map[string]int64{},
		methods: map[string]goMethod{},
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
					if gen.Tok == token.CONST {
						p.addConsts(spec)
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
			p.methods[m.Names[0].Name] = goMethod{in[1:], out[1:]}
			p.order = append(p.order, m.Names[0].Name)
		}
	}
}

// addConsts adds constants that are integer literals.
func (p *goPackage) addConsts(spec *ast.ValueSpec) {
	for i, n := range spec.Names {
		if i >= len(spec.Values) {
			return
		}
		lit, ok := spec.Values[i].(*ast.BasicLit)
		if !ok || lit.Kind != token.INT {
			continue
		}
		if v, err := strconv.ParseInt(lit.Value, 0, 64); err == nil {
			p.consts[n.Name] = v
		}
	}
}

// handName matches the name of a hand-written row.
var handName = regexp.MustCompile(`^(v[0-9]+(?:(?:alpha|beta)[0-9]+)?)_([A-Z]\w*)$`)

// handWritten returns the files of hand-written rows by function name,
// <version>_<Method>.
func handWritten(dir string) (map[string]string, error) {
	files, err := sourceFiles(token.NewFileSet(), dir)
	if err != nil {
		return nil, err
	}
	hand := map[string]string{}
	for name, f := range files {
		if ast.IsGenerated(f) {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && handName.MatchString(fn.Name.Name) {
				hand[fn.Name.Name] = filepath.Base(name)
			}
		}
	}
	return hand, nil
}
