package apidocs_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apidocs"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

const root = "../../../.."

func published(t *testing.T) (*apis.Set, map[string][]byte) {
	t.Helper()
	set, err := apis.Load(filepath.Join(root, "client", "api"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := apidocs.Generate(set)
	if err != nil {
		t.Fatal(err)
	}
	return set, files
}

func TestPagesAreUpToDate(t *testing.T) {
	_, files := published(t)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date; run: make generate", name)
		}
	}
}

func TestPagesContainEveryDeclaration(t *testing.T) {
	set, files := published(t)
	for _, v := range set.Versions() {
		name := fmt.Sprintf("%s/%s_%s.md", apidocs.Dir, v.Group.Name, v.Name)
		page := string(files[name])
		expect := func(what, text string) {
			t.Helper()
			if !strings.Contains(page, text) {
				t.Errorf("%s: %s: lacks %q", name, what, text)
			}
		}
		expect("pipe", `\\.\pipe\`+v.PipeName())
		for i := range v.Service.Methods().Len() {
			m := v.Service.Methods().Get(i)
			expect("method", fmt.Sprintf("\n### %s\n\n`/%s/%s`\n\n", m.Name(), v.Service.FullName(), m.Name()))
			first, _, _ := strings.Cut(apis.Comment(m), " ")
			expect("comment", "\n\n"+first+" ")
		}
		for i := range v.Desc.Messages().Len() {
			m := v.Desc.Messages().Get(i)
			expect("message", string(m.Name()))
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				expect("field of "+string(m.Name()), fmt.Sprintf("| `%s` | %d | ", f.Name(), f.Number()))
			}
		}
		for i := range v.Desc.Enums().Len() {
			values := v.Desc.Enums().Get(i).Values()
			for j := range values.Len() {
				expect("enum", fmt.Sprintf("| `%s` | %d | ", values.Get(j).Name(), values.Get(j).Number()))
			}
		}
	}
}

func TestOverviewMarksExistingMethods(t *testing.T) {
	set, files := published(t)
	overview := string(files[apidocs.Dir+"/README.md"])
	marks := 0
	for _, v := range set.Versions() {
		for i := range v.Service.Methods().Len() {
			m := v.Service.Methods().Get(i)
			mark := fmt.Sprintf(" [x](%s_%s.md#%s) |", v.Group.Name, v.Name, strings.ToLower(string(m.Name())))
			if strings.Count(overview, mark) != 1 {
				t.Errorf("%s %s is marked %d times, want once", v, m.Name(), strings.Count(overview, mark))
			}
			marks++
		}
	}
	if n := strings.Count(overview, "[x]"); n != marks {
		t.Errorf("%d marks, want %d", n, marks)
	}
}

var (
	linkTo  = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	code    = regexp.MustCompile("`[^`]*`")
)

func TestLinksResolve(t *testing.T) {
	_, files := published(t)
	anchors := map[string]map[string]bool{}
	for name, text := range files {
		anchors[name] = map[string]bool{}
		for _, h := range heading.FindAllSubmatch(text, -1) {
			a := strings.ToLower(strings.ReplaceAll(string(h[1]), " ", "-"))
			if anchors[name][a] {
				t.Errorf("%s: two headings %q", name, h[1])
			}
			anchors[name][a] = true
		}
	}
	for name, text := range files {
		for _, l := range linkTo.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			to, anchor := name, strings.TrimPrefix(l[2], "#")
			if l[1] != "" {
				to = path.Join(path.Dir(name), l[1])
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: link %s: %v", name, l[0], err)
			}
			if anchor != "" && !anchors[to][anchor] {
				t.Errorf("%s: link %s: %s has no such heading", name, l[0], to)
			}
		}
	}
}

// Comments contain paths, placeholders and field names, which must not be interpreted
// as markup or break a table.
func TestCommentsAreEscaped(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/tiny\n")
	write("api/shelf/v1/api.proto", `syntax = "proto3";
// csi-proxy-api-gen:no-go-package

// Shelves at \\host\share (see <name>), "C:\*".
package v1;

// Shelf holds books.
service Shelf {
  // Put is not Take. Call Take first.
  rpc Put(PutRequest) returns (PutResponse);
  // Take takes [one] book.
  rpc Take(PutRequest) returns (PutResponse);
}

message PutRequest {
  // Either a|b or c.
  //
  // As in book_id.
  map<uint32, Kind> kinds = 1;
  repeated Book books = 2;
}

// Kind of a book.
enum Kind {
  // No kind.
  NONE = 0;
}

// Book in a shelf.
message Book {
  Author author = 1;
}

// Author of a book.
message Author {}

message PutResponse {}
`)
	set, err := apis.Load(filepath.Join(dir, "api"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := apidocs.Generate(set)
	if err != nil {
		t.Fatal(err)
	}
	page := string(files[apidocs.Dir+"/shelf_v1.md"])
	for _, want := range []string{
		"Shelves at `\\\\host\\share` (see `<name>`), \"`C:\\*`\".\n",
		"Put is not [Take](#take). Call [Take](#take) first.\n",
		"Take takes \\[one\\] book.\n",
		"| `kinds` | 1 | map of uint32 to [Kind](#kind) | Either `a\\|b` or c.<br>As in `book_id`. |\n",
		"| `books` | 2 | list of [Book](#book) |  |\n",
		"### Book\n\nBook in a shelf.\n\n| Field |",
		"### Author\n\nAuthor of a book.\n\nIt has no fields.\n",
		"### Kind\n\nKind of a book.\n\n| Value |",
		"| `NONE` | 0 | No kind. |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
