package configfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

func TestParse(t *testing.T) {
	const text = "\ufeff# of this node\r\n" + `
kubelet-path: D:\kubelet   # of the kubelet
working-dir:               # two
  - D:\volumes
  # a comment
  - 'E:\it''s # one'   # with a quote
pipe-sddl: 'D:P(A;;GA;;;SY)'
enable-api:
- disk
read-only-api: true
vmodule: ''`
	got, err := Parse("f", text)
	want := []Entry{
		{"kubelet-path", 3, false, []Value{{`D:\kubelet`, 3}}},
		{"working-dir", 4, true, []Value{{`D:\volumes`, 5}, {`E:\it's # one`, 7}}},
		{"pipe-sddl", 8, false, []Value{{"D:P(A;;GA;;;SY)", 8}}},
		{"enable-api", 9, true, []Value{{"disk", 10}}},
		{"read-only-api", 11, false, []Value{{"true", 11}}},
		{"vmodule", 12, false, []Value{{"", 12}}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := Parse("f", "\n# nothing\n"); err != nil || len(got) > 0 {
		t.Errorf("a file without keys: %v, %v, want none", got, err)
	}
}

func TestErrorsNameLineAndRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"v: 1\n\nv: 2":           "f:3: key v: duplicate of line 1: keep one of them",
		"v:":                     "f:1: key v: no value: write one after the colon, '' for an empty one, or the items of a list on the next lines",
		"v:\na: 1":               "f:1: key v: no value",
		"v: 1\n- a":              "f:2: an item of a list, but no list is open",
		"w:\n  - a\n - b":        "f:3: key w: 1 blanks before an item, and 2 before the first",
		"w:\n  -":                "f:2: key w: an item without a value",
		"w:\n  - a: b":           "f:2: key w: a colon before a blank",
		" v: 1":                  `f:1: unexpected "v: 1": a key begins without blanks`,
		"v:1":                    `f:1: unexpected "v:1": want a key, a colon, a blank, and a value`,
		"-v=1":                   `f:1: unexpected "-v=1": want a key`,
		"v = 1":                  "f:1: unexpected",
		`v: "C:\a"`:              "f:1: key v: double quotes are not supported, because a backslash",
		"v: 'a":                  "f:1: key v: the quote is not closed",
		"v: 'a'b":                `f:1: key v: unexpected "b" after the quote`,
		"v: 'a'#b":               "after the quote",
		"v: [a, b]":              `f:1: key v: a value that begins with "[" is not a plain text: put the value in single quotes`,
		"v: *a":                  `begins with "*"`,
		"v: \t1":                 "f:1: the character U+0009 is not allowed: use spaces",
		"v: \xff":                "f:1: not UTF-8",
		"\xff\xfev\x00:\x00":     "f:1: the file is UTF-16: save it as UTF-8",
		"v: 1\n---\nb: 2":        "f:2: unexpected",
		"kubelet path: C:\\\nv:": "f:1: unexpected",
	} {
		_, err := Parse("f", text)
		var parse *Error
		if !errors.As(err, &parse) || !strings.HasPrefix(err.Error(), "f:") || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of no file = %v", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "want a file") {
		t.Errorf("Read of a directory = %v", err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(large); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("Read of a large file = %v", err)
	}
}

func TestQuoteIsReadBack(t *testing.T) {
	for _, s := range []string{"", "a", `C:\a b`, "it's", "'", "a #b", "#", " a ", "a: b", "a:", "[", "-", "- a", "D:P(A;;GA;;;SY)"} {
		got, err := Parse("f", "k: "+Quote(s))
		if err != nil || got[0].Values[0].Text != s {
			t.Errorf("%q was read back from %s as %+v, %v", s, Quote(s), got, err)
		}
	}
}

// texts is a value, or a list of them, as YAML reads them.
type texts []string

func (v *texts) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		*v = texts{one}
		return nil
	}
	return unmarshal((*[]string)(v))
}

// What Parse accepts, YAML reads in the same way.
func FuzzParse(f *testing.F) {
	f.Add("a: b\nc:\n  - d # e\n  - 'f''g'\n")
	f.Add("\ufeffa: C:\\x\r\n\r\nb: ''\r\n")
	f.Add("a:\n- -1\n- ?x\nb: :c")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Parse("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("Parse(%q) = %v, without its place", text, err)
			}
			return
		}
		var read map[string]texts
		if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
			t.Fatalf("Parse accepts %q, YAML says %v", text, err)
		}
		if len(read) != len(entries) {
			t.Fatalf("Parse(%q) has %d keys, YAML has %d", text, len(entries), len(read))
		}
		for _, e := range entries {
			var want texts
			for _, v := range e.Values {
				want = append(want, v.Text)
			}
			got := read[e.Key]
			if slices.ContainsFunc(want, func(s string) bool { return slices.Contains([]string{"~", "null", "Null", "NULL"}, s) }) {
				continue // of no type in YAML; a text here, as the flag of that name has it
			}
			if !slices.Equal(got, want) {
				t.Errorf("Parse(%q): key %s is %q, YAML reads %q", text, e.Key, want, got)
			}
			for _, s := range want {
				if again, err := Parse("f", "k: "+Quote(s)); err != nil || again[0].Values[0].Text != s {
					t.Errorf("%q was read back from %s as %+v, %v", s, Quote(s), again, err)
				}
			}
		}
	})
}
