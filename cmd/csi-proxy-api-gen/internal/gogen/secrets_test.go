package gogen

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// locked is an API with one secret.
const locked = `syntax = "proto3";
// Doors.
package v1;
option go_package = "github.com/kubernetes-csi/csi-proxy/client/api/door/v1";
// Door is a door.
service Door {
  // Open opens the door.
  rpc Open(OpenRequest) returns (OpenResponse);
}
message OpenRequest {
  string user = 1;
  string password = 2;
  repeated string others = 3;
  int64 tries = 4;
  Place place = 5;
}
message Place { string name = 1; }
message OpenResponse {}
`

// hidden generates the messages of an API.
func hidden(t *testing.T, proto string) (map[string][]byte, error) {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "door", "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "door/v1/api.proto"), []byte(proto), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := apis.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return Messages(set)
}

// What has the name of a secret is hidden, or refused.
func TestSecrets(t *testing.T) {
	with := func(old, text string) string { return strings.Replace(locked, old, text, 1) }
	for what, tt := range map[string]struct{ proto, want string }{
		"bytes":              {with("OpenResponse {}", "OpenResponse { bytes secret = 1; }"), "field secret of OpenResponse has the name of a secret: want a single string"},
		"a list":             {with("OpenResponse {}", "OpenResponse { repeated string passwords = 1; }"), "field passwords of OpenResponse"},
		"a map":              {with("OpenResponse {}", "OpenResponse { map<string, string> secrets = 1; }"), "field secrets of OpenResponse"},
		"in another message": {with("OpenResponse {}", "OpenResponse { OpenRequest of = 1; }"), "field of of OpenResponse: OpenRequest contains a secret"},
		"in a list":          {with("OpenResponse {}", "OpenResponse { repeated OpenRequest of = 1; }"), "OpenRequest contains a secret"},
		"in a map":           {with("OpenResponse {}", "OpenResponse { map<string, OpenRequest> of = 1; }"), "OpenRequest contains a secret"},
		"next to a list":     {with("Place place", "repeated Place place"), "must not contain lists or maps of messages"},
		"nested":             {with("string name = 1;", "OpenResponse of = 1;"), "more than one level"},
	} {
		if _, err := hidden(t, tt.proto); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", what, err, tt.want)
		}
	}
	files, err := hidden(t, with("OpenResponse {}", "OpenResponse { int64 password_length = 1; string NewSecretName = 2; }"))
	if err != nil {
		t.Fatal(err)
	}
	text := files["client/api/door/v1/api_secrets.go"]
	for want, n := range map[string]int{`x.Password = "***"`: 1, `x.NewSecretName = "***"`: 1, `"***"`: 2} {
		if bytes.Count(text, []byte(want)) != n {
			t.Errorf("%s is there %d times, want %d:\n%s", want, bytes.Count(text, []byte(want)), n, text)
		}
	}
}

// A text in the API has the name of a secret, or is known to be none.
func TestEveryTextIsSecretOrKnown(t *testing.T) {
	known := strings.Fields(`Adapter Bus LUNID Target adapter azure_lun bus bus_type chap_username cmdlet_name device_path diskID diskIDs
		disk_id disk_locations disk_name disk_number disks display_name error eui64 filesystem identifiers iqn iqns local_path local_paths
		lun message mount name nguid offline_reason page83 path product remote_path serial_number source_path target target_address
		target_path unread username vendor volume_id volume_ids wwn`)
	set, err := apis.Load("../../../../client/api")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range set.Files() {
		for i := range file.Desc.Messages().Len() {
			m := file.Desc.Messages().Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				if name := string(f.Name()); isText(f) && !secretName.MatchString(name) && !slices.Contains(known, name) {
					t.Errorf("%s: is the field %s of %s a secret? If it is, secretName must match its name; else add it to known", file.Path, name, m.Name())
				}
			}
		}
	}
}
