// Package rows generates the rows of package internal/wire, which serve every method of
// every version.
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
// Fields are matched by name, in the spelling of pkg (Id is ID), and must have equal
// types. An enum is converted by number, after the generator has compared its numbers
// with the constants of the package; the generated code makes the compiler check that,
// too.
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
// function. The generator adds these functions to the table of the group, and prints
// them.
//
// # Fakes
//
// The generator also writes a fake of each Service for the tests of rows, so that a new
// method needs no change in tests.
package rows

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// Config is the configuration of the generator.
type Config struct {
	Root string // of the repository

	Wire      string // directory of the rows, relative to Root, with slashes
	Pkg       string // directory of the packages of the groups, likewise
	PkgImport string // import path of Pkg

	Exceptions []Exception

	// Log receives the list of hand-written rows.
	Log io.Writer
}

// New returns the configuration for this repository.
func New(root string, log io.Writer) *Config {
	return &Config{
		Root:       root,
		Wire:       "internal/wire",
		Pkg:        "pkg",
		PkgImport:  "github.com/kubernetes-csi/csi-proxy/v2/pkg",
		Exceptions: PublishedExceptions(),
		Log:        log,
	}
}

// generator is one run.
type generator struct {
	*Config
	set   *apis.Set
	files map[string]*protogen.File
	hand  map[string]string // hand-written rows: file by function

	methods map[*apis.Version]map[string]*method
	rows    []*row // in the order of groups, then by method, then newest first

	usedExceptions map[int]map[string]bool // versions for which the exception was needed
	problems       []error
}

// row is a function in package wire.
type row struct {
	group    *apis.Group
	name     string // of the method
	methods  []*method
	versions []string // oldest first
	hand     bool
	newest   *method // whose messages the row uses
	complete bool    // no newer version has the method, so no field may be missing
}

// function returns the name of the row's function.
func (r *row) function() string { return r.newest.version.Name + "_" + r.name }

// Generate returns <group>_rows.go and a fake of the Service for each group.
func (c *Config) Generate(set *apis.Set) (map[string][]byte, error) {
	g := &generator{
		Config:         c,
		set:            set,
		methods:        map[*apis.Version]map[string]*method{},
		usedExceptions: map[int]map[string]bool{},
	}
	var err error
	if g.files, err = goFiles(set); err != nil {
		return nil, err
	}
	if g.hand, err = handWritten(filepath.Join(c.Root, filepath.FromSlash(c.Wire))); err != nil {
		return nil, err
	}
	for _, v := range set.Versions() {
		if g.methods[v], err = g.methodsOf(v); err != nil {
			return nil, err
		}
	}

	g.findRows()
	out := map[string][]byte{}
	for _, group := range set.Groups {
		dir := c.groupDir(group)
		pkg, err := readGroup(filepath.Join(c.Root, filepath.FromSlash(dir)))
		if err != nil {
			g.fail("group %s: %w", group.Name, err)
			continue
		}
		pkgImport := path.Join(c.PkgImport, path.Base(dir))
		text, err := g.emit(group, pkg, pkgImport)
		if err != nil {
			g.problems = append(g.problems, err)
			continue
		}
		out[path.Join(c.Wire, group.Name+"_rows.go")] = text
		if text, err = fake(group, pkg, pkgImport); err != nil {
			return nil, err
		}
		out[path.Join(c.Wire, fakes, group.Name+".go")] = text
	}
	g.checkLeftovers()
	if len(g.problems) > 0 {
		return nil, errors.Join(g.problems...)
	}
	g.printHand()
	return out, nil
}

func (g *generator) fail(format string, args ...any) {
	g.problems = append(g.problems, fmt.Errorf(format, args...))
}

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

// use records that an exception was used for a version.
func (g *generator) use(e *Exception, v *apis.Version) {
	for i := range g.Exceptions {
		if &g.Exceptions[i] == e {
			if g.usedExceptions[i] == nil {
				g.usedExceptions[i] = map[string]bool{}
			}
			g.usedExceptions[i][v.Name] = true
		}
	}
}

// findRows groups the methods that share a row.
func (g *generator) findRows() {
	byFunction := map[string]*row{}
	for _, group := range g.set.Groups {
		type key struct{ name, shape string }
		classes := map[key][]*method{}
		for _, v := range slices.Backward(group.Versions) {
			for name, m := range g.methods[v] {
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
			for _, r := range g.split(group, classes[k]) {
				r.complete = i == 0 || keys[i-1].name != k.name
				if other := byFunction[r.function()]; other != nil {
					g.fail("groups %s and %s both need a row %s, because rows are named by version and method: rename one of the methods",
						other.group.Name, group.Name, r.function())
				}
				byFunction[r.function()] = r
				g.rows = append(g.rows, r)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.hand)) {
		if r := byFunction[name]; r == nil || !r.hand {
			m := handName.FindStringSubmatch(name)
			g.fail("%s: hand-written row %s: no group has a version %s with a method %s",
				path.Join(g.Wire, g.hand[name]), name, m[1], m[2])
		}
	}
}

// split assigns methods with equal messages, newest first, to hand-written rows. If there
// is none, it returns one row to generate.
func (g *generator) split(group *apis.Group, methods []*method) []*row {
	name := string(methods[0].Desc.Name())
	var rows []*row
	for _, m := range methods {
		_, hand := g.hand[m.version.Name+"_"+name]
		switch {
		case len(rows) == 0 || hand && rows[len(rows)-1].hand:
			rows = append(rows, &row{group: group, name: name, newest: m, hand: hand})
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

// WithoutCounterpart reports whether an exception says that no method of the Service
// corresponds to a method of a version.
func (c *Config) WithoutCounterpart(v *apis.Version, method string) bool {
	return c.exception(v, protoreflect.Name(method), "") != nil
}

// checkLeftovers reports unused exceptions.
func (g *generator) checkLeftovers() {
	for v, methods := range g.methods {
		for name := range methods {
			if e := g.exception(v, protoreflect.Name(name), ""); e != nil {
				g.use(e, v)
			}
		}
	}
	for i, e := range g.Exceptions {
		for _, v := range e.Versions {
			if !g.usedExceptions[i][v] {
				g.fail("exceptions: %s/%s %s.%s is not used", e.Group, v, e.Message, e.Field)
			}
		}
	}
}

// printHand prints the hand-written rows.
func (g *generator) printHand() {
	if g.Log == nil {
		return
	}
	for _, r := range g.rows {
		if r.hand {
			fmt.Fprintf(g.Log, "%s: %s is hand-written (%s %s)\n",
				path.Join(g.Wire, g.hand[r.function()]), r.function(), r.group.Name, strings.Join(r.versions, ", "))
		}
	}
}
