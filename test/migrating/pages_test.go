package migrating

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "update the Go blocks of docs/drivers/migrating, tutorial.md and windows-side.md")

const root = "../.."

// written are pages whose blocks are parts of functions, so they are in no file.
var written = []string{"pkg-utils.md"}

// block matches a Go block with the comment before it, as described in the package comment. A file
// name after its fence is one of test/docs.
var block = regexp.MustCompile("(?ms)^(?:<!-- (\\S+\\.go): ([^\n]*) -->\n\n?)?```go( \\S+)?\n(.*?)^```$")

// The Go blocks of the pages are those of the files that they name.
func TestPagesShowFiles(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "drivers", "migrating", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"tutorial.md", "windows-side.md"} {
		pages = append(pages, filepath.Join(root, "docs", "drivers", page))
	}
	shown := 0
	for _, page := range pages {
		if slices.Contains(written, filepath.Base(page)) {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("```go")); n != len(block.FindAll(text, -1)) {
			t.Errorf("%s has %d blocks of Go, but only %d of them are closed", page, n, len(block.FindAll(text, -1)))
		}
		changed := block.ReplaceAllStringFunc(string(text), func(b string) string {
			m := block.FindStringSubmatch(b)
			if m[1] == "" {
				t.Errorf("%s: no comment names the file of a block of Go:\n%s", page, m[4])
				return b
			}
			want, err := declarations(m[1], strings.Split(m[2], ", "))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				return b
			}
			shown++
			if m[4] != want && !*write {
				t.Errorf("%s: the block of %s: %s differs from the file; run go test ./migrating -write in the module test", page, m[1], m[2])
			}
			return fmt.Sprintf("<!-- %s: %s -->\n\n```go%s\n%s```", m[1], m[2], m[3], want)
		})
		if *write && changed != string(text) {
			if err := os.WriteFile(page, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if shown < 8 {
		t.Errorf("found %d blocks of Go in %d pages, want at least 8", shown, len(pages))
	}
}

// declarations returns the text of the named declarations of a file: functions,
// types, Type.Method, and "imports".
func declarations(file string, names []string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return "", err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	byName := map[string]string{}
	for _, d := range f.Decls {
		name, doc := nameOf(d)
		from := d.Pos()
		if doc != nil {
			from = doc.Pos()
		}
		byName[name] = string(text[set.Position(from).Offset:set.Position(d.End()).Offset]) + "\n"
	}
	var parts []string
	for _, n := range names {
		part, ok := byName[n]
		if !ok {
			return "", fmt.Errorf("%s has no declaration of %s", file, n)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n"), nil
}

func nameOf(d ast.Decl) (name string, doc *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name = d.Name.Name
		if d.Recv != nil {
			recv := d.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if id, ok := recv.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		return name, d.Doc
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return "imports", d.Doc
		}
		if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return s.Name.Name, d.Doc
		}
	}
	return "", nil
}
