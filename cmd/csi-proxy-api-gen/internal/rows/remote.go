package rows

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/format"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

//go:embed calls.go.tmpl
var callsText string

var callsTemplate = template.Must(template.New("calls").Option("missingkey=error").Parse(callsText))

// client is the input of the template.
type client struct {
	Type     string   // "Disk"
	Package  string   // "disk"
	Import   string   // of Package
	Imports  []string // of conversions
	Group    *apis.Group
	Versions []*apis.Version // newest first
	Methods  []clientMethod  // methods of Service that are not hand-written
	Needed   string          // declarations
}

// clientMethod is a method of Service.
type clientMethod struct {
	goMethod
	Calls []*call
	All   bool // one call serves all versions
}

// call is the function that calls a method in some versions. ToRequest and FromResponse
// are composite literals.
type call struct {
	Versions                []*apis.Version // newest first
	Hand                    bool
	RPC                     *method
	ToRequest, FromResponse string
	Absent                  []absent // fields of the request

	shape string // of the methods that it calls
}

// Version is the name of the newest version that it calls.
func (c *call) Version() string { return c.Versions[0].Name }

// absent is a field that a message lacks, and the condition that it is set.
type absent struct{ Field, IsSet string }

// Remote returns <group>_calls.go for each group.
func (c *Config) Remote(set *apis.Set) (map[string][]byte, error) {
	byHand, err := handWritten(c.path(c.RemoteDir))
	if err != nil {
		return nil, err
	}
	emitters, err := c.emitters(set, "method")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, e := range emitters {
		if out[path.Join(c.RemoteDir, e.group.Name+"_calls.go")], err = e.client(byHand); err != nil {
			return nil, fmt.Errorf("%s: %w", c.RemoteDir, err)
		}
	}
	return out, nil
}

// client returns the client of the group.
func (e *emitter) client(byHand map[string]handMethod) ([]byte, error) {
	out := client{Type: goName(e.group.Service), Package: e.pkg.name, Import: e.pkg.path, Group: e.group}
	uncalled := map[*apis.Version]map[string]bool{}
	for _, v := range slices.Backward(e.group.Versions) { // newest first
		out.Versions = append(out.Versions, v)
		uncalled[v] = map[string]bool{}
		for name, m := range e.methods[v] {
			uncalled[v][name] = e.exception(v, m.Desc.Name(), "") == nil
		}
	}
	for _, m := range e.pkg.methods {
		calls := e.calls(m, byHand, uncalled)
		if _, ok := byHand[out.Type+"."+m.Name]; ok {
			continue
		}
		if newest := out.Versions[0]; len(calls) == 0 || calls[0].Versions[0] != newest {
			e.fail("%s, the newest version, has no method for %s.Service.%s: add it to the version, or write %s_%s or %s.%s by hand in %s",
				newest, out.Package, m.Name, newest.Name, m.Name, out.Type, m.Name, e.RemoteDir)
			continue
		}
		for i, k := range calls {
			if k.Hand {
				for _, f := range e.pkg.structs[m.Request] {
					if !slices.Contains(byHand[k.Version()+"_"+m.Name].fields, f.name) {
						k.Absent = append(k.Absent, absent{f.name, e.isSet("in."+f.name, f.typ)})
					}
				}
				continue
			}
			e.convert(k, m, i == 0)
		}
		out.Methods = append(out.Methods, clientMethod{m, calls, len(calls) == 1 && len(calls[0].Versions) == len(out.Versions) && len(calls[0].Absent) == 0})
	}
	for _, v := range out.Versions {
		for _, rpc := range slices.Sorted(maps.Keys(uncalled[v])) {
			if uncalled[v][rpc] {
				e.fail("%s has a method %s that is never called: write %s_METHOD, which calls it for that method of %s.Service, by hand in %s, or add an exception with its reason",
					v, rpc, v.Name, out.Package, e.RemoteDir)
			}
		}
	}
	if err := errors.Join(e.problems...); err != nil {
		return nil, err
	}
	out.Needed = e.needed()
	if e.converts {
		out.Imports = []string{convertImport}
	}
	var b bytes.Buffer
	if err := callsTemplate.Execute(&b, out); err != nil {
		return nil, err
	}
	return format.Source(b.Bytes())
}

// convert sets the conversions of a call. Newest is whether no newer version has the method. If
// one has, fields of the request may be absent.
func (e *emitter) convert(k *call, m goMethod, newest bool) {
	v := k.RPC.version
	e.versions, e.complete = k.Versions, newest
	e.absent = func(of string, f goField) {
		if of != m.Request {
			e.fail("%s: message %s has no field for %s.%s, which a caller may set: write the %s by hand", v, k.RPC.Input.Desc.Name(), of, f.name, e.thing)
			return
		}
		k.Absent = append(k.Absent, absent{f.name, e.isSet("in."+f.name, f.typ)})
	}
	k.ToRequest = e.literal(v, k.RPC.Input, m.Request, toWire, "in")
	e.absent = nil
	k.FromResponse = e.literal(v, k.RPC.Output, m.Response, fromWire, "out")
}

// isSet returns the condition that a variable is not zero.
func (e *emitter) isSet(name, typ string) string {
	if underlying, ok := e.pkg.named[typ]; ok {
		typ = underlying
	}
	switch {
	case typ == "bool":
		return name
	case typ == "string":
		return name + ` != ""`
	case strings.HasPrefix(typ, "*"):
		return name + " != nil"
	case strings.HasPrefix(typ, "[]"), strings.HasPrefix(typ, "map["):
		return fmt.Sprintf("len(%s) > 0", name)
	}
	return name + " != 0"
}

// calls returns the functions for a method of Service, that of the newest version first. It
// marks the methods of the versions that they call.
func (e *emitter) calls(m goMethod, byHand map[string]handMethod, uncalled map[*apis.Version]map[string]bool) (all []*call) {
	for _, v := range slices.Backward(e.group.Versions) {
		// named are the methods whose names a hand-written function contains.
		named := func(hand handMethod) (shape string) {
			for _, name := range slices.Sorted(maps.Keys(e.methods[v])) {
				if slices.Contains(hand.texts, name) {
					shape += name + e.methods[v][name].shape
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
		case last != nil && last.Hand && named(byHand[last.Version()+"_"+m.Name]) == last.shape:
			hand, next = byHand[last.Version()+"_"+m.Name], last
		default:
			for name, rpc := range e.methods[v] {
				if goName(name) == m.Name {
					next = &call{RPC: rpc, shape: rpc.shape}
					uncalled[v][name] = false
				}
			}
			if next == nil {
				continue
			}
			if last != nil && !last.Hand && last.shape == next.shape {
				next = last
			}
		}
		for _, text := range hand.texts {
			delete(uncalled[v], text)
		}
		if next != last {
			all = append(all, next)
		}
		next.Versions = append(next.Versions, v)
	}
	return all
}
