package apidocs_test

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// Each version, service, method and message has a comment: it is the documentation.
func TestEveryDeclarationIsDocumented(t *testing.T) {
	set, err := apis.Load(filepath.Join("../../../..", "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range set.Files() {
		if f.Doc == "" {
			t.Errorf("%s: the package statement has no comment", f.Path)
		}
	}
	for _, v := range set.Versions() {
		documented := func(d protoreflect.Descriptor) {
			t.Helper()
			if apis.Comment(d) == "" {
				t.Errorf("%s: %s has no comment", v.Path, d.FullName())
			}
		}
		documented(v.Service)
		for i := range v.Service.Methods().Len() {
			documented(v.Service.Methods().Get(i))
		}
		for i := range v.Desc.Messages().Len() {
			documented(v.Desc.Messages().Get(i))
		}
	}
}
