package wrappers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/wrappers"
)

// testdata/golden of the command has the output for a valid API.

func TestGenerateRefusesMethodOfClient(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "door", "v1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(root, "go.mod"): "module example.com/m\n",
		filepath.Join(dir, "api.proto"): `syntax = "proto3";
package v1;
option go_package = "example.com/m/door/v1";
// Door is a door.
service Door {
  // Close closes the door.
  rpc Close(CloseRequest) returns (CloseResponse);
}
message CloseRequest {}
message CloseResponse {}
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set, err := apis.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := wrappers.Generate(set)
	if files != nil || err == nil || !strings.Contains(err.Error(), "door/v1: method Close conflicts with the method of Client") {
		t.Errorf("Generate() = %d files, %v", len(files), err)
	}
}
