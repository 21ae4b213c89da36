package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// literals returns the string literals of the programs and libraries.
func literals(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"client", "cmd", "internal", "pkg"} {
		programs := func(name string) bool {
			return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".pb.go")
		}
		for name, text := range files(t, filepath.Join(root, dir), programs) {
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if s, err := strconv.Unquote(l.Value); err == nil {
						all = append(all, s)
					}
				}
				return true
			})
		}
	}
	return all
}

// returned reports whether a message is made of pieces that occur in the programs. In
// the message, … stands for any text.
func returned(message string, literals []string) bool {
	for piece := range strings.SplitSeq(message, "…") {
		piece = strings.TrimSpace(piece)
		if piece != "" && !slices.ContainsFunc(literals, func(l string) bool { return strings.Contains(l, piece) }) {
			return false
		}
	}
	return true
}

var messageRow = regexp.MustCompile("(?m)^\\| (?:hint )?((?:`[^`]+`(?:, )?)+)")

// Every message in the tables of docs/run/troubleshooting.md is one that the product
// returns.
func TestMessagesAreReturned(t *testing.T) {
	all := pages(t)
	page := all[slices.IndexFunc(all, func(p page) bool { return p.name == "docs/run/troubleshooting.md" })]
	have := literals(t)
	rows := 0
	for _, m := range messageRow.FindAllStringSubmatch(page.text, -1) {
		rows++
		for _, span := range code.FindAllString(m[1], -1) {
			if message := strings.Trim(span, "`"); !returned(message, have) {
				t.Errorf("%s: no program returns %q", page.name, message)
			}
		}
	}
	if rows < 40 {
		t.Errorf("found %d messages: the search is broken", rows)
	}
}
