// Package remote generates most of package pkg/remote: for each group a client that
// implements the group's Service.
//
// It is the reverse of internal/wire, and uses the same descriptors, names and exceptions
// (package rows). A method of the Service has a function for each form of its messages,
// named after the newest version with this form, as in v1_PartitionDisk, and the client
// calls the function for the version that is used. It fails for a response field that pkg
// does not have.
//
// # What a version does not have
//
// The newest version of a group must have every method of the Service, generated or
// hand-written. If an older version lacks it, or a field of the request that is set, the
// client returns an error; a field that its response lacks is zero. To detect methods that
// a version has under another name, the generator fails if a method of a version is never
// called.
//
// # Hand-written methods
//
// The generator skips functions that are defined in another file of the package, and
// prints them. A function v1beta2_PartitionDisk serves v1beta2, and older versions if the
// method of the API that it calls has the same messages there; the function contains its
// name as a string literal. Fields of the request that it does not read are those that the
// version does not have. A method of the client itself, like Filesystem.PathValid,
// serves all versions.
package remote

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
)

// Config is the configuration of the generator.
type Config struct {
	Rows *rows.Config
	Dir  string    // directory of the output, relative to Rows.Root, with slashes
	Log  io.Writer // receives the list of hand-written methods
}

// New returns the configuration for this repository.
func New(root string, log io.Writer) *Config {
	return &Config{Rows: rows.New(root, log), Dir: "pkg/remote", Log: log}
}

//go:embed calls.go.tmpl
var callsText string

var callsTemplate = template.Must(template.New("calls").Option("missingkey=error").Parse(callsText))

// client is the input of the template.
type client struct {
	Type     string   // "Disk"
	Package  string   // "disk"
	Import   string   // of Package
	Imports  []string // of conversions
	Group    string   // "disk"
	Service  string   // "Disk"
	Versions []version
	Methods  []method // methods of Service that are not hand-written
	Needed   string   // declarations
}

// version is a version that the client can call.
type version struct {
	Name, API string // "v1", import path of its messages
}

// method is a method of Service.
type method struct {
	rows.Method
	Calls []*call
	All   bool // one call serves all versions
}

// call is the function that calls a method in some versions. ToRequest and FromResponse
// are composite literals.
type call struct {
	Version                 string   // "v1", the newest
	Versions                []string // newest first
	Hand                    bool
	RPC                     string
	Answer                  string // message
	ToRequest, FromResponse string
	Absent                  []rows.Absent // fields of the request

	shape    string // of the methods that it calls
	rpc      rows.RPC
	versions []*apis.Version
}

// Generate returns <Dir>/<group>_calls.go for each group.
func (c *Config) Generate(set *apis.Set) (map[string][]byte, error) {
	byHand, err := handWritten(filepath.Join(c.Rows.Root, filepath.FromSlash(c.Dir)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var problems []error
	var left []string
	for _, g := range set.Groups {
		text, hand, err := c.client(set, g, byHand)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		files[path.Join(c.Dir, g.Name+"_calls.go")] = text
		left = append(left, hand...)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if c.Log != nil {
		for _, l := range left {
			fmt.Fprintln(c.Log, l)
		}
	}
	return files, nil
}

// client returns the client of a group, and the list of its hand-written methods.
func (c *Config) client(set *apis.Set, g *apis.Group, byHand map[string]handMethod) (text []byte, left []string, err error) {
	conv, err := c.Rows.Converter(set, g, "method")
	if err != nil {
		return nil, nil, err
	}
	out := client{Type: rows.GoName(g.Service), Package: conv.Package(), Import: conv.Import(), Group: g.Name, Service: g.Service}
	var problems []error
	uncalled := map[*apis.Version]map[string]bool{}
	for _, v := range slices.Backward(g.Versions) { // newest first
		out.Versions = append(out.Versions, version{v.Name, v.ImportPath})
		uncalled[v] = map[string]bool{}
		for _, rpc := range conv.RPCs(v) {
			uncalled[v][rpc.Name] = !c.Rows.WithoutCounterpart(v, rpc.Name)
		}
	}
	note := func(name string, m handMethod, of any) {
		left = append(left, fmt.Sprintf("%s: %s is hand-written (%s)", path.Join(c.Dir, m.file), name, of))
	}
	for _, m := range conv.Methods() {
		calls := c.calls(conv, g, m, byHand, uncalled)
		if hand, ok := byHand[out.Type+"."+m.Name]; ok {
			note(out.Type+"."+m.Name, hand, g.Name)
			continue
		}
		newest := g.Versions[len(g.Versions)-1]
		if len(calls) == 0 || calls[0].Version != newest.Name {
			problems = append(problems, fmt.Errorf("%s, the newest version, has no method for %s.Service.%s: add it to the version, or write %s_%s or %s.%s by hand in %s",
				newest, out.Package, m.Name, newest.Name, m.Name, out.Type, m.Name, c.Dir))
			continue
		}
		for i, k := range calls {
			if k.Hand {
				hand := byHand[k.Version+"_"+m.Name]
				note(k.Version+"_"+m.Name, hand, g.Name+" "+strings.Join(k.Versions, ", "))
				k.Absent = conv.Unused(m, hand.fields)
				continue
			}
			k.RPC, k.Answer = k.rpc.Name, k.rpc.Answer()
			k.ToRequest, k.FromResponse, k.Absent = conv.Convert(k.rpc, m, k.versions, i == 0)
		}
		out.Methods = append(out.Methods, method{m, calls, len(calls) == 1 && len(calls[0].Versions) == len(g.Versions) && len(calls[0].Absent) == 0})
	}
	for _, v := range slices.Backward(g.Versions) {
		for _, rpc := range slices.Sorted(maps.Keys(uncalled[v])) {
			if uncalled[v][rpc] {
				problems = append(problems, fmt.Errorf("%s has a method %s that is never called: write %s_METHOD, which calls it for that method of %s.Service, by hand in %s, or add an exception with its reason",
					v, rpc, v.Name, out.Package, c.Dir))
			}
		}
	}
	problems = append(problems, conv.Err())
	if err := errors.Join(problems...); err != nil {
		return nil, nil, err
	}
	out.Needed, out.Imports = conv.Needed()

	var b bytes.Buffer
	if err := callsTemplate.Execute(&b, out); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	if text, err = format.Source(b.Bytes()); err != nil {
		return nil, nil, fmt.Errorf("%s: generated code: %w", g.Name, err)
	}
	return text, left, nil
}

// calls returns the functions for a method of Service, that of the newest version first. It
// marks the methods of the versions that they call.
func (c *Config) calls(conv *rows.Converter, g *apis.Group, m rows.Method, byHand map[string]handMethod, uncalled map[*apis.Version]map[string]bool) (all []*call) {
	for _, v := range slices.Backward(g.Versions) {
		rpcs := conv.RPCs(v)
		// named are the methods whose names a hand-written function contains.
		named := func(hand handMethod) (shape string) {
			for _, rpc := range rpcs {
				if slices.Contains(hand.texts, rpc.Name) {
					shape += rpc.Name + rpc.Shape
				}
			}
			return shape
		}
		var last *call
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		var next *call
		hand, byOwn := byHand[v.Name+"_"+m.Name]
		switch {
		case byOwn:
			next = &call{Hand: true, shape: named(hand)}
		case last != nil && last.Hand && named(byHand[last.Version+"_"+m.Name]) == last.shape:
			hand, next = byHand[last.Version+"_"+m.Name], last
		default:
			i := slices.IndexFunc(rpcs, func(rpc rows.RPC) bool { return rows.GoName(rpc.Name) == m.Name })
			if i < 0 {
				continue
			}
			next = &call{rpc: rpcs[i], shape: rpcs[i].Shape}
			if last != nil && !last.Hand && last.shape == next.shape {
				next = last
			}
			uncalled[v][rpcs[i].Name] = false
		}
		for _, text := range hand.texts {
			delete(uncalled[v], text)
		}
		if next != last {
			next.Version = v.Name
			all = append(all, next)
		}
		next.Versions, next.versions = append(next.Versions, v.Name), append(next.versions, v)
	}
	return all
}

// handMethod is a hand-written method.
type handMethod struct {
	file   string
	texts  []string // its string literals, which include the method of the API that it calls
	fields []string // that it reads from the request, the variable in
}

// handWritten returns the hand-written functions by name, and methods by "Type.Method".
func handWritten(dir string) (map[string]handMethod, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	hand := map[string]handMethod{}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
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
				receiver := fn.Recv.List[0].Type
				if p, ok := receiver.(*ast.StarExpr); ok {
					receiver = p.X
				}
				if t, ok := receiver.(*ast.Ident); ok {
					name = t.Name + "." + name
				}
			}
			hand[name] = handMethod{e.Name(), textsIn(fn), fieldsIn(fn)}
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
