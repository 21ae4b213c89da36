package rows

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// A Converter generates conversions between the messages of a group and its Go package,
// for other generators. Fields are matched as in rows, with the same exceptions and
// errors.
type Converter struct {
	e    *emitter
	rpcs map[*apis.Version]map[string]*method
}

// Converter returns the Converter of a group. thing is what the user has to write by
// hand, according to errors, if a conversion cannot be generated.
func (c *Config) Converter(set *apis.Set, group *apis.Group, thing string) (*Converter, error) {
	pkg, err := readGroup(filepath.Join(c.Root, filepath.FromSlash(c.groupDir(group))))
	if err != nil {
		return nil, err
	}
	g := &generator{Config: c, set: set, usedExceptions: map[int]map[string]bool{}}
	if g.files, err = goFiles(set); err != nil {
		return nil, err
	}
	out := &Converter{e: g.newEmitter(group, pkg, thing), rpcs: map[*apis.Version]map[string]*method{}}
	for _, v := range group.Versions {
		if out.rpcs[v], err = g.methodsOf(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// groupDir returns the directory of the package of a group, relative to Root.
func (c *Config) groupDir(g *apis.Group) string {
	return path.Join(c.Pkg, g.Name)
}

// GoName converts a name of the generated messages to the spelling of pkg: VolumeId to
// VolumeID, NewSmbGlobalMapping to NewSMBGlobalMapping.
func GoName(name string) string { return goName(name) }

// Import returns the import path of the package of the group.
func (c *Converter) Import() string {
	return path.Join(c.e.PkgImport, path.Base(c.e.groupDir(c.e.group)))
}

// Package returns the name of that package.
func (c *Converter) Package() string { return c.e.pkg.name }

// Method is a method of the package's Service.
type Method struct {
	Name              string
	Request, Response string // structs of the package
}

// Methods are those of Service, in its order.
func (c *Converter) Methods() []Method {
	var all []Method
	for _, name := range c.e.pkg.order {
		all = append(all, Method{name, c.e.pkg.methods[name].request, c.e.pkg.methods[name].response})
	}
	return all
}

// RPC is a method of a version.
type RPC struct {
	Name string

	// Shape describes its messages. Methods with equal names and shapes can be called
	// with the messages of one of them.
	Shape string

	version       *apis.Version
	input, output *protogen.Message
}

// Answer returns the name of the response message.
func (r RPC) Answer() string { return r.output.GoIdent.GoName }

// RPCs are the methods of a version.
func (c *Converter) RPCs(v *apis.Version) []RPC {
	var all []RPC
	for _, name := range slices.Sorted(maps.Keys(c.rpcs[v])) {
		m := c.rpcs[v][name]
		all = append(all, RPC{name, m.shape, v, m.Input, m.Output})
	}
	return all
}

// Convert returns composite literals of the request message, filled from the variable in,
// and of the response of the package, filled from the variable out. versions are those
// with the same messages. newest is whether no newer version has the method. If one has,
// absent are conditions on the request, by the names of the fields that are set then
// although the message does not have them.
func (c *Converter) Convert(r RPC, m Method, versions []*apis.Version, newest bool) (request, response string, absent []Absent) {
	c.e.versions, c.e.complete = versions, newest
	c.e.absent = func(of string, f goField) {
		if of != m.Request {
			c.e.fail("%s: message %s has no field for %s.%s, which a caller may set: write the %s by hand", r.version, r.input.Desc.Name(), of, f.name, c.e.thing)
			return
		}
		absent = append(absent, Absent{f.name, c.e.isSet("in."+f.name, f.typ)})
	}
	request = c.e.literal(r.version, r.input, m.Request, toWire, "in")
	c.e.absent = nil
	return request, c.e.literal(r.version, r.output, m.Response, fromWire, "out"), absent
}

// Absent is a field that a message lacks, and the condition that it is set.
type Absent struct{ Field, IsSet string }

// Unused returns the fields of a request that are not among those that a hand-written
// method uses.
func (c *Converter) Unused(m Method, used []string) (absent []Absent) {
	for _, f := range c.e.pkg.structs[m.Request] {
		if !slices.Contains(used, f.name) {
			absent = append(absent, Absent{f.name, c.e.isSet("in."+f.name, f.typ)})
		}
	}
	return absent
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

// Needed returns the declarations that the conversions so far depend on, and the packages
// that they import.
func (c *Converter) Needed() (declarations string, imports []string) {
	if c.e.converts {
		imports = []string{convertImport}
	}
	return c.e.needed(), imports
}

// Err returns the errors of the conversions so far.
func (c *Converter) Err() error { return errors.Join(c.e.problems...) }
