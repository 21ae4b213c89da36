package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	boundary = "internal/win32"
	emulated = boundary + "/emulated"
)

// An answer is what the emulated side returns at one place.
type answer struct {
	file  string   // relative to the emulated side
	calls []string // of win32.API, or control codes, in which it is returned
	code  string   // of the error; empty where the call succeeds
	kind  string
	text  string
}

// code is the parsed code of the emulated side.
type code struct {
	fset  *token.FileSet
	api   map[string]bool // names of the calls of win32.API
	files []*file
	funcs map[string][]*function // by name
}

type file struct {
	name   string // relative to the emulated side
	dir    string
	ast    *ast.File
	labels *labelsOf
}

// A function is a declared one, or a case of a control code.
type function struct {
	file  *file
	name  string
	recv  string // type of the receiver
	call  string // name of the call that it implements
	nodes []ast.Node
	body  []ast.Node
	decl  *ast.FuncDecl
	calls map[string]bool // of which it is a part
}

// events are functions that do what is due at the time of any call. They are part of none.
var events = [...]string{"applyISCSIEvents", "addArrived", "addReserved"}

var (
	errorCode   = regexp.MustCompile(`^(ERROR|STATUS|ISDSC|NERR|CR)_[A-Z0-9_]+$`)
	controlCode = regexp.MustCompile(`^(IOCTL|FSCTL)_[A-Z0-9_]+$`)
)

func readCode(root string) (*code, error) {
	c := &code{fset: token.NewFileSet(), api: map[string]bool{}, funcs: map[string][]*function{}}
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(boundary), "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.addAPI(f)
	}
	if len(c.api) == 0 {
		return nil, fmt.Errorf("%s: no interfaces", boundary)
	}
	top := filepath.Join(root, filepath.FromSlash(emulated))
	err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(c.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		labels, err := readLabels(c.fset, parsed)
		if err != nil {
			return err
		}
		f := &file{filepath.ToSlash(rel), path.Dir(filepath.ToSlash(rel)), parsed, labels}
		c.files = append(c.files, f)
		for _, d := range parsed.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				c.addFunction(f, d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.follow()
	return c, nil
}

// addAPI adds the methods of the interfaces of a file that win32.API consists of.
func (c *code) addAPI(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok || !t.Name.IsExported() {
				continue
			}
			if i, ok := t.Type.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						c.api[name.Name] = true
					}
				}
			}
		}
	}
}

// addFunction adds a function, and each case of a control code in it as a function of its
// own.
func (c *code) addFunction(f *file, d *ast.FuncDecl) {
	fn := &function{file: f, name: d.Name.Name, nodes: []ast.Node{d}, body: []ast.Node{d.Body}, decl: d}
	if d.Recv != nil {
		fn.recv = typeName(d.Recv.List[0].Type)
		if c.api[fn.name] && fn.recv == "Node" {
			fn.call = fn.name
		}
	}
	c.funcs[fn.name] = append(c.funcs[fn.name], fn)
	walk(d, func(nodes []ast.Node) bool {
		clause, ok := nodes[len(nodes)-1].(*ast.CaseClause)
		if !ok {
			return true
		}
		for _, e := range clause.List {
			if name, ok := win32Name(e); ok && controlCode.MatchString(name) {
				part := &function{file: f, name: fn.name + " " + name, recv: fn.recv, call: name, nodes: slices.Clone(nodes), decl: d}
				for _, s := range clause.Body {
					part.body = append(part.body, s)
				}
				c.funcs[part.name] = append(c.funcs[part.name], part)
			}
		}
		return true
	})
}

// follow finds of which calls each function is a part. Methods are told apart by their
// names, and by the types of receivers and parameters; so a function may count for a call
// too many, and for none too few.
func (c *code) follow() {
	for _, name := range slices.Sorted(maps.Keys(c.funcs)) {
		for _, fn := range c.funcs[name] {
			if fn.call != "" {
				c.mark(fn, fn.call)
			}
		}
	}
}

func (c *code) mark(fn *function, call string) {
	if fn.calls[call] || slices.Contains(events[:], fn.name) {
		return
	}
	if fn.calls == nil {
		fn.calls = map[string]bool{}
	}
	fn.calls[call] = true
	types := map[string]string{}
	fields := slices.Clone(fn.decl.Type.Params.List)
	if fn.decl.Recv != nil {
		fields = append(fields, fn.decl.Recv.List...)
	}
	for _, f := range fields {
		for _, n := range f.Names {
			types[n.Name] = typeName(f.Type)
		}
	}
	for _, b := range fn.body {
		ast.Inspect(b, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				return !isControl(n) // a function of its own
			case *ast.CallExpr:
				for _, e := range append([]ast.Expr{n.Fun}, n.Args...) { // an argument may be a function
					c.markAll(c.resolve(fn, e, types), call)
				}
			}
			return true
		})
	}
}

// resolve returns the functions that e may mean in fn, where names have these types.
func (c *code) resolve(fn *function, e ast.Expr, types map[string]string) []*function {
	switch e := e.(type) {
	case *ast.Ident:
		return c.functionsOf(e.Name, fn.file.dir)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		if !ok {
			return c.methodsOf(e.Sel.Name, "")
		}
		if dir, imported := fn.file.imported(x); imported {
			return c.functionsOf(e.Sel.Name, dir)
		}
		return c.methodsOf(e.Sel.Name, types[x.Name])
	}
	return nil
}

func (c *code) markAll(fns []*function, call string) {
	for _, fn := range fns {
		c.mark(fn, call)
	}
}

// imported returns whether x is the name of a package, and its directory if it is a part of
// the emulated side.
func (f *file) imported(x *ast.Ident) (dir string, ok bool) {
	for _, i := range f.ast.Imports {
		name := strings.Trim(i.Path.Value, `"`)
		if path.Base(name) != x.Name {
			continue
		}
		if _, dir, ok := strings.Cut(name, emulated+"/"); ok {
			return dir, true
		}
		return "none", true
	}
	return "", false
}

// functionsOf returns the functions with this name in a directory.
func (c *code) functionsOf(name, dir string) (found []*function) {
	for _, fn := range c.funcs[name] {
		if fn.recv == "" && fn.file.dir == dir {
			found = append(found, fn)
		}
	}
	return found
}

// methodsOf returns the methods that a name may mean: those of the type, if it is known and
// has one. The calls of win32.API have names that other types have, too; they are called
// with a known type only.
func (c *code) methodsOf(name, recv string) (found []*function) {
	var exact []*function
	for _, fn := range c.funcs[name] {
		switch {
		case fn.recv == "":
		case fn.recv == recv:
			exact = append(exact, fn)
		case fn.call == "":
			found = append(found, fn)
		}
	}
	if exact != nil {
		return exact
	}
	return found
}

// answers returns all answers, in the order of the files.
func (c *code) answers() (as []answer, err error) {
	var errs []error
	missing := func(pos token.Pos, what string) {
		errs = append(errs, fmt.Errorf("%v: no source of %s; add a comment such as \"// Source: document, <page>.\" (see hack/sources)", c.fset.Position(pos), what))
	}
	for _, f := range c.files {
		for _, name := range slices.Sorted(maps.Keys(c.funcs)) {
			for _, fn := range c.funcs[name] {
				if fn.call == "" || fn.file != f {
					continue
				}
				l := f.labels.find("", fn.nodes)
				if l == nil {
					missing(fn.nodes[len(fn.nodes)-1].Pos(), "what "+fn.call+" returns")
					continue
				}
				as = append(as, answer{f.name, []string{fn.call}, "", l.kind, l.text})
			}
		}
		walk(f.ast, func(nodes []ast.Node) bool {
			name, ok := win32Name(nodes[len(nodes)-1])
			if !ok || !errorCode.MatchString(name) || compared(nodes) {
				return true
			}
			l := f.labels.find(name, nodes)
			if l == nil {
				missing(nodes[len(nodes)-1].Pos(), name)
				return true
			}
			as = append(as, answer{f.name, c.callsOf(f, nodes), name, l.kind, l.text})
			return true
		})
		for _, l := range f.labels.all {
			if !l.used {
				errs = append(errs, fmt.Errorf("%v: the source is of nothing", l.pos))
			}
		}
	}
	return as, errors.Join(errs...)
}

// callsOf returns the calls of which the last node is a part.
func (c *code) callsOf(f *file, nodes []ast.Node) []string {
	var fn *function
	for _, n := range nodes {
		for _, all := range c.funcs {
			for _, g := range all {
				if g.file == f && g.nodes[len(g.nodes)-1] == n {
					if fn != nil && g.nodes[len(g.nodes)-1] == fn.nodes[len(fn.nodes)-1] {
						for call := range g.calls { // a case of several codes
							fn.calls[call] = true
						}
						continue
					}
					fn = g
				}
			}
		}
	}
	if fn == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fn.calls))
}

// compared reports whether the last node is not a value that is returned but one that
// another is compared with.
func compared(nodes []ast.Node) bool {
	last := nodes[len(nodes)-1]
	switch parent := nodes[len(nodes)-2].(type) {
	case *ast.BinaryExpr:
		return parent.Op == token.EQL || parent.Op == token.NEQ
	case *ast.CaseClause:
		return slices.Contains(parent.List, last.(ast.Expr))
	case *ast.CallExpr:
		name, _ := win32Name(parent.Fun)
		if s, ok := parent.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Is" {
			name = "Is"
		}
		return name == "Is" || name == "IsCode"
	}
	return false
}

func isControl(clause *ast.CaseClause) bool {
	return slices.ContainsFunc(clause.List, func(e ast.Expr) bool {
		name, ok := win32Name(e)
		return ok && controlCode.MatchString(name)
	})
}

// win32Name returns the name of win32.<name>.
func win32Name(n ast.Node) (string, bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := s.X.(*ast.Ident)
	return s.Sel.Name, ok && x.Name == "win32"
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// walk calls f with each node below root and those around it, the outermost first.
func walk(root ast.Node, f func(nodes []ast.Node) bool) {
	var nodes []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			nodes = nodes[:len(nodes)-1]
			return true
		}
		nodes = append(nodes, n)
		if !f(nodes) {
			nodes = nodes[:len(nodes)-1]
			return false
		}
		return true
	})
}
