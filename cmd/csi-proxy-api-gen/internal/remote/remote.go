// Package remote generates most of package pkg/remote: for each group a client that
// implements the group's Service, and for each family of its versions a type that calls
// the methods of these versions.
//
// It is the reverse of internal/wire, and uses the same descriptors, families, names and
// exceptions (package rows). It fails for a request field that a family does not have,
// and for a response field that pkg does not have.
//
// # Methods
//
// The newest family of a group must have every method of the Service, generated or
// hand-written. An older family may lack newer methods; the client then returns an
// error. To detect methods that a family has under another name, the generator fails if
// a method of the API is never called. If a single version lacks a method of its family,
// nothing is needed: the client checks the methods of the version before it calls one.
//
// # Hand-written methods
//
// The generator skips methods that are defined in another file of the package, and
// prints them. They belong to the type of a family, which is named after its newest
// version, as in diskV1beta2.PartitionDisk, or to the client itself, as in
// Filesystem.PathValid, which no version has. A hand-written method contains the name of
// the method of the API that it calls as a string literal.
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
	Families []family
}

// version is a version that the client can call.
type version struct {
	Name, API string // "v1", import path of its messages
}

// method is a method of Service.
type method struct {
	Name    string
	In, Out string // structs of Package
}

// family is the type that calls the versions of a family, with the messages of its newest
// version.
type family struct {
	Type     string // "diskV1"
	Version  string // "v1"
	Versions []string
	Methods  []call
	Needed   string
}

// call is a method of a family. ToRequest and FromResponse are composite literals. RPC is
// empty if the family lacks the method.
type call struct {
	method
	RPC                     string
	Answer                  string // message
	ToRequest, FromResponse string
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
	out := client{Type: rows.GoName(g.Service), Group: g.Name, Service: g.Service}
	hand := func(name string, what any) bool {
		m, ok := byHand[name]
		if ok {
			left = append(left, fmt.Sprintf("%s: %s is hand-written (%s)", path.Join(c.Dir, m.file), name, what))
		}
		return ok
	}
	// Newest first, in the order of the table of families.
	for _, v := range slices.Backward(g.Versions) {
		out.Versions = append(out.Versions, version{v.Name, v.ImportPath})
	}
	var problems []error
	for _, f := range c.Rows.Families {
		if f.Group != g.Name {
			continue
		}
		head := slices.IndexFunc(g.Versions, func(v *apis.Version) bool { return v.Name == f.Versions[0] })
		if head < 0 {
			continue // package rows reports it
		}
		v := g.Versions[head]
		conv, err := c.Rows.Converter(set, v, "method")
		if err != nil {
			return nil, nil, err
		}
		if len(out.Families) == 0 {
			out.Package, out.Import = conv.Package(), conv.Import()
			for _, m := range conv.Methods() {
				if !hand(out.Type+"."+m.Name, g.Name) {
					out.Methods = append(out.Methods, method{m.Name, m.Request, m.Response})
				}
			}
		}
		w := family{Type: g.Name + strings.ToUpper(v.Name[:1]) + v.Name[1:], Version: v.Name, Versions: f.Versions}
		called := map[string]bool{}
		for _, m := range conv.Methods() {
			own := w.Type + "." + m.Name
			if _, ok := byHand[out.Type+"."+m.Name]; ok {
				if m.RPC != nil {
					called[string(m.RPC.Desc.Name())] = true
				}
				continue
			}
			if hand(own, v) {
				for _, text := range byHand[own].texts {
					called[text] = true
				}
				continue
			}
			k := call{method: method{m.Name, m.Request, m.Response}}
			switch {
			case m.RPC != nil:
				k.RPC, k.Answer = string(m.RPC.Desc.Name()), m.RPC.Output.GoIdent.GoName
				k.ToRequest = conv.ToMessage(m.RPC.Input, m.Request, "in")
				k.FromResponse = conv.FromMessage(m.RPC.Output, m.Response, "out")
				called[k.RPC] = true
			case len(out.Families) == 0:
				problems = append(problems, fmt.Errorf("%s, the newest version, has no method for %s.Service.%s: add it to the version, or write %s or %s.%s by hand in %s",
					v, out.Package, m.Name, own, out.Type, m.Name, c.Dir))
			}
			w.Methods = append(w.Methods, k)
		}
		for _, rpc := range conv.RPCs() {
			if !called[rpc] {
				problems = append(problems, fmt.Errorf("%s has a method %s that is never called: write the method of %s that calls it by hand in %s", v, rpc, w.Type, c.Dir))
			}
		}
		problems = append(problems, conv.Err())
		needed, imports := conv.Needed()
		w.Needed = needed
		for _, i := range imports {
			if !slices.Contains(out.Imports, i) {
				out.Imports = append(out.Imports, i)
			}
		}
		out.Families = append(out.Families, w)
	}
	if len(out.Families) == 0 {
		problems = append(problems, fmt.Errorf("group %s: no family of versions", g.Name))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, nil, err
	}

	var b bytes.Buffer
	if err := callsTemplate.Execute(&b, out); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	if text, err = format.Source(b.Bytes()); err != nil {
		return nil, nil, fmt.Errorf("%s: generated code: %w", g.Name, err)
	}
	return text, left, nil
}

// handMethod is a hand-written method.
type handMethod struct {
	file  string
	texts []string // its string literals, which include the method of the API that it calls
}

// handWritten returns the hand-written methods by "Type.Method".
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
			if !ok || fn.Recv == nil {
				continue
			}
			receiver := fn.Recv.List[0].Type
			if p, ok := receiver.(*ast.StarExpr); ok {
				receiver = p.X
			}
			if t, ok := receiver.(*ast.Ident); ok {
				hand[t.Name+"."+fn.Name.Name] = handMethod{e.Name(), textsIn(fn)}
			}
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
