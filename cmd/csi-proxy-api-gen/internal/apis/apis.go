// Package apis reads the published API from its .proto files: all groups with all
// their versions. All generators of csi-proxy-api-gen work on the [Set] that [Load]
// returns.
//
// # Layout
//
// The directory contains <group>/<version>/api.proto, and .proto files that belong to
// no group. The group is the name used in the pipe, and the version must be valid for
// package apiversion. The proto package of a file is its version. A file has one
// service, named after the group with a capital.
//
// # Restrictions
//
// The API consists of unary methods with flat messages of proto3, and the generators support
// nothing else. What they make of streams, oneofs, optional fields and nested types does not
// compile. A file cannot import another.
//
// # Directives
//
// Some published files differ from this pattern and must stay compatible with the
// programs that were built with them. A directive declares each difference, on a line of its
// own:
//
//	// csi-proxy-api-gen:registered-as PATH
//	// csi-proxy-api-gen:client-takes *grpc.ClientConn
//
// registered-as sets the path of the file in the protobuf registry, which by default
// is the Go import path and the file's name. client-takes sets the parameter type of
// New<Service>Client, which by default is grpc.ClientConnInterface.
package apis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// packageField is the number of the package statement in FileDescriptorProto.
const packageField = 2

// ImportPath is the Go import path of the API's directory.
const ImportPath = "github.com/kubernetes-csi/csi-proxy/client/api"

// Set is the complete API.
type Set struct {
	// Groups are in alphabetical order.
	Groups []*Group

	// Shared are the files that belong to no group, in alphabetical order.
	Shared []*File
}

// Group is one API group, such as disk.
type Group struct {
	// Name as in the pipe: "disk".
	Name string

	// Service is the simple name of the group's service, and the prefix of Go
	// identifiers: "Disk".
	Service string

	// Versions are ordered by age: by major number, then alpha before beta
	// before stable, then by the qualifier's number. There is at least one.
	Versions []*Version
}

// Version is one version of one group.
type Version struct {
	File

	Group   *Group
	Name    string // "v1beta1"; also the name of the proto package and the Go package
	Version apiversion.Version
	Service protoreflect.ServiceDescriptor

	// ClientTakesConn is true if New<Service>Client takes a *grpc.ClientConn
	// instead of the interface.
	ClientTakesConn bool
}

// String returns the group and version, such as "disk/v1".
func (v *Version) String() string { return v.Group.Name + "/" + v.Name }

// File is one .proto file.
type File struct {
	// Path is relative to the loaded directory, with slashes:
	// "disk/v1/api.proto".
	Path string

	// ImportPath is the Go import path of the code generated from the file.
	// It is set even if the file has no go_package option.
	ImportPath string

	// Desc is the compiled file, with its comments in SourceLocations. Its Path is
	// the path in the protobuf registry.
	Desc protoreflect.FileDescriptor

	// Doc is the comment of the package statement.
	Doc string
}

// Dir returns the file's directory, relative to the loaded directory, with slashes.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Proto returns a copy of the file as a descriptor message, with its comments.
func (f *File) Proto() *descriptorpb.FileDescriptorProto {
	return proto.CloneOf(protoutil.ProtoFromFileDescriptor(f.Desc))
}

// Request returns the request to a protoc plugin for the code of all files. params are
// parameters of the plugin.
func (s *Set) Request(params ...string) *pluginpb.CodeGeneratorRequest {
	req := &pluginpb.CodeGeneratorRequest{}
	for _, f := range s.Files() {
		// Some files have no go_package option, and adding one would change their
		// descriptor. So the import path is a parameter.
		params = append(params, "M"+f.Desc.Path()+"="+f.ImportPath)
		req.FileToGenerate = append(req.FileToGenerate, f.Desc.Path())
		p := f.Proto()
		for _, loc := range p.GetSourceCodeInfo().GetLocation() {
			// The comment of the package statement is in doc.go. Plugins would repeat it.
			if len(loc.Path) == 1 && loc.Path[0] == packageField {
				loc.LeadingComments, loc.LeadingDetachedComments = nil, nil
			}
		}
		req.ProtoFile = append(req.ProtoFile, p)
	}
	req.Parameter = proto.String(strings.Join(params, ","))
	return req
}

// Comment returns the comment before a declaration, without slashes and surrounding
// blanks. It is empty if there is none.
func Comment(d protoreflect.Descriptor) string {
	return clean(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments)
}

// Versions returns the versions of all groups, group by group.
func (s *Set) Versions() []*Version {
	var all []*Version
	for _, g := range s.Groups {
		all = append(all, g.Versions...)
	}
	return all
}

// Files returns all files: those of the versions in the order of [Set.Versions], then
// the shared files.
func (s *Set) Files() []*File {
	var all []*File
	for _, v := range s.Versions() {
		all = append(all, &v.File)
	}
	return append(all, s.Shared...)
}

// source is a .proto file before it is compiled.
type source struct {
	path       string // relative to the loaded directory
	registered string
	text       []byte
	takesConn  bool
}

// Load compiles all .proto files below dir, client/api of the repository.
func Load(dir string) (*Set, error) {
	sources, err := read(dir)
	if err != nil {
		return nil, err
	}
	files, err := compile(sources)
	if err != nil {
		return nil, err
	}
	set := &Set{}
	for i, src := range sources {
		doc := clean(files[i].SourceLocations().ByPath(protoreflect.SourcePath{packageField}).LeadingComments)
		f := File{Path: src.path, ImportPath: path.Join(ImportPath, path.Dir(src.path)), Desc: files[i], Doc: doc}
		if err := set.add(src, f); err != nil {
			return nil, fmt.Errorf("%s: %w", src.path, err)
		}
	}
	for _, g := range set.Groups {
		slices.SortFunc(g.Versions, func(a, b *Version) int { return int(a.Version.Compare(b.Version)) })
	}
	return set, nil
}

// read reads the .proto files below dir, in alphabetical order of their paths.
func read(dir string) ([]*source, error) {
	var sources []*source
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".proto" {
			return nil
		}
		src := &source{path: name, registered: path.Join(ImportPath, name)}
		if src.text, err = fs.ReadFile(tree, name); err != nil {
			return err
		}
		sources = append(sources, src)
		return src.directives()
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s: no .proto files", dir)
	}
	return sources, nil
}

var directive = regexp.MustCompile(`(?m)^// *csi-proxy-api-gen:(\S*) *(.*)$`)

// directives follows the directives of a file.
func (s *source) directives() error {
	for _, d := range directive.FindAllSubmatch(s.text, -1) {
		switch name, value := string(d[1]), string(d[2]); {
		case name == "registered-as":
			s.registered = value
		case name == "client-takes" && value == "*grpc.ClientConn":
			s.takesConn = true
		default:
			return fmt.Errorf("%s: unknown directive %q", s.path, d[0])
		}
	}
	return nil
}

// compile compiles the sources and returns their descriptors in the same order.
func compile(sources []*source) (linker.Files, error) {
	byName := map[string]*source{}
	var names []string
	for _, s := range sources {
		byName[s.registered] = s
		names = append(names, s.registered)
	}
	c := protocompile.Compiler{
		SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
			s, ok := byName[name]
			if !ok {
				return protocompile.SearchResult{}, fmt.Errorf("no file is registered as %q: %w", name, fs.ErrNotExist)
			}
			return protocompile.SearchResult{Source: bytes.NewReader(s.text)}, nil
		}),
	}
	return c.Compile(context.Background(), names...)
}

// add adds a file to its group.
func (s *Set) add(src *source, f File) error {
	parts := strings.Split(f.Path, "/")
	if len(parts) == 1 {
		s.Shared = append(s.Shared, &f)
		return nil
	}
	if len(parts) != 3 || parts[2] != "api.proto" {
		return errors.New("want <group>/<version>/api.proto")
	}
	group, version := parts[0], parts[1]
	ver, err := apiversion.NewVersion(version)
	if err != nil {
		return err
	}
	if pkg := string(f.Desc.Package()); pkg != version {
		return fmt.Errorf("proto package %q: want the version, %q", pkg, version)
	}
	if opts, _ := f.Desc.Options().(*descriptorpb.FileOptions); opts.GetGoPackage() != "" && opts.GetGoPackage() != f.ImportPath {
		return fmt.Errorf("go_package %q: want %q", opts.GetGoPackage(), f.ImportPath)
	}
	if n := f.Desc.Services().Len(); n != 1 {
		return fmt.Errorf("%d services: want one", n)
	}
	svc := f.Desc.Services().Get(0)
	if want := strings.ToUpper(group[:1]) + group[1:]; string(svc.Name()) != want {
		return fmt.Errorf("service %q: want the group's name, %q", svc.Name(), want)
	}

	var g *Group
	if n := len(s.Groups); n > 0 && s.Groups[n-1].Name == group {
		g = s.Groups[n-1]
	} else {
		g = &Group{Name: group, Service: string(svc.Name())}
		s.Groups = append(s.Groups, g)
	}
	g.Versions = append(g.Versions, &Version{
		File: f, Group: g, Name: version, Version: ver, Service: svc, ClientTakesConn: src.takesConn,
	})
	return nil
}

// clean removes the blank that starts each line of a comment, and surrounding blanks.
func clean(comment string) string {
	lines := strings.Split(comment, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(l, " "), " \t\r")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
