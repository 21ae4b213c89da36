package apidocs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apidocs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

const root = "../../../.."

func published(t *testing.T) (*apis.Set, string) {
	t.Helper()
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := apidocs.Generate(set)
	if err != nil {
		t.Fatal(err)
	}
	return set, string(files[apidocs.Page])
}

// Each version is a column with a link to its .proto file and a mark for each of its methods.
func TestOverviewMarksExistingMethods(t *testing.T) {
	set, page := published(t)
	marks := 0
	for _, g := range set.Groups {
		_, section, found := strings.Cut(page, "\n## "+g.Name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found {
			t.Errorf("the page has no section %s", g.Name)
		}
		rows := map[string][]string{}
		for line := range strings.Lines(section) {
			if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) > 2 {
				rows[strings.TrimSpace(cells[1])] = cells[2:]
			}
		}
		for column, v := range g.Versions {
			link := fmt.Sprintf("../../client/api/%s", v.Path)
			if _, err := os.Stat(filepath.Join(root, "docs", "drivers", filepath.FromSlash(link))); err != nil || !strings.Contains(rows[""][column], "["+v.Name+"]("+link+")") {
				t.Errorf("%s: the heading is %q, want a link to %s (%v)", v, rows[""][column], link, err)
			}
			for method, cells := range rows {
				has := v.Service.Methods().ByName(protoreflect.Name(method)) != nil
				if marked := strings.TrimSpace(cells[column]) == "x"; marked != has && method != "" && method != "---" {
					t.Errorf("%s %s is marked: %t, exists: %t", v, method, marked, has)
				} else if marked {
					marks++
				}
			}
		}
	}
	want := 0
	for _, v := range set.Versions() {
		want += v.Service.Methods().Len()
	}
	if marks != want {
		t.Errorf("%d marks, want %d", marks, want)
	}
}

// Each method and message has a comment: it is the documentation.
func TestEveryDeclarationIsDocumented(t *testing.T) {
	set, _ := published(t)
	for _, v := range set.Versions() {
		documented := func(d protoreflect.Descriptor) {
			t.Helper()
			if apis.Comment(d) == "" {
				t.Errorf("%s: %s has no comment", v.Path, d.FullName())
			}
		}
		for i := range v.Service.Methods().Len() {
			documented(v.Service.Methods().Get(i))
		}
		for i := range v.Desc.Messages().Len() {
			documented(v.Desc.Messages().Get(i))
		}
	}
}
