// Package configfile reads configuration files: keys with a value or a list of values.
//
//	# a comment
//	kubelet-path: D:\kubelet
//	working-dir:
//	  - D:\volumes
//	  - 'E:\with # in it'
//
// The format is a small part of YAML: what Parse accepts, YAML reads in the same way. Values
// are text, which the caller interprets. A value in single quotes may have any printable
// character; a single quote in it is doubled. Escapes, nested values, anchors, and values of
// several lines are refused. The YAML library would make csi-proxy.exe larger by hundreds of
// kilobytes, which this package does by some 40, and does not refuse what is ambiguous.
package configfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSize is the largest file that is read, in bytes.
const maxSize = 1 << 20

// Entry is a key with its values.
type Entry struct {
	Key    string
	Line   int // counted from 1
	List   bool
	Values []Value // exactly one, unless List is set
}

// Value is a value.
type Value struct {
	Text string
	Line int
}

// Error is the first mistake in a file.
type Error struct {
	File string // may be empty
	Line int
	Key  string // empty if the line has none
	Text string // what is wrong, and what to do
}

func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Key == "" {
		return at + e.Text
	}
	return fmt.Sprintf("%skey %s: %s", at, e.Key, e.Text)
}

// Read reads a file. If its content is wrong, the error is an [*Error].
func Read(file string) ([]Entry, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSize {
		return nil, fmt.Errorf("%s: want a file of at most %d bytes", file, maxSize)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, string(text))
}

// Parse parses the content of a file, whose name is used in errors. An error is an [*Error].
func Parse(file, text string) ([]Entry, error) {
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return nil, &Error{file, 1, "", "the file is UTF-16: save it as UTF-8"}
	}
	p := parser{seen: map[string]int{}}
	line := 0
	for content := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line++
		content = strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
		if err := p.line(line, content); err != nil {
			err.File = file
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		err.File = file
		return nil, err
	}
	return p.entries, nil
}

// parser has the state between lines.
type parser struct {
	entries []Entry
	seen    map[string]int // the line of each key
	open    bool           // the last entry may get items
	indent  int            // of its items
}

func (p *parser) line(n int, s string) *Error {
	if !utf8.ValidString(s) {
		return &Error{Line: n, Text: "not UTF-8: save the file as UTF-8"}
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return &Error{Line: n, Text: fmt.Sprintf("the character %U is not allowed: use spaces and printable characters", r)}
		}
	}
	s = strings.TrimRight(s, " ")
	content := strings.TrimLeft(s, " ")
	indent := len(s) - len(content)
	switch {
	case content == "" || content[0] == '#':
		return nil
	case content == "-" || strings.HasPrefix(content, "- "):
		return p.item(n, indent, strings.TrimLeft(content[1:], " "))
	case indent > 0:
		return &Error{Line: n, Text: fmt.Sprintf("unexpected %q: a key begins without blanks before it, and an item of a list with a dash and a blank", content)}
	}
	if err := p.end(); err != nil {
		return err
	}
	key, rest, ok := strings.Cut(content, ":")
	if !ok || !isKey(key) || rest != "" && rest[0] != ' ' {
		return &Error{Line: n, Text: fmt.Sprintf("unexpected %q: want a key, a colon, a blank, and a value", content)}
	}
	if first := p.seen[key]; first > 0 {
		return &Error{Line: n, Key: key, Text: fmt.Sprintf("duplicate of line %d: keep one of them", first)}
	}
	p.seen[key] = n
	e := Entry{Key: key, Line: n}
	rest = strings.TrimLeft(rest, " ")
	if rest == "" || rest[0] == '#' {
		e.List, p.open, p.indent = true, true, -1
	} else {
		v, wrong := value(rest)
		if wrong != "" {
			return &Error{Line: n, Key: key, Text: wrong}
		}
		e.Values = []Value{{v, n}}
	}
	p.entries = append(p.entries, e)
	return nil
}

// item adds an item to the last entry.
func (p *parser) item(n, indent int, s string) *Error {
	if !p.open {
		return &Error{Line: n, Text: "an item of a list, but no list is open: the line before a list is its key and a colon, without a value"}
	}
	e := &p.entries[len(p.entries)-1]
	if p.indent < 0 {
		p.indent = indent
	}
	if indent != p.indent {
		return &Error{Line: n, Key: e.Key, Text: fmt.Sprintf("%d blanks before an item, and %d before the first: indent all alike", indent, p.indent)}
	}
	if s == "" || s[0] == '#' {
		return &Error{Line: n, Key: e.Key, Text: "an item without a value: write '' for an empty one"}
	}
	v, wrong := value(s)
	if wrong != "" {
		return &Error{Line: n, Key: e.Key, Text: wrong}
	}
	e.Values = append(e.Values, Value{v, n})
	return nil
}

// end ends the last entry.
func (p *parser) end() *Error {
	if p.open {
		if e := p.entries[len(p.entries)-1]; len(e.Values) == 0 {
			return &Error{Line: e.Line, Key: e.Key, Text: "no value: write one after the colon, '' for an empty one, or the items of a list on the next lines"}
		}
	}
	p.open = false
	return nil
}

func isKey(s string) bool {
	const longest = 64 // YAML has a limit, too
	if s == "" || len(s) > longest || strings.Contains("0123456789-_", s[:1]) {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// value parses a value and a comment after it. It returns what is wrong, if something is.
func value(s string) (text, wrong string) {
	if s[0] == '\'' {
		return quoted(s[1:])
	}
	const quote = "put the value in single quotes"
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimRight(s[:i], " ")
	}
	switch {
	case s[0] == '"':
		return "", "double quotes are not supported, because a backslash in them begins an escape: use single quotes"
	case strings.ContainsRune("[]{}&*!|>%@`,#", rune(s[0])), s == "-", s == "?", s == ":",
		strings.HasPrefix(s, "- "), strings.HasPrefix(s, "? "), strings.HasPrefix(s, ": "):
		return "", fmt.Sprintf("a value that begins with %q is not a plain text: %s", s[:1], quote)
	case strings.Contains(s, ": "), strings.HasSuffix(s, ":"):
		return "", "a colon before a blank or at the end is not a plain text: " + quote
	}
	return s, ""
}

// quoted parses what follows an opening quote.
func quoted(s string) (text, wrong string) {
	var b strings.Builder
	for {
		part, rest, ok := strings.Cut(s, "'")
		if !ok {
			return "", "the quote is not closed: write a single quote in the value twice"
		}
		b.WriteString(part)
		if strings.HasPrefix(rest, "'") {
			b.WriteByte('\'')
			s = rest[1:]
			continue
		}
		if after := strings.TrimLeft(rest, " "); after != "" && (after[0] != '#' || after == rest) {
			return "", fmt.Sprintf("unexpected %q after the quote: write a single quote in the value twice", after)
		}
		return b.String(), ""
	}
}

// Quote returns a value as a file can have it, in quotes if it needs them.
func Quote(s string) string {
	if s != "" && s == strings.TrimSpace(s) && !strings.Contains(s, " #") && s[0] != '\'' {
		if _, wrong := value(s); wrong == "" {
			return s
		}
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
