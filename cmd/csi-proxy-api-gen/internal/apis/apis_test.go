package apis_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// shelf is a valid file, which the cases below make invalid.
const shelf = `syntax = "proto3";

// The shelf API keeps books.
package v1;

option go_package = "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v1";

// Shelf is one shelf.
service Shelf {
  // Put puts a book on the shelf.
  //
  //   indented
  rpc Put(PutBookRequest) returns (PutBookResponse);
}

message PutBookRequest {
  string title = 1;
}

message PutBookResponse {
  Kind kind = 1;
}

enum Kind {
  NOVEL = 0;
}
`

// tree writes files to a new directory, and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	edit := func(s ...string) string { return strings.NewReplacer(s...).Replace(shelf) }
	set, err := apis.Load(tree(t, map[string]string{
		"shelf/v1/api.proto":        shelf,
		"shelf/v2/api.proto":        edit("v1", "v2"),
		"shelf/v2beta10/api.proto":  edit("v1", "v2beta10"),
		"shelf/v2beta9/api.proto":   edit("v1", "v2beta9"),
		"shelf/v10alpha1/api.proto": edit("v1", "v10alpha1"),
		"cards/v1/api.proto":        edit("shelf/v1", "cards/v1", "Shelf", "Cards", "PutBook", "PutCard", "Kind", "CardKind", "NOVEL", "PAPER"),
		"errors.proto":              "syntax = \"proto3\";\npackage api;\noption go_package = \"github.com/kubernetes-csi/csi-proxy/client/api\";\nmessage Oops {}\n",
		"testdata/broken.proto":     "no proto at all",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range set.Versions() {
		got = append(got, v.String())
	}
	want := []string{"cards/v1", "shelf/v1", "shelf/v2beta9", "shelf/v2beta10", "shelf/v2", "shelf/v10alpha1"}
	if !slices.Equal(got, want) {
		t.Errorf("versions %q, want %q", got, want)
	}
	v := set.Versions()[1]
	if v.Doc != "The shelf API keeps books." {
		t.Errorf("doc %q", v.Doc)
	}
	if got, want := apis.Comment(v.Service.Methods().Get(0)), "Put puts a book on the shelf.\n\n  indented"; got != want {
		t.Errorf("comment of Put %q, want %q", got, want)
	}
	if got, want := v.Desc.Path(), "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v1/api.proto"; got != want {
		t.Errorf("registered as %q, want %q", got, want)
	}
	v.Proto().Name = nil
	if v.Proto().GetName() == "" {
		t.Error("Proto does not return a copy")
	}
}

func TestDirectives(t *testing.T) {
	text := strings.NewReplacer(
		"syntax = \"proto3\";\n", "syntax = \"proto3\";\n"+
			"// csi-proxy-api-gen:registered-as odd/place/api.proto\n"+
			"//csi-proxy-api-gen:client-takes *grpc.ClientConn\n",
		`option go_package = "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v1";`, "").Replace(shelf)
	set, err := apis.Load(tree(t, map[string]string{"shelf/v1/api.proto": text}))
	if err != nil {
		t.Fatal(err)
	}
	v := set.Versions()[0]
	if v.Desc.Path() != "odd/place/api.proto" || !v.ClientTakesConn || v.ImportPath != "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v1" {
		t.Errorf("registered as %q, takes conn %t, import path %q", v.Desc.Path(), v.ClientTakesConn, v.ImportPath)
	}
	if v.Proto().GetOptions().GetGoPackage() != "" {
		t.Error("the descriptor has a go_package")
	}
}

func TestRefusals(t *testing.T) {
	edit := func(s ...string) string { return strings.NewReplacer(s...).Replace(shelf) }
	tests := map[string]struct{ file, text, want string }{
		"no files":             {"README", "", "no .proto files"},
		"not a proto file":     {"shelf/v1/api.proto", edit("service Shelf {", "service {"), "syntax error"},
		"import":               {"shelf/v1/api.proto", edit("option", "import \"google/protobuf/empty.proto\";\noption"), `no file is registered as "google/protobuf/empty.proto"`},
		"another go_package":   {"shelf/v2/api.proto", edit("package v1", "package v2"), `go_package "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v1": want "github.com/kubernetes-csi/csi-proxy/client/api/shelf/v2"`},
		"another package":      {"shelf/v2/api.proto", shelf, `proto package "v1": want the version, "v2"`},
		"another service name": {"shelf/v1/api.proto", edit("service Shelf", "service Shelves"), `service "Shelves": want the group's name, "Shelf"`},
		"second service":       {"shelf/v1/api.proto", shelf + "service More {}", "2 services: want one"},
		"unknown directive":    {"shelf/v1/api.proto", "// csi-proxy-api-gen:client-takes grpc.Channel\n" + shelf, `unknown directive "// csi-proxy-api-gen:client-takes grpc.Channel"`},
		"no version":           {"shelf/latest/api.proto", edit("v1", "latest"), `invalid version name: "latest"`},
		"another file name":    {"shelf/v1/shelf.proto", shelf, "want <group>/<version>/api.proto"},
		"too shallow":          {"shelf/api.proto", shelf, "want <group>/<version>/api.proto"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			set, err := apis.Load(tree(t, map[string]string{tt.file: tt.text}))
			if err == nil || set != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
