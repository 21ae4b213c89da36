package docs

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// citation is the name of a page, perhaps with a heading, in a comment of a Go
// file or in the text of a page.
type citation struct {
	line int
	text string // docs/develop/contract/disks.md#rescan
}

var (
	// A page in a comment, with any directory. Web addresses are matched too, so that
	// they can be left out.
	pageName = regexp.MustCompile(`(?:https?://)?[\w./-]*\w\.md\b(?:#[\w-]+)?`)
	// A page by its full name, in a string or a page.
	fullName = regexp.MustCompile(`(?:https?://)?[\w./-]*\bdocs/[\w./-]*\w\.md\b(?:#[\w-]+)?`)
)

// find returns the citations in a text that begins in a line.
func find(name *regexp.Regexp, line int, text string) []citation {
	var all []citation
	for _, at := range name.FindAllStringIndex(text, -1) {
		// An absolute path is one of another system, or follows a <placeholder>.
		if c := text[at[0]:at[1]]; !strings.Contains(c, "://") && !strings.HasPrefix(c, "/") {
			all = append(all, citation{line + strings.Count(text[:at[0]], "\n"), strings.TrimPrefix(c, "../")})
		}
	}
	return all
}

// cited returns the citations of a Go file: every page that a comment names,
// and those below docs in strings.
func cited(name string, text []byte) ([]citation, error) {
	files := token.NewFileSet()
	if _, err := parser.ParseFile(files, name, text, parser.PackageClauseOnly); err != nil {
		return nil, err
	}
	var all []citation
	var s scanner.Scanner
	file := files.AddFile(name, -1, len(text))
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		at, kind, lit := s.Scan()
		switch kind {
		case token.EOF:
			return all, nil
		case token.COMMENT:
			all = append(all, find(pageName, file.Line(at), lit)...)
		case token.STRING:
			all = append(all, find(fullName, file.Line(at), lit)...)
		}
	}
}

// resolve returns what is wrong with a citation in a file, or nil. A page is named
// from the root of the project or from the directory of the file.
func resolve(all map[string]page, file string, c citation) error {
	name, anchor, _ := strings.Cut(c.text, "#")
	for strings.HasPrefix(name, "../") {
		name = strings.TrimPrefix(name, "../") // paths in tests lead to the root
	}
	p, ok := all[name]
	if !ok {
		p, ok = all[path.Join(path.Dir(file), name)]
	}
	if !ok {
		return fmt.Errorf("%s:%d cites %s, which is not in the repository", file, c.line, c.text)
	}
	if anchor != "" && !anchors(p)[anchor] {
		return fmt.Errorf("%s:%d cites %s: %s has no heading #%s", file, c.line, c.text, p.name, anchor)
	}
	return nil
}

// Every page that a source file, script or another page cites is in the repository,
// with the heading that is cited.
func TestCitationsResolve(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.name] = p
	}
	found := map[string]int{}
	check := func(file string, list []citation) {
		for _, c := range list {
			found[path.Ext(file)]++
			if err := resolve(all, file, c); err != nil {
				t.Error(err)
			}
		}
	}
	sources := func(name string) bool {
		return slices.Contains([]string{".go", ".c", ".h", ".sh", ".yml", ".yaml", ".proto", ".tmpl", ""}, path.Ext(name))
	}
	for name, text := range files(t, root, sources) {
		list := find(fullName, 1, string(text))
		if path.Ext(name) == ".go" {
			var err error
			if list, err = cited(name, text); err != nil {
				t.Fatal(err)
			}
		}
		check(name, list)
	}
	for _, p := range all {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.name)))
		if err != nil {
			t.Fatal(err)
		}
		check(p.name, find(fullName, 1, link.ReplaceAllString(string(text), "]")))
	}
	if found[".go"] < 50 || found[".md"] < 1 {
		t.Errorf("found %d citations in Go files and %d in pages: the search is broken", found[".go"], found[".md"])
	}
}
