package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	_ "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/api"
	shelfapi "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/api/shelf/v1beta1"
	shelfv1 "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/groups/shelf/v1"
	shelfv1beta1 "github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/testdata/golden/client/groups/shelf/v1beta1"
	"google.golang.org/grpc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const golden = "testdata/golden"

// TestGolden generates code from the small API in testdata. The golden files are
// linked into this test, so they must compile.
func TestGolden(t *testing.T) {
	set, err := apis.Load(filepath.Join(golden, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := clientFiles(t.Context(), set, ".")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := write(golden, want, os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	compare(t, golden, want, "go test ./csi-proxy-api-gen -update")
	again, err := clientFiles(t.Context(), set, ".")
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(want, again, bytes.Equal) {
		t.Error("a second run wrote something else")
	}
}

// compare compares generated files with those at root. command writes them.
func compare(t *testing.T, root string, want files, command string) {
	t.Helper()
	for name, content := range want {
		if have, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(have, content) {
			t.Errorf("%s is not up to date (%v): run %s", name, err, command)
		}
	}
}

// TestGoldenPackages checks the compiled golden files.
func TestGoldenPackages(t *testing.T) {
	if shelfv1.GroupName != "shelf" || shelfv1.Version.String() != "v1" {
		t.Errorf("shelf/v1: GroupName %q, Version %q", shelfv1.GroupName, shelfv1.Version)
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

func TestRepositoryIsUpToDate(t *testing.T) {
	want, err := generate(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "../..", want, "make generate")
}

// Only what is not up to date is written, and if something fails, nothing.
func TestRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	all := files{"a/b.go": []byte("new"), "c.go": []byte("new")}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "c.go"), all["c.go"], 0o444); err != nil {
		t.Fatal(err)
	}
	if err := write(root, all, &stdout); err != nil || stdout.String() != "a/b.go\n" {
		t.Errorf("write printed %q, %v, want a/b.go", stdout.String(), err)
	}
	compare(t, root, all, "")
	for code, args := range map[int][]string{0: {"-h"}, 1: {"-root", "internal"}, 2: {"-chekc"}} {
		stdout.Reset()
		if got := run(t.Context(), args, &stdout, &stderr); got != code || stdout.Len() > 0 {
			t.Errorf("run(%q) = %d, and printed %q, want %d", args, got, stdout.String(), code)
		}
	}
}
