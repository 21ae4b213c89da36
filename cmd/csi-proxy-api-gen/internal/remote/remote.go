// Package remote generates the bulk of package pkg/remote: for each group a
// client that has the methods of the group's Interface and speaks one version
// of the API.
//
// It is the way back of internal/wire, and stands on the same descriptors, the
// same spelling of names and the same exceptions (package rows): a field of a
// request that the version cannot carry, and a field of a response that has no
// place in pkg, is an error and not left out.
//
// # Which version is spoken
//
// The one in [Published]. A version that came later changes nothing here by
// itself: nodes whose proxy is older do not serve it. A method that is added to
// an Interface does: the version that is spoken has to have it, or the method
// is written by hand.
//
// # Methods written by hand
//
// A method of the client that stands in another file of the package is left
// out here, and printed in a list.
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
	"strings"
	"text/template"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
)

// Published is the version of each group that pkg/remote speaks: the newest one
// that has all methods of the group's Interface.
func Published() map[string]string {
	return map[string]string{
		"disk":       "v1",
		"filesystem": "v2alpha1", // for RmdirContents
		"iscsi":      "v1alpha2", // for SetMutualChapSecret
		"smb":        "v1",
		"system":     "v1alpha1",
		"volume":     "v2alpha1", // for GetClosestVolumeIDFromTargetPath
	}
}

// Config says where things are and what is spoken.
type Config struct {
	Rows   *rows.Config
	Dir    string            // of the output, below Rows.Root, with slashes
	Spoken map[string]string // version by group
	Log    io.Writer         // gets the list of methods that are written by hand
}

// New is the configuration for this repository.
func New(root string, log io.Writer) *Config {
	return &Config{Rows: rows.New(root, log), Dir: "pkg/remote", Spoken: Published(), Log: log}
}

//go:embed calls.go.tmpl
var callsText string

var callsTemplate = template.Must(template.New("calls").Option("missingkey=error").Parse(callsText))

// client is what the template is given.
type client struct {
	Type    string // "Disk"
	Package string // "disk"
	Import  string // of Package
	Version string // "v1"
	API     string // import path of its messages
	Group   string // "disk"
	Service string // "Disk"
	Methods []call
	Needed  string
}

// call is one method. ToRequest and FromResponse are composite literals.
type call struct {
	Name, RPC               string
	In, Out                 string // structs of Package
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
	unused := maps.Clone(c.Spoken)
	for _, g := range set.Groups {
		delete(unused, g.Name)
		v, err := c.spoken(g)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		text, hand, err := c.client(set, v, byHand)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		files[path.Join(c.Dir, g.Name+"_calls.go")] = text
		left = append(left, hand...)
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		problems = append(problems, fmt.Errorf("there is no group %s to speak", name))
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

// spoken is the version of a group that the table names.
func (c *Config) spoken(g *apis.Group) (*apis.Version, error) {
	name, ok := c.Spoken[g.Name]
	if !ok {
		return nil, fmt.Errorf("group %s: which version is spoken? Say it in Published, in internal/remote/remote.go", g.Name)
	}
	for _, v := range g.Versions {
		if v.Name == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s/%s is to be spoken, and does not exist", g.Name, name)
}

// client writes the client of a version, and lists the methods that it leaves
// to hands.
func (c *Config) client(set *apis.Set, v *apis.Version, byHand map[string]string) (text []byte, left []string, err error) {
	conv, err := c.Rows.Converter(set, v, "method")
	if err != nil {
		return nil, nil, err
	}
	out := client{
		Type: rows.GoName(v.Group.Service), Package: conv.Package(), Import: conv.Import(),
		Version: v.Name, API: v.ImportPath, Group: v.Group.Name, Service: v.Group.Service,
	}
	var problems []error
	for _, m := range conv.Methods() {
		name := out.Type + "." + m.Name
		if file, ok := byHand[name]; ok {
			left = append(left, fmt.Sprintf("%s: %s is written by hand (%s)", path.Join(c.Dir, file), name, v))
			continue
		}
		if m.RPC == nil {
			problems = append(problems, fmt.Errorf("%s has no method for %s.Interface.%s: speak a version that has it, or write %s by hand in %s",
				v, out.Package, m.Name, name, c.Dir))
			continue
		}
		out.Methods = append(out.Methods, call{
			Name: m.Name, RPC: string(m.RPC.Desc.Name()),
			In: m.Request, Out: m.Response, Answer: m.RPC.Output.GoIdent.GoName,
			ToRequest:    conv.ToMessage(m.RPC.Input, m.Request, "in"),
			FromResponse: conv.FromMessage(m.RPC.Output, m.Response, "out"),
		})
	}
	if err := errors.Join(append(problems, conv.Err())...); err != nil {
		return nil, nil, err
	}
	out.Needed = conv.Needed()

	var b bytes.Buffer
	if err := callsTemplate.Execute(&b, out); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", v, err)
	}
	if text, err = format.Source(b.Bytes()); err != nil {
		return nil, nil, fmt.Errorf("%s: generated code: %w", v, err)
	}
	return text, left, nil
}

// handWritten finds the methods that are written by hand: the file of each, by
// "Type.Method".
func handWritten(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	hand := map[string]string{}
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
				hand[t.Name+"."+fn.Name.Name] = e.Name()
			}
		}
	}
	return hand, nil
}
