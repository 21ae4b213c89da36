package api_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/api"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
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
	Version  string
	PipeName string `json:"pipe_name"`
	Service  string
	RPCs     []rpc

	group, service string // of the group
}

type file struct {
	Path              string  `json:"proto_file_in_repo"`
	Registered        string  `json:"proto_file_registered"`
	Package           string  `json:"proto_package"`
	GoPackageEmbedded *string `json:"go_package_embedded"`
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
}

type enum struct {
	Name   string
	Values []struct {
		Name   string
		Number int32
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
		got, want := messages[i], f.Messages[i]
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
