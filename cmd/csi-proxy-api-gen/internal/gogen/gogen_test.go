package gogen

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
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
