// Package rows generates the code between the versions of the API and the Services of pkg: the
// rows of package internal/wire, which serve every method of every version, and the clients of
// package pkg/remote, which call them.
//
// # Rows
//
// Methods of a group that have the same name and the same messages share a row,
// regardless of their version. The row uses the messages of the newest of these
// versions. It converts the request to the request of pkg/<group>, calls the Service,
// and converts the response.
//
// # Matching of fields
//
// Fields are matched by name, in the spelling of pkg (Id is ID). That their types are equal, and
// the numbers of an enum those of the constants in pkg, the compiler checks in the generated code.
//
// Versions grow by fields, so an older message may lack a field of pkg: in a request it
// is zero, and in a response it is left out. A field of a message always needs its field
// in pkg, and the newest version that has a method needs all fields, which finds
// misspelled ones. The table of exceptions has what differs otherwise, each with its
// reason.
//
// # Hand-written rows
//
// A function <version>_<Method> in the package of the rows serves the method in that
// version and in all older versions with the same messages, up to the next such
// function. The generator adds these functions to the table of the group.
//
// # Fakes
//
// The generator also writes a fake of each Service for the tests of rows, so that a new
// method needs no change in tests.
//
// # Clients
//
// A client of pkg/remote implements the group's Service. A method of the Service has a function
// for each form of its messages, named after the newest version with this form, as in
// v1_PartitionDisk, and the client calls the function for the version that is used.
//
// The newest version of a group must have every method of the Service, generated or
// hand-written. If an older version lacks it, or a field of the request that is set, the
// client returns an error; a field that its response lacks is zero. To detect methods that
// a version has under another name, the generator fails if a method of a version is never
// called.
//
// The generator leaves out functions that are defined in another file of the package. A function
// v1beta2_PartitionDisk serves v1beta2, and older versions if the
// method of the API that it calls has the same messages there; the function contains its
// name as a string literal. Fields of the request that it does not read are those that the
// version does not have. A method of the client itself, like Filesystem.PathValid,
// serves all versions.
package rows

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// Config is the configuration of the generator. Directories are relative to Root, with slashes.
type Config struct {
	Root string // of the repository

	WireDir   string // of the rows
	RemoteDir string // of the clients
	Pkg       string // of the packages of the groups
	PkgImport string // import path of Pkg

	Exceptions []Exception
}

// New returns the configuration for this repository.
func New(root string) *Config {
	return &Config{
		Root:       root,
		WireDir:    "internal/wire",
		RemoteDir:  "pkg/remote",
		Pkg:        "pkg",
		PkgImport:  "github.com/kubernetes-csi/csi-proxy/v2/pkg",
		Exceptions: PublishedExceptions(),
	}
}

// path returns the path of a directory.
func (c *Config) path(dir string) string { return filepath.Join(c.Root, filepath.FromSlash(dir)) }

// exception returns the exception for a field of a message, or nil.
func (c *Config) exception(v *apis.Version, message protoreflect.Name, field string) *Exception {
	for i := range c.Exceptions {
		e := &c.Exceptions[i]
		if e.Group == v.Group.Name && slices.Contains(e.Versions, v.Name) && e.Message == string(message) && e.Field == field {
			return e
		}
	}
	return nil
}

// emitters returns an emitter for each group. thing is what the user has to write by hand,
// according to errors, if it cannot be generated.
func (c *Config) emitters(set *apis.Set, thing string) (all []*emitter, err error) {
	plugin, err := protogen.Options{}.New(set.Request())
	if err != nil {
		return nil, err
	}
	for _, g := range set.Groups {
		e := &emitter{Config: c, group: g, thing: thing, methods: map[*apis.Version]map[string]*method{}, helpers: map[string]string{}, numbers: map[string]bool{}}
		if e.pkg, err = readGroup(c.path(path.Join(c.Pkg, g.Name)), path.Join(c.PkgImport, g.Name)); err != nil {
			return nil, err
		}
		for _, v := range g.Versions {
			if e.methods[v], err = c.methodsOf(v, plugin.FilesByPath[v.Desc.Path()]); err != nil {
				return nil, err
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// Rows returns <group>_rows.go and a fake of the Service for each group.
func (c *Config) Rows(set *apis.Set) (map[string][]byte, error) {
	hand, err := handWritten(c.path(c.WireDir))
	if err != nil {
		return nil, err
	}
	emitters, err := c.emitters(set, "row")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, e := range emitters {
		if out[path.Join(c.WireDir, e.group.Name+"_rows.go")], err = e.emit(e.findRows(hand)); err != nil {
			return nil, err
		}
		if out[path.Join(c.WireDir, fakes, e.group.Name+".go")], err = fake(e.group, e.pkg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// row is a function in package wire.
type row struct {
	name     string // of the method
	methods  []*method
	versions []string // oldest first
	hand     bool
	newest   *method // whose messages the row uses
	complete bool    // no newer version has the method, so no field may be missing
}

// function returns the name of the row's function.
func (r *row) function() string { return r.newest.version.Name + "_" + r.name }

// findRows groups the methods that share a row.
func (e *emitter) findRows(hand map[string]handMethod) (rows []*row) {
	type key struct{ name, shape string }
	classes := map[key][]*method{}
	for _, v := range slices.Backward(e.group.Versions) {
		for name, m := range e.methods[v] {
			k := key{name, m.shape}
			classes[k] = append(classes[k], m)
		}
	}
	keys := slices.SortedFunc(maps.Keys(classes), func(a, b key) int {
		if n := strings.Compare(a.name, b.name); n != 0 {
			return n
		}
		return int(classes[b][0].version.Version.Compare(classes[a][0].version.Version))
	})
	for i, k := range keys {
		for _, r := range split(k.name, classes[k], hand) {
			r.complete = i == 0 || keys[i-1].name != k.name
			rows = append(rows, r)
		}
	}
	return rows
}

// split assigns methods with equal messages, newest first, to hand-written rows. If there
// is none, it returns one row to generate.
func split(name string, methods []*method, byHand map[string]handMethod) (rows []*row) {
	for _, m := range methods {
		_, hand := byHand[m.version.Name+"_"+name]
		switch {
		case len(rows) == 0 || hand && rows[len(rows)-1].hand:
			rows = append(rows, &row{name: name, newest: m, hand: hand})
		case hand:
			// The first one also serves the newer versions.
			rows[0].newest, rows[0].hand = m, true
		}
		r := rows[len(rows)-1]
		r.methods = append(r.methods, m)
		r.versions = slices.Insert(r.versions, 0, m.version.Name)
	}
	return rows
}
