package rows_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/rows"
)

const tiny = "testdata/tiny"

// config returns the configuration for the tiny API below root.
func config(root string) *rows.Config {
	return &rows.Config{
		Root: root, WireDir: "wire", Pkg: "pkg", PkgImport: "example.com/tiny/pkg",
		Exceptions: []rows.Exception{
			{Group: "shelf", Versions: []string{"v1beta1"}, Message: "Book", Field: "page_count", As: "Pages", Why: "renamed"},
			{Group: "shelf", Versions: []string{"v1alpha1"}, Message: "CountRequest", Field: "Quick", Why: "added later"},
			{Group: "shelf", Versions: []string{"v1alpha1"}, Message: "CountResponse", Field: "error", Why: "never used"},
			{Group: "shelf", Versions: []string{"v1alpha1"}, Message: "Place", Why: "Put has replaced it"},
		},
	}
}

func load(t *testing.T, root string) *apis.Set {
	t.Helper()
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// edit replaces a text in a file of the tiny API or, if the old text is empty, creates a
// file.
type edit struct{ file, old, new string }

const (
	protoV1     = "client/api/shelf/v1/api.proto"
	protoBeta1  = "client/api/shelf/v1beta1/api.proto"
	protoAlpha1 = "client/api/shelf/v1alpha1/api.proto"
	shelfTypes  = "pkg/shelf/types.go"
	shelfRows   = "wire/shelf.go"
)

// edited runs the generator on a changed copy of the tiny API.
func edited(t *testing.T, edits []edit) (string, error) {
	t.Helper()
	root := t.TempDir()
	err := filepath.WalkDir(tiny, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return write(filepath.Join(root, strings.TrimPrefix(name, filepath.FromSlash(tiny))), string(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		file := filepath.Join(root, filepath.FromSlash(e.file))
		text := e.new
		if e.old != "" {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(b), e.old) {
				t.Fatalf("%s does not contain %q", e.file, e.old)
			}
			text = strings.Replace(string(b), e.old, e.new, 1)
		}
		if err := write(file, text); err != nil {
			t.Fatal(err)
		}
	}
	files, err := config(root).Rows(load(t, root))
	return string(files["wire/shelf_rows.go"]), err
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		about string
		edits []edit
		want  []string
	}{
		{"a field of a request that pkg does not have",
			[]edit{{protoV1, "bool all = 1;", "bool all = 1; string colour = 2;"}},
			[]string{"shelf/v1: field ListRequest.colour: shelf.ListRequest has no field Colour"}},
		{"a field of a response that pkg does not have",
			[]edit{{protoV1, "repeated Book lent = 2;", "repeated Book lent = 2; string error = 9;"}},
			[]string{"shelf/v1: field ListResponse.error: shelf.ListResponse has no field Error"}},
		{"a field of pkg that the newest message lacks under its name",
			[]edit{{shelfTypes, "Notes   map", "Marks   map"}},
			[]string{"field ListResponse.notes: shelf.ListResponse has no field Notes", "shelf/v1: message ListResponse has no field for shelf.ListResponse.Marks"}},
		{"a field of a message inside a message that pkg does not have",
			[]edit{{protoV1, "string name = 1;", "string name = 1; int64 born = 2;"}, {protoBeta1, "string name = 1;", "string name = 1; int64 born = 2;"}},
			[]string{"shelf/v1: field Author.born: shelf.Author has no field Born"}},
		{"a field of pkg that a request cannot fill",
			[]edit{{shelfTypes, "All bool", "All, Old bool"}},
			[]string{"shelf/v1: message ListRequest has no field for shelf.ListRequest.Old"}},
		{"a field of pkg that a response does not have",
			[]edit{{shelfTypes, "Count uint64", "Count, Weight uint64"}},
			[]string{"shelf/v1alpha1: message CountResponse has no field for shelf.CountResponse.Weight"}},
		{"an embedded field",
			[]edit{{shelfTypes, "ListRequest struct{ All bool }", "ListRequest struct { All bool; Book }"}},
			[]string{"has no field for shelf.ListRequest.embedded Book"}},
		{"enum, but text in pkg",
			[]edit{{shelfTypes, "Binding Binding\n\tTagIDs", "Binding string\n\tTagIDs"}},
			[]string{"field PutRequest.binding is an enum, but string in pkg"}},
		{"a method that pkg does not have",
			[]edit{{protoV1, "  // Dust has", "  // Burn burns.\n  rpc Burn(DustRequest) returns (DustResponse);\n  // Dust has"}},
			[]string{"shelf/v1 Burn: shelf.Service has no method Burn: write v1_Burn by hand in wire"}},
		{"recursive message",
			[]edit{{protoV1, "string name = 1;", "string name = 1; Author teacher = 2;"}},
			[]string{"shelf/v1: message Author is recursive"}},
		{"a group without its package",
			[]edit{{"client/api/rack/v1/api.proto", "", "syntax = \"proto3\";\n\n// Racks.\npackage v1;\n// Rack.\nservice Rack {\n  // Sell sells.\n  rpc Sell(SellRequest) returns (SellResponse);\n}\nmessage SellRequest {}\nmessage SellResponse {}\n"}},
			[]string{"pkg/rack"}},
		{"a package without a Service",
			[]edit{{shelfTypes, "type Service interface", "type Other interface"}},
			[]string{"no interface named Service with methods"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			out, err := edited(t, c.edits)
			if err == nil {
				t.Fatalf("generated\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nlacks %q", err, want)
				}
			}
			if out != "" {
				t.Errorf("generated something in spite of %v", err)
			}
		})
	}
}

// A version whose messages match another version is served by existing rows.
func TestMatchingVersionNeedsProtoOnly(t *testing.T) {
	v1, err := os.ReadFile(filepath.Join(tiny, protoV1))
	if err != nil {
		t.Fatal(err)
	}
	v2 := strings.Replace(string(v1), "package v1;", "package v2;", 1)
	out, err := edited(t, []edit{{"client/api/shelf/v2/api.proto", "", v2}})
	if err != nil {
		t.Fatal(err)
	}
	wantTable(t, out,
		`unary("Count", v1alpha1_Count, "v1alpha1"),`,
		`unary("Dust", v2_Dust, "v1alpha1", "v1beta1", "v1", "v2"),`,
		`unary("List", v2_List, "v1", "v2"),`,
		`unary("List", v1alpha1_List, "v1alpha1"),`,
		`unary("Place", v1alpha1_Place, "v1alpha1"),`,
		`unary("Put", v2_Put, "v1beta1", "v1", "v2"),`)
}

// A new version may have fields in messages, also nested ones, that older versions lack. Each
// form of a method has a row. In an old request the field is zero, and an old response does
// not have it.
func TestFieldsOfNewVersion(t *testing.T) {
	v1, err := os.ReadFile(filepath.Join(tiny, protoV1))
	if err != nil {
		t.Fatal(err)
	}
	v2 := strings.NewReplacer("package v1;", "package v2;", "bool all = 1;", "bool all = 1; string colour = 2;",
		"string name = 1;", "string name = 1; int64 born = 2;").Replace(string(v1))
	out, err := edited(t, []edit{
		{"client/api/shelf/v2/api.proto", "", v2},
		{shelfTypes, "ListRequest struct{ All bool }", "ListRequest struct { All bool; Colour string }"},
		{shelfTypes, "Author struct{ Name string }", "Author struct { Name string; Born int64 }"},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantTable(t, out,
		`unary("List", v2_List, "v2"),`,
		`unary("List", v1_List, "v1"),`,
		`unary("List", v1alpha1_List, "v1alpha1"),`,
		`unary("Put", v2_Put, "v2"),`,
		`unary("Put", v1_Put, "v1beta1", "v1"),`,
		`unary("Dust", v2_Dust, "v1alpha1", "v1beta1", "v1", "v2"),`,
		"out, err := ask(ctx, to, shelf.Service.List, &shelf.ListRequest{All: in.All, Colour: in.Colour})",
		"out, err := ask(ctx, to, shelf.Service.List, &shelf.ListRequest{All: in.All})",
		"return &v2.Author{Name: in.Name, Born: in.Born}",
		"return &v1.Author{Name: in.Name}",
		"return &shelf.Author{Name: in.Name, Born: in.Born}",
		"return &shelf.Author{Name: in.Name}")
}

func TestHandWrittenRowServesOlderVersions(t *testing.T) {
	const before = "func v1alpha1_Place"
	for _, c := range []struct {
		about string
		hand  string
		want  []string
	}{
		{"in the newest version: serves all", "func v1_Put() {}\n",
			[]string{`unary("Put", v1_Put, "v1beta1", "v1"),`}},
		{"in an older version only: serves all", "func v1beta1_Put() {}\n",
			[]string{`unary("Put", v1beta1_Put, "v1beta1", "v1"),`}},
		{"in both: each serves its own", "func v1_Put() {}\nfunc v1beta1_Put() {}\n",
			[]string{`unary("Put", v1_Put, "v1"),`, `unary("Put", v1beta1_Put, "v1beta1"),`}},
		{"down to the next one", "func v1_Dust() {}\nfunc v1alpha1_Dust() {}\n",
			[]string{`unary("Dust", v1_Dust, "v1beta1", "v1"),`, `unary("Dust", v1alpha1_Dust, "v1alpha1"),`}},
		{"a method with a receiver is not a row", "type x int\nfunc (x) v1_Put() {}\n",
			[]string{`unary("Put", v1_Put, "v1beta1", "v1"),`, "func v1_Put("}},
	} {
		t.Run(c.about, func(t *testing.T) {
			out, err := edited(t, []edit{{shelfRows, before, c.hand + before}})
			if err != nil {
				t.Fatal(err)
			}
			wantTable(t, out, c.want...)
		})
	}
}

func wantTable(t *testing.T, out string, lines ...string) {
	t.Helper()
	var got []string
	for l := range strings.Lines(out) {
		got = append(got, strings.TrimSpace(l))
	}
	for _, want := range lines {
		if !slices.ContainsFunc(got, func(l string) bool { return l == want || strings.HasPrefix(l, want) }) {
			t.Errorf("the output lacks %s\n%s", want, out)
		}
	}
}
