package rules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
)

// The emulated side refuses and answers as Windows does, as far as that is known. Each
// refusal, which is a place that returns the number of an error, and each call and control
// code says in a comment who says so:
//
//	// Source: document, IOCTL_DISK_GROW_PARTITION.
//	// Source of ERROR_DISK_FULL, ERROR_IO_DEVICE: inference.
//
// The comment is about the statement or case below it, or on whose first line it ends, with
// all that is inside; in the comment of a function it is about the function. The nearest
// counts. One that names codes is about these only.
const emulatedSide = "internal/win32/emulated"

// kinds say who says that Windows answers so.
var kinds = map[string]string{
	"inference":     "a conclusion, or general knowledge that was not looked up",
	"program":       "another program that runs on Windows, by its code or what it was seen to rely on",
	"specification": "an open specification, such as [MS-FSA] or the SMBIOS specification",
	"document":      "a page of Microsoft, or a comment in a header of Windows",
	"code":          "public code of Microsoft, such as WSL and the driver samples",
	"Windows":       "Windows printed it, in a public log or issue, or in a test that runs on Windows",
	"node":          "no answer of Windows: a limit or a failure of the simulated node itself",
}

// guards are refusals without which data would be lost, by the function that returns them.
// One of its places must have another source than inference.
var guards = []struct{ function, code, protects string }{
	{"VolumeInformation", "ERROR_UNRECOGNIZED_VOLUME", "FormatVolume formats after this error only, and after a look at the content"},
	{"formattable", "ERROR_ACCESS_DENIED", "a volume that is in use is not formatted"},
	{"Write", "ERROR_ACCESS_DENIED", "PartitionDisk does not erase the place of a volume that another program has made meanwhile"},
	{"Present", "ERROR_DEVICE_NOT_CONNECTED", "a handle of a disk that was removed does not lead to another disk"},
	{"Ready", "ERROR_NO_SUCH_DEVICE", "a volume that was removed is not replaced by another during a format"},
	{"growPartition", "ERROR_INVALID_PARAMETER", "a partition does not grow over the next one"},
	{"lock", "ERROR_ACCESS_DENIED", "SetDiskState keeps a disk online while a mounted volume is in use"},
	{"SetDisposition", "STATUS_DIRECTORY_NOT_EMPTY", "Rmdir without force keeps what is in a directory"},
	{"resolve", "STATUS_REPARSE_POINT_ENCOUNTERED", "a removal does not follow a link"},
	{"getReparse", "STATUS_NOT_A_REPARSE_POINT", "a removal empties only what it takes for no link after this error"},
	{"setMountReparse", "ERROR_DIR_NOT_EMPTY", "MountVolume does not hide the content of a directory"},
	{"LogoutIScsiTarget", "ISDSC_DEVICE_BUSY_ON_SESSION", "a target is not disconnected while its disks are in use"},
}

// roomTypes are the node and its rooms, whose methods are those of win32.API.
var roomTypes = map[string]bool{"Node": true, "Kernel": true, "Services": true, "Disks": true, "Initiator": true, "Volumes": true, "Network": true, "Namespace": true}

// A refusal is a place that returns the number of an error, with its source.
type refusal struct{ function, code, kind, text string }

func TestRefusalsNameTheirSource(t *testing.T) {
	all, errs := refusals(t, parseDir(t, "internal/win32"), parseTree(t, emulatedSide))
	for _, err := range errs {
		t.Error(err)
	}
	if len(all) < 300 {
		t.Errorf("found %d refusals: the search is broken", len(all))
	}
	none := parsed{fset: token.NewFileSet()}
	none.add(t, "a.go", "package emulated\n\nfunc f() error { return win32.ERROR_CRC }\n")
	if _, errs := refusals(t, parsed{fset: token.NewFileSet()}, none); len(errs) != 1 {
		t.Errorf("a refusal without a source: %v, want one error", errs)
	}
	for _, g := range guards {
		if !slices.ContainsFunc(all, func(r refusal) bool {
			return r.function == g.function && r.code == g.code && r.kind != "inference" && r.kind != "node"
		}) {
			t.Errorf("%s: %s of the function %s has no source but inference, or is returned elsewhere", g.protects, g.code, g.function)
		}
	}
}

// Each value of an option of the simulated node says what Windows does, and who says so.
func TestValuesOfOptionsNameTheirSource(t *testing.T) {
	for _, o := range behavior.All() {
		for _, v := range o.Values {
			if v.Source == "" || v.Does == "" {
				t.Errorf("%s: %s: source %q, what Windows does %q: want both", o.Key, v.Name, v.Source, v.Does)
			}
		}
	}
}

type parsed struct {
	fset  *token.FileSet
	files []*ast.File
}

func parseDir(t *testing.T, dir string) (p parsed) {
	t.Helper()
	p.fset = token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p.add(t, name, nil)
	}
	return p
}

// parseTree parses the Go files below dir that are not tests.
func parseTree(t *testing.T, dir string) (p parsed) {
	t.Helper()
	p.fset = token.NewFileSet()
	err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(dir)), func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			p.add(t, name, nil)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *parsed) add(t *testing.T, name string, text any) {
	t.Helper()
	f, err := parser.ParseFile(p.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p.files = append(p.files, f)
}

var (
	errorCode   = regexp.MustCompile(`^(ERROR|STATUS|ISDSC|NERR|CR)_[A-Z0-9_]+$`)
	controlCode = regexp.MustCompile(`^(IOCTL|FSCTL)_[A-Z0-9_]+$`)
)

// refusals returns those of the emulated side, and what is wrong with the sources. boundary
// has the interfaces of win32.API.
func refusals(t *testing.T, boundary, side parsed) (all []refusal, errs []error) {
	t.Helper()
	api := map[string]bool{}
	for _, f := range boundary.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						api[name.Name] = name.IsExported()
					}
				}
			}
			return true
		})
	}
	for _, f := range side.files {
		labels, bad := readLabels(side.fset, f)
		errs = append(errs, bad...)
		walk(f, func(nodes []ast.Node) {
			what := ""
			switch n := nodes[len(nodes)-1].(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && api[n.Name.Name] && roomTypes[typeName(n.Recv.List[0].Type)] {
					what = "what " + n.Name.Name + " returns"
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					if name := win32Name(e); controlCode.MatchString(name) {
						what = "what " + name + " returns"
					}
				}
			case *ast.SelectorExpr:
				if name := win32Name(n); errorCode.MatchString(name) && !compared(nodes) {
					if l := labels.find(side.fset, name, nodes); l != nil {
						all = append(all, refusal{functionOf(nodes), name, l.kind, l.text})
					} else {
						what = name
					}
				}
			}
			if what != "" && labels.find(side.fset, "", nodes) == nil {
				errs = append(errs, fmt.Errorf("%v: no source of %s; add a comment such as \"// Source: document, <page>.\"", side.fset.Position(nodes[len(nodes)-1].Pos()), what))
			}
		})
		for _, l := range labels.all {
			if !l.used {
				errs = append(errs, fmt.Errorf("%v: the source is of nothing", l.pos))
			}
		}
	}
	return all, errs
}

// functionOf returns the name of the function around the last node.
func functionOf(nodes []ast.Node) string {
	for _, n := range nodes {
		if d, ok := n.(*ast.FuncDecl); ok {
			return d.Name.Name
		}
	}
	return ""
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
		s, ok := parent.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Is" || s.Sel.Name == "IsCode")
	}
	return false
}

// win32Name returns the name of win32.<name>, "" for anything else.
func win32Name(n ast.Node) string {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "win32" {
			return s.Sel.Name
		}
	}
	return ""
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// walk calls f with each node below root and those around it, the outermost first.
func walk(root ast.Node, f func(nodes []ast.Node)) {
	var nodes []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			nodes = nodes[:len(nodes)-1]
			return true
		}
		nodes = append(nodes, n)
		f(nodes)
		return true
	})
}

// A label is a comment that names a source.
type label struct {
	pos   token.Position
	codes []string // what it is about; empty for all
	kind  string
	text  string
	used  bool
}

var labelLine = regexp.MustCompile(`^Source(?: of ([A-Z0-9_, ]+))?:(.*)$`)

// parseLabels returns the labels in a comment. A label ends before the next one, or at an
// empty line.
func parseLabels(fset *token.FileSet, g *ast.CommentGroup) (labels []*label, errs []error) {
	var open *label
	for _, c := range g.List {
		text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		m := labelLine.FindStringSubmatch(text)
		switch {
		case m != nil:
			open = &label{pos: fset.Position(c.Pos()), text: strings.TrimSpace(m[2])}
			open.codes = strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' })
			labels = append(labels, open)
		case text == "":
			open = nil
		case open != nil:
			open.text += " " + text
		}
	}
	for _, l := range labels {
		word, rest, _ := strings.Cut(l.text, ",")
		l.kind, l.text = strings.TrimSuffix(word, "."), strings.TrimSuffix(strings.TrimSpace(rest), ".")
		if kinds[l.kind] == "" {
			errs = append(errs, fmt.Errorf("%v: source %q, want one of %v", l.pos, l.kind, kinds))
		} else if l.text == "" {
			errs = append(errs, fmt.Errorf("%v: source %q, want where, or from what, after a comma", l.pos, l.kind))
		}
	}
	return labels, errs
}

// labelsOf has the labels of a file, by the line that they are about.
type labelsOf struct {
	lines map[int][]*label
	all   []*label
}

func readLabels(fset *token.FileSet, file *ast.File) (ls labelsOf, errs []error) {
	ls.lines = map[int][]*label{}
	code := map[int]bool{} // lines with code
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.CommentGroup, *ast.Comment, *ast.File:
		default:
			code[fset.Position(n.Pos()).Line] = true
			code[fset.Position(n.End()).Line] = true
		}
		return true
	})
	for _, g := range file.Comments {
		labels, bad := parseLabels(fset, g)
		errs = append(errs, bad...)
		line := fset.Position(g.Pos()).Line
		if !code[line] {
			line = fset.Position(g.End()).Line + 1
		}
		ls.lines[line] = append(ls.lines[line], labels...)
		ls.all = append(ls.all, labels...)
	}
	return ls, errs
}

// find returns the label of a code in the innermost of nodes that has one, from the last
// node to the first. code is empty for what a call returns when it succeeds.
func (ls labelsOf) find(fset *token.FileSet, code string, nodes []ast.Node) *label {
	for _, n := range slices.Backward(nodes) {
		switch n.(type) {
		case *ast.BlockStmt: // it begins on the line of its statement
			continue
		case ast.Stmt, *ast.FuncDecl, *ast.GenDecl, *ast.ValueSpec, *ast.Field:
		default:
			continue
		}
		var all *label
		for _, l := range ls.lines[fset.Position(n.Pos()).Line] {
			if slices.Contains(l.codes, code) {
				l.used = true
				return l
			}
			if len(l.codes) == 0 {
				all = l
			}
		}
		if all != nil {
			all.used = true
			return all
		}
	}
	return nil
}
