package gogen

import (
	"strings"
	"testing"
)

// locked is an API with one secret, which is in the table lockedSecrets.
const locked = `syntax = "proto3";
// Doors.
package v1;
option go_package = "example.com/m/door/v1";
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

func lockedSecrets() []Secret {
	return []Secret{{"door", []string{"v1"}, "OpenRequest", "password"}}
}

func TestSecretsRefusesInvalidTable(t *testing.T) {
	entry := func(group, version, message, field string) []Secret {
		return append(lockedSecrets(), Secret{group, []string{version}, message, field})
	}
	with := func(old, text string) string { return strings.Replace(locked, old, text, 1) }
	tests := map[string]struct {
		proto string
		table []Secret
		want  string
	}{
		"no such group":       {locked, entry("gate", "v1", "OpenRequest", "password"), "gate/v1: no such version"},
		"no such version":     {locked, entry("door", "v2", "OpenRequest", "password"), "door/v2: no such version"},
		"no such message":     {locked, entry("door", "v1", "ShutRequest", "password"), "no such message"},
		"no such field":       {locked, entry("door", "v1", "OpenRequest", "Password"), "secret Password of OpenRequest in door/v1: no such field"},
		"no versions":         {locked, append(lockedSecrets(), Secret{Group: "door", Message: "OpenRequest", Field: "password"}), "no versions"},
		"twice":               {locked, append(lockedSecrets(), lockedSecrets()...), "listed twice"},
		"a list":              {locked, entry("door", "v1", "OpenRequest", "others"), "want a single string"},
		"a number":            {locked, entry("door", "v1", "OpenRequest", "tries"), "want a single string"},
		"not listed":          {locked, nil, "door/v1/api.proto: field password of OpenRequest has the name of a secret"},
		"not listed, capital": {with("OpenResponse {}", "OpenResponse { string NewSecretName = 1; }"), lockedSecrets(), "field NewSecretName of OpenResponse has the name of a secret"},
		"not listed, bytes":   {with("OpenResponse {}", "OpenResponse { bytes secret = 1; }"), lockedSecrets(), "field secret of OpenResponse"},
		"not listed, list":    {with("OpenResponse {}", "OpenResponse { repeated string passwords = 1; }"), lockedSecrets(), "field passwords of OpenResponse"},
		"not listed, map":     {with("OpenResponse {}", "OpenResponse { map<string, string> secrets = 1; }"), lockedSecrets(), "field secrets of OpenResponse"},
		"in another message":  {with("OpenResponse {}", "OpenResponse { OpenRequest of = 1; }"), lockedSecrets(), "field of of OpenResponse: OpenRequest contains a secret"},
		"in a list":           {with("OpenResponse {}", "OpenResponse { repeated OpenRequest of = 1; }"), lockedSecrets(), "OpenRequest contains a secret"},
		"in a map":            {with("OpenResponse {}", "OpenResponse { map<string, OpenRequest> of = 1; }"), lockedSecrets(), "OpenRequest contains a secret"},
		"next to a list":      {with("Place place", "repeated Place place"), lockedSecrets(), "must not contain lists or maps of messages"},
		"nested":              {with("string name = 1;", "OpenResponse of = 1;"), lockedSecrets(), "more than one level"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			files, err := Messages(load(t, map[string]string{"door/v1/api.proto": tt.proto}), tt.table)
			if files != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Messages() = %d files, %v, want %q", len(files), err, tt.want)
			}
		})
	}
	number := with("OpenResponse {}", "OpenResponse { int64 password_length = 1; }")
	if _, err := Messages(load(t, map[string]string{"door/v1/api.proto": number}), lockedSecrets()); err != nil {
		t.Errorf("a number that is not a secret: %v", err)
	}
}
