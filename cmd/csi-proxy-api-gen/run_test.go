package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/gogen"
	_ "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/api"
	shelfapi "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/api/shelf/v1beta1"
	indexv1alpha1 "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/groups/card_index/v1alpha1"
	shelfv1 "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/groups/shelf/v1"
	shelfv1beta1 "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/groups/shelf/v1beta1"
	"google.golang.org/grpc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/golden"

var goldenSecrets = []gogen.Secret{
	{Group: "shelf", Versions: []string{"v1"}, Message: "TakeBookRequest", Field: "lock_secret"},
	{Group: "shelf", Versions: []string{"v1"}, Message: "TakeBookRequest", Field: "readerPassword"},
}

// TestGolden generates code from the small API in testdata. The golden files are
// linked into this test, so they must compile.
func TestGolden(t *testing.T) {
	set, err := apis.Load(filepath.Join(golden, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(set, clientGenerators(t.Context(), ".", goldenSecrets))
	if err != nil {
		t.Fatal(err)
	}
	diff, err := compare(golden, want)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := apply(golden, want, diff); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, d := range diff {
		t.Errorf("%s: %s; if that is intended, run: go test ./csi-proxy-api-gen -update", d.name, d.problem)
	}
	again, err := generate(set, clientGenerators(t.Context(), ".", goldenSecrets))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(want, again, bytes.Equal) {
		t.Error("a second run wrote something else")
	}
}

// TestGoldenPackages checks the compiled golden files.
func TestGoldenPackages(t *testing.T) {
	if shelfv1.GroupName != "shelf" || shelfv1.Version.String() != "v1" {
		t.Errorf("shelf/v1: GroupName %q, Version %q", shelfv1.GroupName, shelfv1.Version)
	}
	if indexv1alpha1.GroupName != "card_index" || indexv1alpha1.Version.String() != "v1alpha1" {
		t.Errorf("card_index/v1alpha1: GroupName %q, Version %q", indexv1alpha1.GroupName, indexv1alpha1.Version)
	}
	if got := methods(reflect.TypeFor[*shelfv1.Client]()); !slices.Equal(got, []string{"Close", "Put", "Take"}) {
		t.Errorf("methods of shelf/v1: %q", got)
	}
	if got := methods(reflect.TypeFor[*shelfv1beta1.Client]()); !slices.Equal(got, []string{"Close", "List"}) {
		t.Errorf("methods of shelf/v1beta1: %q", got)
	}
	if got := reflect.TypeOf(shelfapi.NewShelfClient).In(0); got != reflect.TypeFor[*grpc.ClientConn]() {
		t.Errorf("NewShelfClient of shelf/v1beta1 takes a %s", got)
	}
	file := shelfapi.Kind_ATLAS.Descriptor().ParentFile()
	if got, want := file.Path(), "odd/api.proto"; got != want {
		t.Errorf("shelf/v1beta1 is registered as %q, want %q", got, want)
	}
	if opts := file.Options(); !reflect.ValueOf(opts).IsNil() {
		t.Errorf("shelf/v1beta1 has options {%v}, want none", opts)
	}
}

func methods(t reflect.Type) []string {
	var names []string
	for i := range t.NumMethod() {
		names = append(names, t.Method(i).Name)
	}
	return names
}

func runIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestRepositoryIsUpToDate is the same check as in `make check`.
func TestRepositoryIsUpToDate(t *testing.T) {
	if code, stdout, stderr := runIn(t, "-check", "-root", "../.."); code != 0 || stdout != "" || stderr != "" {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"help":           {[]string{"-h"}, 0, "usage: go run ./csi-proxy-api-gen"},
		"unknown flag":   {[]string{"-chekc"}, 2, "flag provided but not defined: -chekc"},
		"argument":       {[]string{"-check", "disk"}, 2, `unexpected argument "disk"`},
		"root without":   {[]string{"-root"}, 2, "flag needs an argument"},
		"no such root":   {[]string{"-root", "no/such/directory"}, 1, "no/such/directory"},
		"no API at root": {[]string{"-root", "internal"}, 1, "no such file or directory"},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			code, stdout, stderr := runIn(t, tt.args...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("run(%q) = %d, stdout %q, stderr %q; want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
}

// TestCheckListsFiles runs the command on a copy of the repository's API in which
// three files are not up to date.
func TestCheckListsFiles(t *testing.T) {
	root := copyOfRepository(t)
	write(t, root, "client/groups/disk/v1/client_generated.go", "// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n\npackage v1\n")
	write(t, root, "client/groups/disk/v9/client_generated.go", "// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n\npackage v9\n")
	write(t, root, "client/groups/disk/v9/by_hand.go", "package v9\n")
	write(t, root, "elsewhere/testdata/x.go", "// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n\npackage x\n")
	write(t, root, "elsewhere/other.pb.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\n\npackage elsewhere\n")
	if err := os.Remove(filepath.Join(root, "client/api/smb/v1/doc.go")); err != nil {
		t.Fatal(err)
	}

	before := tree(t, root)
	code, stdout, stderr := runIn(t, "-check", "-root", root)
	wantOut := "client/api/smb/v1/doc.go: missing\n" +
		"client/groups/disk/v1/client_generated.go: differs\n" +
		"client/groups/disk/v9/client_generated.go: no longer generated\n"
	if code != 1 || stdout != wantOut || !strings.Contains(stderr, "make generate") {
		t.Errorf("-check: exit %d, stdout %q, stderr %q; want 1 and %q", code, stdout, stderr, wantOut)
	}
	if after := tree(t, root); !maps.Equal(before, after) {
		t.Error("-check changed the tree")
	}

	code, stdout, stderr = runIn(t, "-root", root)
	for _, line := range []string{
		"client/api/smb/v1/doc.go: created\n",
		"client/groups/disk/v1/client_generated.go: updated\n",
		"client/groups/disk/v9/client_generated.go: removed\n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("stdout %q does not contain %q", stdout, line)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	for _, kept := range []string{"client/groups/disk/v9/by_hand.go", "elsewhere/testdata/x.go", "elsewhere/other.pb.go"} {
		if _, err := os.Stat(filepath.Join(root, kept)); err != nil {
			t.Errorf("a hand-written file is missing: %v", err)
		}
	}
	if code, stdout, stderr := runIn(t, "-check", "-root", root); code != 0 {
		t.Errorf("-check after writing: exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// An error in one proto file leaves all generated files unchanged.
func TestErrorChangesNoFile(t *testing.T) {
	root := copyOfRepository(t)
	name := "client/api/volume/v1/api.proto"
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, name, strings.Replace(string(text), "returns (MountVolumeResponse)", "returns (stream MountVolumeResponse)", 1))
	write(t, root, "client/groups/disk/v1/client_generated.go", "// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n\npackage v1\n")

	before := tree(t, root)
	code, stdout, stderr := runIn(t, "-root", root)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "v1.Volume.MountVolume: is a stream") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if after := tree(t, root); !maps.Equal(before, after) {
		t.Error("the tree changed")
	}
}

// copyOfRepository copies what the generators read and write.
func copyOfRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	from := os.DirFS("../..")
	for _, dir := range []string{"client", "cmd", "pkg", "internal/wire", "docs/drivers/api.md"} {
		err := fs.WalkDir(from, dir, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name == dir {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(from, name)
			if err == nil {
				write(t, root, name, string(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, name, string(text))
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree returns all files below root, with their content.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGenerateRefuses has generators that return invalid files.
func TestGenerateRefuses(t *testing.T) {
	const mark = "// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n"
	makes := func(name, content string) generator {
		return generator{"maker of " + name, func(*apis.Set) (map[string][]byte, error) {
			return map[string][]byte{name: []byte(content)}, nil
		}}
	}
	fails := generator{"failing", func(*apis.Set) (map[string][]byte, error) {
		return map[string][]byte{"half.go": []byte(mark)}, errors.New("cannot go on")
	}}
	tests := map[string]struct {
		gens []generator
		want string
	}{
		"one fails":         {[]generator{makes("a.go", mark), fails}, "failing: cannot go on"},
		"two for one file":  {[]generator{makes("a.go", mark), makes("a.go", mark)}, "a.go is written by two generators"},
		"outside the root":  {[]generator{makes("../a.go", mark)}, `file name "../a.go": want a path relative to the root`},
		"absolute":          {[]generator{makes("/a.go", mark)}, `file name "/a.go": want a path relative to the root`},
		"no mark":           {[]generator{makes("a.go", "package a\n")}, `does not start with a "Code generated" comment`},
		"mark in line two":  {[]generator{makes("a.go", "\n"+mark)}, `does not start with a "Code generated" comment`},
		"other generator":   {[]generator{makes("a.go", "// Code generated by stringer. DO NOT EDIT.\n")}, `does not start with a "Code generated" comment`},
		"plugin, elsewhere": {[]generator{makes("pkg/a.pb.go", "// Code generated by protoc-gen-go. DO NOT EDIT.\n")}, `does not start with a "Code generated" comment`},
		"unknown file type": {[]generator{makes("a.txt", mark)}, `does not start with a "Code generated" comment`},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			files, err := generate(&apis.Set{}, tt.gens)
			if err == nil || !strings.Contains(err.Error(), tt.want) || files != nil {
				t.Errorf("generate() = %d files, %v, want %q", len(files), err, tt.want)
			}
		})
	}
}
