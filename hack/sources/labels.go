package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// A kind is who says that Windows answers so.
type kind struct{ word, name, means string }

// kinds are in the order of the page: what to ask a real Windows first comes first.
var kinds = [...]kind{
	{"inference", "inference", "a conclusion, or general knowledge that was not looked up"},
	{"program", "another program that runs on Windows", "its code, or what it was seen to rely on"},
	{"specification", "specification", "an open specification, such as [MS-FSA] or the SMBIOS specification"},
	{"document", "Microsoft's document", "a page of Microsoft, or a comment in a header of Windows"},
	{"code", "Microsoft's code", "public code of Microsoft, such as WSL and the driver samples"},
	{"Windows", "Windows printed it", "in a public log or issue, or in a test that runs on Windows"},
	{"node", "no answer of Windows", "a limit or a failure of the simulated node itself"},
}

// A label is a comment that names a source.
type label struct {
	pos   token.Position
	codes []string // what it is about; empty for all
	kind  string
	text  string
	used  bool
}

var labelLine = regexp.MustCompile(`^Source(?: of ([A-Z0-9_, ]+))?:(.*)$`)

// parseLabels returns the labels in a comment. A label ends before the next one, or at an
// empty line.
func parseLabels(fset *token.FileSet, g *ast.CommentGroup) (labels []*label, err error) {
	var open *label
	for _, c := range g.List {
		pos := fset.Position(c.Pos())
		text, isLine := strings.CutPrefix(c.Text, "//")
		if !isLine {
			continue
		}
		text = strings.TrimSpace(text)
		m := labelLine.FindStringSubmatch(text)
		switch {
		case m != nil:
			open = &label{pos: pos, text: strings.TrimSpace(m[2])}
			for code := range strings.SplitSeq(m[1], ",") {
				if code = strings.TrimSpace(code); code != "" {
					open.codes = append(open.codes, code)
				}
			}
			labels = append(labels, open)
		case text == "":
			open = nil
		case open != nil:
			open.text += " " + text
		}
	}
	for _, l := range labels {
		word, rest, _ := strings.Cut(l.text, ",")
		l.kind, l.text = strings.TrimSuffix(word, "."), strings.TrimSuffix(strings.TrimSpace(rest), ".")
		if !slices.ContainsFunc(kinds[:], func(k kind) bool { return k.word == l.kind }) {
			return nil, fmt.Errorf("%v: source %q, want one of %s", l.pos, l.kind, kindWords())
		}
		if l.text == "" {
			return nil, fmt.Errorf("%v: source %q, want where, or from what, after a comma", l.pos, l.kind)
		}
	}
	return labels, nil
}

func kindWords() string {
	var words []string
	for _, k := range kinds {
		words = append(words, k.word)
	}
	return strings.Join(words, ", ")
}

// labelsOf has the labels of a file, by where they stand.
type labelsOf struct {
	fset  *token.FileSet
	lines map[int][]*label // by the line that they are about
	all   []*label
}

func readLabels(fset *token.FileSet, file *ast.File) (*labelsOf, error) {
	ls := &labelsOf{fset: fset, lines: map[int][]*label{}}
	code := map[int]bool{} // lines with code
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.CommentGroup, *ast.Comment, *ast.File:
		default:
			code[fset.Position(n.Pos()).Line] = true
			code[fset.Position(n.End()).Line] = true
		}
		return true
	})
	for _, g := range file.Comments {
		labels, err := parseLabels(fset, g)
		if err != nil {
			return nil, err
		}
		line := fset.Position(g.Pos()).Line
		if !code[line] {
			line = fset.Position(g.End()).Line + 1
		}
		ls.lines[line] = append(ls.lines[line], labels...)
		ls.all = append(ls.all, labels...)
	}
	return ls, nil
}

// find returns the label of a code in the innermost of nodes that has one, from the last
// node to the first. code is empty for what a call returns when it succeeds.
func (ls *labelsOf) find(code string, nodes []ast.Node) *label {
	for _, n := range slices.Backward(nodes) {
		switch n.(type) {
		case ast.Stmt, *ast.FuncDecl, *ast.GenDecl, *ast.ValueSpec, *ast.Field:
		default:
			continue
		}
		if _, block := n.(*ast.BlockStmt); block {
			continue // it begins on the line of its statement
		}
		var all *label
		for _, l := range ls.lines[ls.fset.Position(n.Pos()).Line] {
			if slices.Contains(l.codes, code) {
				l.used = true
				return l
			}
			if len(l.codes) == 0 {
				all = l
			}
		}
		if all != nil {
			all.used = true
			return all
		}
	}
	return nil
}
