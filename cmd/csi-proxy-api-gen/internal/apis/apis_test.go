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

option go_package = "example.com/m/client/api/shelf/v1";

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

// tree writes files below client/api of a new module, and returns that directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "client", "api")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "go.mod"), "module example.com/m\n")
	for name, text := range files {
		write(filepath.Join(dir, filepath.FromSlash(name)), text)
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
		"errors.proto":              "syntax = \"proto3\";\npackage api;\noption go_package = \"example.com/m/client/api\";\nmessage Oops {}\n",
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
	if got, want := v.Desc.Path(), "example.com/m/client/api/shelf/v1/api.proto"; got != want {
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
			"//csi-proxy-api-gen:no-go-package\n"+
			"// csi-proxy-api-gen:client-takes *grpc.ClientConn\n",
		`option go_package = "example.com/m/client/api/shelf/v1";`, "").Replace(shelf)
	set, err := apis.Load(tree(t, map[string]string{"shelf/v1/api.proto": text}))
	if err != nil {
		t.Fatal(err)
	}
	v := set.Versions()[0]
	if v.Desc.Path() != "odd/place/api.proto" || !v.ClientTakesConn || v.ImportPath != "example.com/m/client/api/shelf/v1" {
		t.Errorf("registered as %q, takes conn %t, import path %q", v.Desc.Path(), v.ClientTakesConn, v.ImportPath)
	}
	if v.Proto().GetOptions().GetGoPackage() != "" {
		t.Error("the descriptor has a go_package")
	}
}

func TestRefusals(t *testing.T) {
	const goPackage = `option go_package = "example.com/m/client/api/shelf/v1";`
	directive := func(d string) []string {
		return []string{"package v1;", "// csi-proxy-api-gen:" + d + "\npackage v1;"}
	}
	tests := map[string]struct {
		edit []string // pairs of old and new text
		want string
	}{
		"not a proto file":       {[]string{"service Shelf {", "service {"}, "syntax error"},
		"proto2":                 {[]string{"proto3", "proto2", "string title", "optional string title", "Kind kind", "optional Kind kind"}, "syntax proto2: want proto3"},
		"no syntax":              {[]string{`syntax = "proto3";`, "", "string title", "optional string title", "Kind kind", "optional Kind kind"}, "syntax proto2: want proto3"},
		"unknown type":           {[]string{"string title", "Title title"}, "unknown type Title"},
		"import":                 {[]string{goPackage, goPackage + "\nimport \"google/protobuf/empty.proto\";"}, `no file is registered as "google/protobuf/empty.proto"`},
		"no go_package":          {[]string{goPackage, ""}, `has no go_package; want "example.com/m/client/api/shelf/v1"`},
		"another go_package":     {[]string{"m/client/api/shelf/v1", "other"}, `go_package "example.com/other": want "example.com/m/client/api/shelf/v1"`},
		"file option":            {[]string{goPackage, goPackage + "\noption java_package = \"x\";"}, `options {java_package:`},
		"message option":         {[]string{"string title", "option deprecated = true; string title"}, "v1.PutBookRequest: options {deprecated:"},
		"field option":           {[]string{"title = 1", "title = 1 [deprecated = true]"}, "v1.PutBookRequest.title: options {deprecated:"},
		"packing":                {[]string{"string title = 1", "repeated int32 title = 1 [packed = false]"}, "options {packed:"},
		"method option":          {[]string{"(PutBookResponse);", "(PutBookResponse) { option deprecated = true; }"}, "v1.Shelf.Put: options {deprecated:"},
		"service option":         {[]string{"service Shelf {", "service Shelf { option deprecated = true;"}, "v1.Shelf: options {deprecated:"},
		"enum option":            {[]string{"NOVEL = 0;", "option allow_alias = true; NOVEL = 0; BOOK = 0;"}, "v1.Kind: options {allow_alias:"},
		"value option":           {[]string{"NOVEL = 0", "NOVEL = 0 [deprecated = true]"}, "v1.NOVEL: options {deprecated:"},
		"client stream":          {[]string{"(PutBookRequest)", "(stream PutBookRequest)"}, "v1.Shelf.Put: is a stream"},
		"server stream":          {[]string{"(PutBookResponse)", "(stream PutBookResponse)"}, "v1.Shelf.Put: is a stream"},
		"oneof":                  {[]string{"string title = 1;", "oneof name { string title = 1; }"}, `v1.PutBookRequest.title: is part of oneof "name"`},
		"optional":               {[]string{"string title", "optional string title"}, "v1.PutBookRequest.title: is optional"},
		"nested message":         {[]string{"string title", "message Inner {} string title"}, "v1.PutBookRequest.Inner: is a nested message"},
		"nested enum":            {[]string{"string title", "enum Inner { ZERO = 0; } string title"}, "v1.PutBookRequest.Inner: is a nested enum"},
		"no comment on method":   {[]string{"  // Put puts a book on the shelf.\n  //\n  //   indented\n", ""}, "v1.Shelf.Put: has no comment"},
		"no comment on service":  {[]string{"// Shelf is one shelf.\n", ""}, "v1.Shelf: has no comment"},
		"no methods":             {[]string{"rpc Put(PutBookRequest) returns (PutBookResponse);", ""}, "v1.Shelf: has no methods"},
		"another service name":   {[]string{"service Shelf", "service Shelves"}, `service "Shelves": want the group's name, "Shelf"`},
		"second service":         {[]string{"enum Kind", "// More.\nservice More {\n// Put.\nrpc Put(PutBookRequest) returns (PutBookResponse); }\nenum Kind"}, "2 services: want one"},
		"another package":        {[]string{"package v1;", "package v2;"}, `proto package "v2": want the version, "v1"`},
		"unknown directive":      {directive("client-name Books"), `directive "client-name Books": unknown`},
		"directive twice":        {directive("no-go-package\n// csi-proxy-api-gen:no-go-package"), `"no-go-package": given twice`},
		"directive too late":     {[]string{"enum Kind", "// csi-proxy-api-gen:no-go-package\nenum Kind"}, "has no effect after the package statement"},
		"directive with value":   {directive("no-go-package please"), "takes no value"},
		"directive against file": {directive("no-go-package"), "and a no-go-package directive"},
		"another client type":    {directive("client-takes grpc.Channel"), "want *grpc.ClientConn"},
		"registered elsewhere":   {directive("registered-as odd/shelf.proto"), "want a path that ends in api.proto"},
		"registered not clean":   {directive("registered-as odd//api.proto"), "want a path that ends in api.proto"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			text := shelf
			for i := 0; i < len(tt.edit); i += 2 {
				if !strings.Contains(text, tt.edit[i]) {
					t.Fatalf("%q is not in the file", tt.edit[i])
				}
				text = strings.ReplaceAll(text, tt.edit[i], tt.edit[i+1])
			}
			set, err := apis.Load(tree(t, map[string]string{"shelf/v1/api.proto": text}))
			// The number of blanks in the text of an option varies.
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "  ", " "), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if set != nil {
				t.Error("returned a set with the error")
			}
		})
	}
}

func TestLoadRefusesTrees(t *testing.T) {
	edit := func(s ...string) string { return strings.NewReplacer(s...).Replace(shelf) }
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"no files":           {map[string]string{"README": ""}, "no .proto files"},
		"no version":         {map[string]string{"shelf/latest/api.proto": edit("v1", "latest")}, `invalid version name: "latest"`},
		"too large a number": {map[string]string{"shelf/v99999999999999999999/api.proto": edit("v1", "v99999999999999999999")}, "unable to convert"},
		"capital group":      {map[string]string{"Shelf/v1/api.proto": edit("shelf/v1", "Shelf/v1")}, `group name "Shelf"`},
		"dashed group":       {map[string]string{"book-shelf/v1/api.proto": edit("shelf/v1", "book-shelf/v1")}, `group name "book-shelf"`},
		"another file name":  {map[string]string{"shelf/v1/shelf.proto": shelf}, "want <group>/<version>/api.proto"},
		"too shallow":        {map[string]string{"shelf/api.proto": edit("shelf/v1", "shelf")}, "want <group>/<version>/api.proto"},
		"too deep":           {map[string]string{"a/shelf/v1/api.proto": edit("shelf/v1", "a/shelf/v1")}, "want <group>/<version>/api.proto"},
		"service in no group": {map[string]string{"shelf.proto": edit("api/shelf/v1", "api")},
			"a file that belongs to no group has a service, v1.Shelf"},
		"one name in two groups": {map[string]string{"shelf/v1/api.proto": shelf, "rack/v1/api.proto": edit("shelf/v1", "rack/v1", "Shelf", "Rack")},
			`symbol "v1.`},
		"one path for two files": {map[string]string{
			"shelf/v1/api.proto": shelf,
			"shelf/v2/api.proto": edit("package v1;", "// csi-proxy-api-gen:registered-as example.com/m/client/api/shelf/v1/api.proto\npackage v2;", "v1", "v2"),
		}, `registered as "example.com/m/client/api/shelf/v1/api.proto", but so is shelf/v1/api.proto`},
		"two problems": {map[string]string{
			"shelf/v1/api.proto": edit("(PutBookResponse)", "(stream PutBookResponse)"),
			"shelf/v2/api.proto": edit("v1", "v2", "string title", "optional string title"),
		}, "shelf/v1/api.proto:13: v1.Shelf.Put: is a stream: want a unary method\nshelf/v2/api.proto:17: v2.PutBookRequest.title: is optional"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			_, err := apis.Load(tree(t, tt.files))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLoadOutsideModule(t *testing.T) {
	dir := t.TempDir()
	if _, err := apis.Load(dir); err == nil || !strings.Contains(err.Error(), "not in a Go module") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("go 1.25\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := apis.Load(dir); err == nil || !strings.Contains(err.Error(), "no module line") {
		t.Errorf("error %v", err)
	}
}
