package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/api"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The table in testdata/wire.json is the published contract. It was not generated from
// this repository, so a failing test must never be fixed by changing it.
type contract struct {
	Groups []struct {
		Group    string
		Service  string `json:"service_simple_name"`
		Versions []*version
	}
	SharedFiles []*file `json:"shared_files"`
}

type version struct {
	file
	Version      string
	PipeName     string `json:"pipe_name"`
	NewClientArg string `json:"go_new_client_arg"`
	Service      string
	RPCs         []rpc

	group, service string // of the group
}

type file struct {
	Path              string  `json:"proto_file_in_repo"`
	Registered        string  `json:"proto_file_registered"`
	Package           string  `json:"proto_package"`
	GoPackageEmbedded *string `json:"go_package_embedded"`
	GoImportPath      string  `json:"go_import_path"`
	Messages          []message
	Enums             []enum
}

type rpc struct {
	Name              string
	FullMethod        string `json:"full_method"`
	Request, Response string
}

type message struct {
	Name   string
	Fields []field
}

type field struct {
	Name     string
	Number   int32
	Label    string
	Type     string
	MapKey   string `json:"map_key"`
	MapValue string `json:"map_value"`
	JSONName string `json:"json_name"`
	GoName   string `json:"go_name"`
	GoType   string `json:"go_type"`
}

type enum struct {
	Name   string
	Values []struct {
		Name   string
		Number int32
		GoName string `json:"go_name"`
	}
}

func load(t *testing.T) *contract {
	t.Helper()
	text, err := os.ReadFile("testdata/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var c contract
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	for _, g := range c.Groups {
		for _, v := range g.Versions {
			v.group, v.service = g.Group, g.Service
		}
	}
	if n := len(c.versions()); n != len(published) {
		t.Fatalf("wire.json has %d versions, want the %d of published", n, len(published))
	}
	return &c
}

func (c *contract) versions() []*version {
	var all []*version
	for _, g := range c.Groups {
		all = append(all, g.Versions...)
	}
	return all
}

func (c *contract) files() []*file {
	var all []*file
	for _, v := range c.versions() {
		all = append(all, &v.file)
	}
	return append(all, c.SharedFiles...)
}

func (v *version) String() string { return v.group + "/" + v.Version }

// The versions on disk, in the protobuf registry and in the table of Go names are those
// of the contract.
func TestVersionsMatchContract(t *testing.T) {
	c := load(t)
	var wantPaths, wantRegistered, wantVersions []string
	for _, f := range c.files() {
		wantPaths = append(wantPaths, strings.TrimPrefix(f.Path, "client/api/"))
		wantRegistered = append(wantRegistered, f.Registered)
	}
	for _, v := range c.versions() {
		wantVersions = append(wantVersions, v.String())
	}

	paths, err := protosBelow(".")
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, c.later)
	equalSets(t, ".proto files", paths, wantPaths)

	var registered []string
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		// Other modules register files in other packages.
		if pkg := string(f.Package()); pkg == "api" || apiversion.IsValidVersion(pkg) {
			registered = append(registered, f.Path())
		}
		return true
	})
	registered = slices.DeleteFunc(registered, func(path string) bool {
		_, name, _ := strings.Cut(path, "/client/api/")
		return c.later(name)
	})
	equalSets(t, "registered files", registered, wantRegistered)

	var versions []string
	for v := range published {
		versions = append(versions, v)
	}
	equalSets(t, "versions with Go packages", versions, wantVersions)

	wrappers, err := fs.Glob(os.DirFS("../groups"), "*/*")
	if err != nil {
		t.Fatal(err)
	}
	wrappers = slices.DeleteFunc(wrappers, c.later)
	equalSets(t, "client packages", wrappers, wantVersions)
}

// later reports whether a path below this directory, such as disk/v9 or
// disk/v9/api.proto, belongs to a version that is newer than those of the contract.
// The contract covers published versions and does not forbid new ones.
func (c *contract) later(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) < 2 {
		return false
	}
	v, err := apiversion.NewVersion(parts[1])
	if err != nil {
		return false
	}
	known := false
	for _, w := range c.versions() {
		if w.group != parts[0] {
			continue
		}
		known = true
		if v.Compare(apiversion.NewVersionOrPanic(w.Version)) != apiversion.Greater {
			return false
		}
	}
	return known
}

func protosBelow(dir string) ([]string, error) {
	var paths []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".proto") {
			paths = append(paths, name)
		}
		return err
	})
	return paths, err
}

func equalSets(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: %q is not in the contract", what, g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: %q is missing", what, w)
		}
	}
}

// descriptorOf returns the descriptor that the generated code registers.
func descriptorOf(t *testing.T, f *file) protoreflect.FileDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindFileByPath(f.Registered)
	if err != nil {
		t.Fatalf("%s: %v", f.Registered, err)
	}
	return d
}

func TestDescriptors(t *testing.T) {
	c := load(t)
	for _, v := range c.versions() {
		t.Run(v.String(), func(t *testing.T) {
			d := descriptorOf(t, &v.file)
			checkFile(t, &v.file, d)
			if want := "csi-proxy-" + v.group + "-" + v.Version; v.PipeName != want {
				t.Errorf("pipe name %q, want %q", v.PipeName, want)
			}
			if n := d.Services().Len(); n != 1 {
				t.Fatalf("%d services, want 1", n)
			}
			s := d.Services().Get(0)
			if string(s.FullName()) != v.Service {
				t.Errorf("service %s, want %s", s.FullName(), v.Service)
			}
			var got []rpc
			for i := range s.Methods().Len() {
				m := s.Methods().Get(i)
				if m.IsStreamingClient() || m.IsStreamingServer() {
					t.Errorf("%s is a stream", m.FullName())
				}
				got = append(got, rpc{
					Name:       string(m.Name()),
					FullMethod: "/" + string(s.FullName()) + "/" + string(m.Name()),
					Request:    string(m.Input().FullName()),
					Response:   string(m.Output().FullName()),
				})
			}
			if !slices.Equal(got, v.RPCs) {
				t.Errorf("methods:\n got %v\nwant %v", got, v.RPCs)
			}
		})
	}
	for _, f := range c.SharedFiles {
		t.Run(f.Package, func(t *testing.T) {
			d := descriptorOf(t, f)
			checkFile(t, f, d)
			if d.Services().Len() != 0 {
				t.Errorf("has a service, %s", d.Services().Get(0).FullName())
			}
		})
	}
}

func checkFile(t *testing.T, f *file, d protoreflect.FileDescriptor) {
	t.Helper()
	if got := string(d.Package()); got != f.Package {
		t.Errorf("package %q, want %q", got, f.Package)
	}
	if d.Syntax() != protoreflect.Proto3 {
		t.Errorf("syntax %v, want proto3", d.Syntax())
	}
	if d.Imports().Len() != 0 || d.Extensions().Len() != 0 {
		t.Errorf("%d imports and %d extensions, want none", d.Imports().Len(), d.Extensions().Len())
	}
	want := &descriptorpb.FileOptions{GoPackage: f.GoPackageEmbedded}
	if got := d.Options().(*descriptorpb.FileOptions); proto.Size(got)+proto.Size(want) != 0 && !proto.Equal(got, want) {
		t.Errorf("options {%v}, want {%v}", got, want)
	}

	var messages []message
	for i := range d.Messages().Len() {
		messages = append(messages, messageOf(t, d.Messages().Get(i)))
	}
	if len(messages) != len(f.Messages) {
		t.Errorf("%d messages, want %d", len(messages), len(f.Messages))
	}
	for i := range min(len(messages), len(f.Messages)) {
		got, want := messages[i], wireOnly(f.Messages[i])
		if got.Name != want.Name || !slices.Equal(got.Fields, want.Fields) {
			t.Errorf("message %d:\n got %+v\nwant %+v", i, got, want)
		}
	}

	if n := d.Enums().Len(); n != len(f.Enums) {
		t.Fatalf("%d enums, want %d", n, len(f.Enums))
	}
	for i, want := range f.Enums {
		e := d.Enums().Get(i)
		if string(e.Name()) != want.Name || e.Values().Len() != len(want.Values) {
			t.Errorf("enum %s with %d values, want %s with %d", e.Name(), e.Values().Len(), want.Name, len(want.Values))
			continue
		}
		for j, w := range want.Values {
			if v := e.Values().Get(j); string(v.Name()) != w.Name || int32(v.Number()) != w.Number {
				t.Errorf("enum %s: %s = %d, want %s = %d", want.Name, v.Name(), v.Number(), w.Name, w.Number)
			}
		}
	}
}

// wireOnly removes the Go names, which a descriptor does not contain.
func wireOnly(m message) message {
	m.Fields = slices.Clone(m.Fields)
	for i := range m.Fields {
		m.Fields[i].GoName, m.Fields[i].GoType = "", ""
	}
	return m
}

// messageOf describes a message in the terms of the contract.
func messageOf(t *testing.T, d protoreflect.MessageDescriptor) message {
	t.Helper()
	if d.Oneofs().Len() != 0 || d.Enums().Len() != 0 || d.Extensions().Len() != 0 {
		t.Errorf("%s has a oneof, an enum or an extension", d.FullName())
	}
	m := message{Name: string(d.Name())}
	maps := 0
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{Name: string(fd.Name()), Number: int32(fd.Number()), JSONName: fd.JSONName()}
		switch {
		case fd.IsMap():
			f.Label, f.Type = "map", "map"
			f.MapKey, f.MapValue = typeOf(fd.MapKey()), typeOf(fd.MapValue())
			maps++
		case fd.IsList():
			f.Label, f.Type = "repeated", typeOf(fd)
		default:
			f.Label, f.Type = "singular", typeOf(fd)
		}
		m.Fields = append(m.Fields, f)
	}
	if n := d.Messages().Len(); n != maps {
		t.Errorf("%s has %d nested messages and %d maps", d.FullName(), n, maps)
	}
	return m
}

func typeOf(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return "message:" + string(fd.Message().FullName())
	case protoreflect.EnumKind:
		return "enum:" + string(fd.Enum().FullName())
	default:
		return fd.Kind().String()
	}
}

// TestGoMessages compares the Go types with the contract, because programs use their
// fields and getters by name.
func TestGoMessages(t *testing.T) {
	for _, f := range load(t).files() {
		for _, m := range f.Messages {
			full := protoreflect.FullName(f.Package + "." + m.Name)
			mt, err := protoregistry.GlobalTypes.FindMessageByName(full)
			if err != nil {
				t.Errorf("%s: %v", full, err)
				continue
			}
			ptr := reflect.TypeOf(mt.Zero().Interface())
			typ := ptr.Elem()
			if typ.Name() != m.Name || typ.PkgPath() != f.GoImportPath {
				t.Errorf("%s is Go type %s of %s, want %s of %s", full, typ.Name(), typ.PkgPath(), m.Name, f.GoImportPath)
			}
			exported := 0
			for i := range typ.NumField() {
				if typ.Field(i).IsExported() {
					exported++
				}
			}
			if exported != len(m.Fields) {
				t.Errorf("%s has %d exported Go fields, want %d", full, exported, len(m.Fields))
			}
			for _, want := range m.Fields {
				got, ok := typ.FieldByName(want.GoName)
				if !ok {
					t.Errorf("%s has no Go field %s", full, want.GoName)
					continue
				}
				if s := goType(got.Type, typ.PkgPath()); s != want.GoType {
					t.Errorf("%s: Go field %s is a %s, want %s", full, want.GoName, s, want.GoType)
				}
				getter, ok := ptr.MethodByName("Get" + want.GoName)
				if !ok || getter.Type.NumIn() != 1 || getter.Type.NumOut() != 1 || getter.Type.Out(0) != got.Type {
					t.Errorf("%s: no method Get%s() %s", full, want.GoName, want.GoType)
				}
			}
		}
	}
}

// goType returns the name of a type as written in its own package.
func goType(t reflect.Type, pkg string) string {
	switch {
	case t.PkgPath() == pkg:
		return t.Name()
	case t.Kind() == reflect.Pointer:
		return "*" + goType(t.Elem(), pkg)
	case t.Kind() == reflect.Slice:
		return "[]" + goType(t.Elem(), pkg)
	case t.Kind() == reflect.Map:
		return "map[" + goType(t.Key(), pkg) + "]" + goType(t.Elem(), pkg)
	default:
		return t.String()
	}
}

func TestGoEnums(t *testing.T) {
	seen := 0
	for _, f := range load(t).files() {
		for _, e := range f.Enums {
			seen++
			got, ok := publishedEnums[f.Package+"."+e.Name]
			if !ok {
				t.Errorf("%s: no Go enum %s", f.Path, e.Name)
				continue
			}
			if len(got.names) != len(e.Values) || len(got.values) != len(e.Values) || len(got.constants) != len(e.Values) {
				t.Errorf("%s: enum %s has %d names, %d values and %d constants, want %d of each",
					f.Path, e.Name, len(got.names), len(got.values), len(got.constants), len(e.Values))
			}
			for _, v := range e.Values {
				if got.names[v.Number] != v.Name || got.values[v.Name] != v.Number {
					t.Errorf("%s: %s_name[%d] = %q, %s_value[%q] = %d", f.Path, e.Name, v.Number, got.names[v.Number], e.Name, v.Name, got.values[v.Name])
				}
				c := reflect.ValueOf(got.constants[v.GoName])
				if c.Kind() != reflect.Int32 || c.Int() != int64(v.Number) {
					t.Errorf("%s: constant %s is %v, want %d", f.Path, v.GoName, c, v.Number)
					continue
				}
				if typ := c.Type(); typ.Name() != e.Name || typ.PkgPath() != f.GoImportPath {
					t.Errorf("%s: constant %s is a %s of %s", f.Path, v.GoName, typ, typ.PkgPath())
				}
			}
		}
	}
	if seen != len(publishedEnums) {
		t.Errorf("%d Go enums, but the contract has %d", len(publishedEnums), seen)
	}
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
	optionsType = reflect.TypeFor[[]grpc.CallOption]()
)

// TestGoServices compares the generated clients and servers, and the clients for
// drivers, with the published identifiers.
func TestGoServices(t *testing.T) {
	for _, v := range load(t).versions() {
		t.Run(v.String(), func(t *testing.T) {
			p, ok := published[v.String()]
			if !ok {
				t.Fatal("not in the table of Go names")
			}
			messages := func(r rpc) (req, resp reflect.Type) {
				find := func(name string) reflect.Type {
					mt, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
					if err != nil {
						t.Fatal(err)
					}
					return reflect.TypeOf(mt.Zero().Interface())
				}
				return find(r.Request), find(r.Response)
			}

			// The interfaces have exactly the methods of the contract. A "mustEmbed…"
			// method would break servers that do not embed anything.
			checkMethods(t, p.client, nil, v.RPCs, func(r rpc) ([]reflect.Type, bool) {
				req, resp := messages(r)
				return []reflect.Type{contextType, req, optionsType, resp, errorType}, true
			})
			checkMethods(t, p.server, nil, v.RPCs, func(r rpc) ([]reflect.Type, bool) {
				req, resp := messages(r)
				return []reflect.Type{contextType, req, resp, errorType}, false
			})
			checkMethods(t, p.wrapper, []string{"Close"}, v.RPCs, func(r rpc) ([]reflect.Type, bool) {
				req, resp := messages(r)
				return []reflect.Type{p.wrapper, contextType, req, optionsType, resp, errorType}, true
			})

			for what, name := range map[string]string{
				p.client.Name():                        v.service + "Client",
				p.server.Name():                        v.service + "Server",
				reflect.TypeOf(p.unimplemented).Name(): "Unimplemented" + v.service + "Server",
			} {
				if what != name {
					t.Errorf("the Go name is %s, want %s", what, name)
				}
			}
			if !reflect.TypeOf(p.unimplemented).Implements(p.server) {
				t.Errorf("%T does not implement %s by value", p.unimplemented, p.server)
			}
			if !p.wrapper.Implements(p.client) {
				t.Errorf("%s does not implement %s", p.wrapper, p.client)
			}

			// The constructor has the published parameter type, so that programs can
			// assign it to variables.
			newClient := reflect.TypeOf(p.newClient)
			if got := newClient.In(0).String(); got != v.NewClientArg || newClient.NumIn() != 1 || newClient.Out(0) != p.client {
				t.Errorf("New%sClient is a %s, want one that takes %s", v.service, newClient, v.NewClientArg)
			}
			register := reflect.TypeOf(p.register)
			if register.NumIn() != 2 || !reflect.TypeFor[*grpc.Server]().AssignableTo(register.In(0)) || register.In(1) != p.server {
				t.Errorf("Register%sServer is a %s, want one that takes a *grpc.Server and a %s", v.service, register, p.server)
			}

			if p.groupName != v.group || p.version.String() != v.Version {
				t.Errorf("GroupName %q, Version %q, want %q and %q", p.groupName, p.version, v.group, v.Version)
			}
			for what, f := range map[string]struct {
				got any
				in  []reflect.Type
			}{
				"NewClient":             {p.newWrapper, nil},
				"NewClientWithPipePath": {p.newWrapperNamed, []reflect.Type{reflect.TypeFor[string]()}},
			} {
				want := reflect.FuncOf(f.in, []reflect.Type{p.wrapper, errorType}, false)
				if got := reflect.TypeOf(f.got); got != want {
					t.Errorf("%s is a %s, want %s", what, got, want)
				}
			}
		})
	}
}

// checkMethods compares the method set of a type with the rpcs and the further names.
// signature returns a method's parameters and results, and whether it is variadic.
func checkMethods(t *testing.T, typ reflect.Type, further []string, rpcs []rpc, signature func(rpc) ([]reflect.Type, bool)) {
	t.Helper()
	var got []string
	for i := range typ.NumMethod() {
		got = append(got, typ.Method(i).Name)
	}
	want := slices.Clone(further)
	for _, r := range rpcs {
		want = append(want, r.Name)
		m, ok := typ.MethodByName(r.Name)
		if !ok {
			continue // reported below
		}
		types, variadic := signature(r)
		n := len(types) - 2 // all but the results
		if f := reflect.FuncOf(types[:n], types[n:], variadic); m.Type != f {
			t.Errorf("%s.%s is a %s, want %s", typ, r.Name, m.Type, f)
		}
	}
	equalSets(t, "methods of "+typ.String(), got, want)
}

// TestDescriptorsText compares descriptors.txtpb with the descriptors in the Go code.
func TestDescriptorsText(t *testing.T) {
	text, err := os.ReadFile("descriptors.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	var fds descriptorpb.FileDescriptorSet
	if err := prototext.Unmarshal(text, &fds); err != nil {
		t.Fatal(err)
	}
	c := load(t)
	files := c.files()
	fds.File = slices.DeleteFunc(fds.File, func(f *descriptorpb.FileDescriptorProto) bool {
		_, name, _ := strings.Cut(f.GetName(), "client/api/")
		return c.later(name)
	})
	if len(fds.File) != len(files) {
		t.Errorf("%d files, want %d", len(fds.File), len(files))
	}
	for _, got := range fds.File {
		d, err := protoregistry.GlobalFiles.FindFileByPath(got.GetName())
		if errors.Is(err, protoregistry.NotFound) {
			t.Errorf("%s is not registered", got.GetName())
			continue
		}
		if want := protodesc.ToFileDescriptorProto(d); !proto.Equal(got, want) {
			t.Errorf("%s is not the file that is registered", got.GetName())
		}
	}
}

// TestSharedMessage uses the only message that belongs to no group, so that its package
// is linked.
func TestSharedMessage(t *testing.T) {
	in := &api.CmdletError{CmdletName: "Get-Disk", Code: 5, Message: "denied"}
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out api.CmdletError
	if err := proto.Unmarshal(b, &out); err != nil || !proto.Equal(in, &out) {
		t.Errorf("%v was decoded as %v, %v", in, &out, err)
	}
}
