// Package remote generates the bulk of package pkg/remote: for each group a
// client that has the methods of the group's Service, over a way to speak each
// family of its versions.
//
// It is the way back of internal/wire, and stands on the same descriptors, the
// same families, spelling of names and exceptions (package rows): a field of a
// request that a family cannot carry, and a field of a response that has no
// place in pkg, is an error and not left out.
//
// # Methods
//
// The newest family of a group has to have every method of the Service, generated
// or by hand. An older family may lack methods that came later: the client then
// returns an error. That a family only seems to lack a method which it has under
// another name is found from the other side: a method of the API that nothing
// calls is an error. A version that lacks a method which its family has needs
// nothing: the client looks at the version's own methods before it calls.
//
// # Methods written by hand
//
// A method that stands in another file of the package is left out here, and
// printed in a list: of the way to speak a family, which is named after the
// newest version of the family, as in diskV1beta2.PartitionDisk; or of the client
// itself, as Filesystem.PathValid, which no version has. Such a method names the
// method of the API that it calls in a string of its own.
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

// Config says where things are.
type Config struct {
	Rows *rows.Config
	Dir  string    // of the output, below Rows.Root, with slashes
	Log  io.Writer // gets the list of methods that are written by hand
}

// New is the configuration for this repository.
func New(root string, log io.Writer) *Config {
	return &Config{Rows: rows.New(root, log), Dir: "pkg/remote", Log: log}
}

//go:embed calls.go.tmpl
var callsText string

var callsTemplate = template.Must(template.New("calls").Option("missingkey=error").Parse(callsText))

// client is what the template is given.
type client struct {
	Type     string // "Disk"
	Package  string // "disk"
	Import   string // of Package
	Group    string // "disk"
	Service  string // "Disk"
	Versions []version
	Methods  []method // of Service that the client does not have by hand
	Families []family
}

// version is one that is spoken.
type version struct {
	Name, API string // "v1", import path of its messages
}

// method is a method of Service.
type method struct {
	Name    string
	In, Out string // structs of Package
}

// family is a way to speak: the methods of a family, in the messages of its
// newest version.
type family struct {
	Type     string // "diskV1"
	Version  string // "v1"
	Versions []string
	Methods  []call
	Needed   string
}

// call is one method. ToRequest and FromResponse are composite literals; RPC is
// empty if the family lacks the method.
type call struct {
	method
	RPC                     string
	Answer                  string // message
	ToRequest, FromResponse string
}

// Generate writes <Dir>/<group>_calls.go for each group.
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

// client writes the client of a group, and lists the methods that it leaves to
// hands.
func (c *Config) client(set *apis.Set, g *apis.Group, byHand map[string]handMethod) (text []byte, left []string, err error) {
	out := client{Type: rows.GoName(g.Service), Group: g.Name, Service: g.Service}
	hand := func(name string, what any) bool {
		m, ok := byHand[name]
		if ok {
			left = append(left, fmt.Sprintf("%s: %s is written by hand (%s)", path.Join(c.Dir, m.file), name, what))
		}
		return ok
	}
	// Newest first, as Published lists the families of a group.
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
			continue // package rows tells
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
				problems = append(problems, fmt.Errorf("%s has a method %s that nothing calls: write by hand, in %s, the method of %s that stands for it", v, rpc, c.Dir, w.Type))
			}
		}
		problems = append(problems, conv.Err())
		w.Needed = conv.Needed()
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

// handMethod is a method that is written by hand.
type handMethod struct {
	file  string
	texts []string // its string literals: a method of the API that it calls is one
}

// handWritten finds the methods that are written by hand, by "Type.Method".
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

// textsIn are the string literals of a function.
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
