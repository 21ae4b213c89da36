package docs

import (
	"fmt"
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

// answering are the directories of the code that makes the errors of requests: the services, their
// hosts, and what is between them and the pipe.
var answering = []string{
	"pkg/disk", "pkg/filesystem", "pkg/iscsi", "pkg/smb", "pkg/system", "pkg/volume",
	"internal/apiserver", "internal/policy", "internal/service", "internal/storage", "internal/winfs", "internal/wire",
}

// unseen are messages that no pipe returns, and why.
var unseen = map[string]string{
	"path: …, …":                                           "the second part is that of winpath.OwnDenied, which the page has",
	"this HostAPI has no method …":                         "for a driver in process with a HostAPI of its own",
	"the HostAPI returned no result":                       "the same",
	"smb service: the filesystem service is nil":           "for the author of a driver in process, at its first run",
	"… service: the HostAPI is nil":                        "the same",
	"…: the request is nil":                                "the same",
	"the service returned neither a response nor an error": "a defect of a service, which tests of the rows look for",
	"no pipes to serve":                                    "a defect of the program",
	"…; try again":                                         "adds this to a message that the page has",
	"rescan limit":                                         "replaced by the error of a slow rescan",
	"the tree is deeper":                                   "ends a step of a removal, which goes on",
	"the search was incomplete":                            "logged",
}

// constructed is a message in the code, with … for each verb.
type constructed struct{ at, text string }

// messagesOf returns the messages that a file makes: those of hosterr.Text and
// hosterr.TextWithHint, those of errors.New and fmt.Errorf that wrap no other error, and what
// methods Error return. A message that is only the text of another error has no letters, and is left out.
func messagesOf(name string, src []byte) ([]constructed, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []constructed
	add := func(n ast.Node, text string) {
		if text = verb.ReplaceAllString(text, "…"); letters.MatchString(text) {
			all = append(all, constructed{fmt.Sprintf("%s:%d", name, fset.Position(n.Pos()).Line), text})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Error" && len(f.Body.List) == 1 {
			if r, ok := f.Body.List[0].(*ast.ReturnStmt); ok {
				add(n, textOf(r.Results[0]))
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := s.X.(*ast.Ident)
		at, root := -1, false
		switch {
		case x == nil:
		case x.Name == "hosterr" && s.Sel.Name == "Text":
			at = 1
		case x.Name == "hosterr" && s.Sel.Name == "TextWithHint":
			at = 2
		case x.Name == "errors" && s.Sel.Name == "New", x.Name == "fmt" && s.Sel.Name == "Errorf":
			at, root = 0, true
		}
		if at < 0 || at >= len(call.Args) {
			return true
		}
		text := textOf(call.Args[at])
		if root && strings.Contains(text, "%w") {
			return true
		}
		add(n, text)
		return true
	})
	return all, nil
}

var (
	verb    = regexp.MustCompile(`%(\[\d+\])?[#+]?[a-z]`)
	letters = regexp.MustCompile(`\pL\pL`)
)

// textOf returns the text of an expression, with … for what is not a literal.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	}
	return "…"
}

// explains reports whether a documented message is in a message of the code: each of its pieces,
// in their order.
func explains(documented, message string) bool {
	for piece := range strings.SplitSeq(documented, "…") {
		_, after, ok := strings.Cut(message, strings.TrimSpace(piece))
		if !ok {
			return false
		}
		message = after
	}
	return true
}

// documentedMessages returns the messages in the tables of docs/run/troubleshooting.md.
func documentedMessages(t *testing.T) []string {
	t.Helper()
	all := pages(t)
	page := all[slices.IndexFunc(all, func(p page) bool { return p.name == "docs/run/troubleshooting.md" })]
	var documented []string
	for _, m := range messageRow.FindAllStringSubmatch(page.text, -1) {
		for _, span := range code.FindAllString(m[1], -1) {
			if span = strings.Trim(span, "`"); strings.Contains(span, " ") { // one word would explain too much
				documented = append(documented, span)
			}
		}
	}
	return documented
}

// docs/run/troubleshooting.md explains every error that a request can get, as far as it is not one
// that Windows returned.
func TestEveryErrorIsExplained(t *testing.T) {
	documented := documentedMessages(t)
	messages, hidden := 0, map[string]bool{}
	for _, dir := range answering {
		for name, src := range files(t, filepath.Join(root, dir), func(name string) bool {
			return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(filepath.Dir(name), "test")
		}) {
			found, err := messagesOf(name, src)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found {
				messages++
				if _, ok := unseen[m.text]; ok {
					hidden[m.text] = true
					continue
				}
				if !slices.ContainsFunc(documented, func(d string) bool { return explains(d, m.text) }) {
					t.Errorf("%s: docs/run/troubleshooting.md does not explain %q", m.at, m.text)
				}
			}
		}
	}
	for m := range unseen {
		if !hidden[m] {
			t.Errorf("unseen has %q, which nothing makes", m)
		}
	}
	if explains("held", "disk … holds …") {
		t.Error("a message counts as explained that is not")
	}
	if messages < 150 {
		t.Errorf("found %d messages: the search is broken", messages)
	}
}
