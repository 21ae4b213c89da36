package gogen

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// testdata/golden of the command has the output for a valid API.

const shelf = `syntax = "proto3";
// csi-proxy-api-gen:client-takes *grpc.ClientConn

// Books.
package v1;
option go_package = "example.com/m/shelf/v1";
// Shelf is one shelf.
service Shelf {
  // Put puts a book on the shelf.
  rpc Put(Book) returns (Book);
}
message Book {}
`

func load(t *testing.T, files map[string]string) *apis.Set {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := apis.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// keepSignatures fails if the output of the plugin has an unexpected form.
func TestKeepSignaturesRefusesUnexpectedOutput(t *testing.T) {
	set := load(t, map[string]string{"shelf/v1/api.proto": shelf})
	const name = Dir + "/shelf/v1/api_grpc.pb.go"
	const (
		constructor = "\nfunc NewShelfClient(cc grpc.ClientConnInterface) ShelfClient {\n"
		register    = "\nfunc RegisterShelfServer(s grpc.ServiceRegistrar, srv ShelfServer) {\n"
	)
	tests := map[string]struct {
		text, want string
	}{
		"as today":                 {"package v1\n" + constructor + register, ""},
		"other form":               {"package v1\n\nfunc NewShelfClient(conn grpc.ClientConnInterface) ShelfClient {\n" + register, "0 times, want once"},
		"other form of the server": {"package v1\n" + constructor + "\nfunc RegisterShelfServer(s grpc.ServiceRegistrar, s ShelfServer) {\n", "0 times, want once"},
		"twice":                    {"package v1\n" + constructor + constructor + register, "2 times, want once"},
		"no file at all":           {"", "0 times, want once"},
		"other service":            {"package v1\n" + strings.ReplaceAll(constructor, "Shelf", "Rack") + register, "0 times, want once"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			files := map[string][]byte{name: []byte(tt.text)}
			err := keepSignatures(set, files)
			if tt.want == "" {
				want := "package v1\n\nfunc NewShelfClient(cc *grpc.ClientConn) ShelfClient {\n\nfunc RegisterShelfServer(s *grpc.Server, srv ShelfServer) {\n"
				if err != nil || string(files[name]) != want {
					t.Errorf("got %q, %v, want %q", files[name], err, want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDocsRefuses(t *testing.T) {
	shared := func(name string) string {
		return "syntax = \"proto3\";\n// Shared.\npackage api;\noption go_package = \"example.com/m\";\nmessage " + name + " {}\n"
	}
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"no comment on package":        {map[string]string{"shelf/v1/api.proto": strings.Replace(shelf, "// Books.\n", "", 1)}, "shelf/v1/api.proto: the package statement has no comment"},
		"no comment on shared package": {map[string]string{"a.proto": strings.Replace(shared("A"), "// Shared.\n", "", 1)}, "a.proto: the package statement has no comment"},
		"two shared files":             {map[string]string{"a.proto": shared("A"), "b.proto": shared("B")}, "b.proto: only one file may belong to no group"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			files, err := Docs(load(t, tt.files))
			if files != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Docs() = %d files, %v, want %q", len(files), err, tt.want)
			}
		})
	}
}

// TestPluginFails runs in a directory without the tool.
func TestPluginFails(t *testing.T) {
	set := load(t, map[string]string{"shelf/v1/api.proto": shelf})
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	files, err := GRPC(t.Context(), set, t.TempDir())
	var exit *exec.ExitError
	if files != nil || !errors.As(err, &exit) || !strings.Contains(err.Error(), "protoc-gen-go-grpc") {
		t.Errorf("GRPC() = %d files, %v", len(files), err)
	}
}

func TestCollectRefuses(t *testing.T) {
	set := &apis.Set{ImportPath: "example.com/m"}
	tests := map[string]struct {
		resp *pluginpb.CodeGeneratorResponse
		want string
	}{
		"plugin's error": {&pluginpb.CodeGeneratorResponse{Error: proto.String("no such flag")}, "no such flag"},
		"file elsewhere": {&pluginpb.CodeGeneratorResponse{File: []*pluginpb.CodeGeneratorResponse_File{
			{Name: proto.String("example.com/other/a.pb.go")},
		}}, `"example.com/other/a.pb.go"`},
		"part of a file": {&pluginpb.CodeGeneratorResponse{File: []*pluginpb.CodeGeneratorResponse_File{
			{Name: proto.String("example.com/m/a.pb.go"), InsertionPoint: proto.String("imports")},
		}}, `insertion point "imports"`},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			files, err := collect(set, tt.resp)
			if files != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("collect() = %d files, %v, want %q", len(files), err, tt.want)
			}
		})
	}
}
