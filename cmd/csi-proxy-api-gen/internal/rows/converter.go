package rows

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// A Converter generates conversions between the messages of a version and the Go package
// of its group, for other generators. Fields are matched as in rows, with the same
// exceptions and errors.
type Converter struct {
	version *apis.Version
	e       *emitter
	rpcs    []*protogen.Method
}

// Converter returns the Converter of a version. thing is what the user has to write by
// hand, according to errors, if a conversion cannot be generated.
func (c *Config) Converter(set *apis.Set, v *apis.Version, thing string) (*Converter, error) {
	files, err := goFiles(set)
	if err != nil {
		return nil, err
	}
	pkg, err := readGroup(filepath.Join(c.Root, filepath.FromSlash(c.groupDir(v.Group))))
	if err != nil {
		return nil, err
	}
	g := &generator{Config: c, set: set, usedExceptions: map[int]map[string]bool{}}
	e := g.newEmitter(v.Group, pkg, thing)
	e.versions = []*apis.Version{v}
	return &Converter{version: v, e: e, rpcs: files[v.Desc.Path()].Services[0].Methods}, nil
}

// groupDir returns the directory of the package of a group, relative to Root.
func (c *Config) groupDir(g *apis.Group) string {
	return path.Join(c.Pkg, strings.ReplaceAll(g.Name, "_", ""))
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

	// RPC is the corresponding method of the version, or nil.
	RPC *protogen.Method
}

// Methods are those of Service, in its order.
func (c *Converter) Methods() []Method {
	var all []Method
	for _, name := range c.e.pkg.order {
		m := Method{Name: name, Request: c.e.pkg.methods[name].request, Response: c.e.pkg.methods[name].response}
		for _, rpc := range c.rpcs {
			if goName(string(rpc.Desc.Name())) == name {
				m.RPC = rpc
			}
		}
		all = append(all, m)
	}
	return all
}

// RPCs are the names of the version's own methods.
func (c *Converter) RPCs() []string {
	var names []string
	for _, rpc := range c.rpcs {
		names = append(names, string(rpc.Desc.Name()))
	}
	return names
}

// ToMessage returns a composite literal of a message, filled from the variable from,
// a struct of the package.
func (c *Converter) ToMessage(m *protogen.Message, goType, from string) string {
	return c.e.literal(c.version, m, goType, toWire, from)
}

// FromMessage returns a composite literal of a struct of the package, filled from the
// variable from, a message.
func (c *Converter) FromMessage(m *protogen.Message, goType, from string) string {
	return c.e.literal(c.version, m, goType, fromWire, from)
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
