package script

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a line before the first section", "Rescan\n", "before the first section"},
		{"a section without a title", "=== disk/v1\n", "a title"},
		{"two sections of one title", "=== disk/v1: a\nRescan\n  {}\n=== disk/v2: a\n", "a title of its own"},
		{"a call without an answer", "=== disk/v1: a\nRescan\nRescan\n  {}\n", "has no answer"},
		{"a call without an answer at the end", "=== disk/v1: a\nRescan\n", "ends before an answer"},
		{"an empty section", "=== disk/v1: a\n", "ends before an answer"},
		{"two answers", "=== disk/v1: a\nRescan\n  {}\n  {}\n", "without a call"},
		{"an answer to a command", "=== disk/v1: a\n$ node show\n  {}\n", "without a call"},
		{"a request that is no JSON", "=== disk/v1: a\nRescan {x}\n  {}\n", "request"},
		{"an answer that is no JSON", "=== disk/v1: a\nRescan\n  OK\n", "answer"},
		{"two values", "=== disk/v1: a\nRescan {} {}\n  {}\n", "more than one"},
		{"an error without a text", "=== disk/v1: a\nRescan\n  ! NotFound\n", "CODE TEXT"},
	} {
		if _, err := parse("calls.txt", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

func TestSectionsAreOfKnownForm(t *testing.T) {
	sections, err := Sections()
	if err != nil || len(sections) == 0 {
		t.Fatalf("%d sections, %v", len(sections), err)
	}
	for _, s := range sections {
		for _, api := range s.APIs {
			group, _, _ := strings.Cut(api, "/")
			if s.File != "calls/"+group+".txt" {
				t.Errorf("%s: section %q is for %s", s.File, s.Title, api)
			}
			if len(s.Calls(api)) == 0 {
				t.Errorf("%s: section %q calls nothing", s.File, s.Title)
			}
		}
	}
}

// Both generations of generated structs have these tags; the older one adds
// fields without a name.
type message struct {
	state  int
	Text   string            `json:"text,omitempty"`
	Number int64             `json:"number,omitempty"`
	Flag   bool              `json:"flag,omitempty"`
	Names  []string          `json:"names,omitempty"`
	Map    map[uint32]*inner `json:"map,omitempty"`
	Inner  *inner            `json:"inner,omitempty"`
	Kind   kind              `json:"kind,omitempty"`
	XXX    []byte            `json:"-"`
}

type inner struct {
	A string `json:"a,omitempty"`
}

type kind int32

func (kind) String() string { return "KIND" }

func TestTreeHasEveryField(t *testing.T) {
	got := tree(reflect.ValueOf(&message{state: 1, Map: map[uint32]*inner{7: {}}, Kind: 2, XXX: []byte("x")}))
	want := map[string]any{
		"text": "", "number": json.Number("0"), "flag": false, "names": []any{}, "inner": nil, "kind": json.Number("2"),
		"map": map[string]any{"7": map[string]any{"a": ""}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tree = %s, want %s", show(got), show(want))
	}
}

func TestMatch(t *testing.T) {
	got := tree(reflect.ValueOf(&message{Text: `C:\a`, Number: 7, Names: []string{"x", "y"}}))
	whole := func(text string) string {
		return `{"flag": false, "inner": null, "kind": 0, "map": {}, "names": ["x", "y"], "number": 7, "text": "C:\a"` + text + `}`
	}
	for _, c := range []struct {
		name, want, err string
	}{
		{"the same", whole(""), ""},
		{"a field too few", `{"text": "C:\a"}`, "is not expected"},
		{"a field too many", whole(`, "more": 0`), `no "more"`},
		{"another text", strings.Replace(whole(""), `C:\a`, `C:\b`, 1), "text is"},
		{"another number", strings.Replace(whole(""), "7", "8", 1), "number is"},
		{"a number as text", strings.Replace(whole(""), "7", `"7"`, 1), "number is"},
		{"a number in its range", strings.Replace(whole(""), "7", `"7..9"`, 1), ""},
		{"a number out of its range", strings.Replace(whole(""), "7", `"8..9"`, 1), "number is"},
		{"any number", strings.Replace(whole(""), "7", `"*"`, 1), ""},
		{"any number, and it is zero", strings.Replace(whole(""), `"kind": 0`, `"kind": "*"`, 1), "kind is"},
		{"a list too short", strings.Replace(whole(""), `"x", "y"`, `"x"`, 1), "names is"},
		{"another order", strings.Replace(whole(""), `"x", "y"`, `"y", "x"`, 1), "names[0] is"},
		{"a variable", strings.Replace(whole(""), `C:\a`, `$path`, 1), ""},
		{"a variable of another value", strings.Replace(whole(""), `C:\a`, `$other`, 1), "text is"},
		{"a text where there is none", strings.Replace(whole(""), "false", `"*"`, 1), "flag is"},
	} {
		want, err := decode(c.want)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		err = match(got, want, variables{"path": `C:\a`, "other": `C:\b`}, "it")
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

func TestMatchTakesValues(t *testing.T) {
	vars := variables{}
	if err := match([]any{"a", "b"}, []any{"?x", "?y"}, vars, "it"); err != nil || vars["x"] != "a" || vars["y"] != "b" {
		t.Errorf("match = %v, variables %v", err, vars)
	}
	if err := match("", "?x", vars, "it"); err == nil {
		t.Error("an empty text was taken")
	}
	if got := (variables{"v": "1", "volume": "2"}).expand("$volume $v"); got != "2 1" {
		t.Errorf("expanded to %q", got)
	}
}

func TestMatchError(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"volume id empty", "volume id empty", true},
		{"volume id empty.", "volume id empty", false},
		{"a: b: not found", "a: …not found", true},
		{"a: b: not found", "…not found", true},
		{"a: b: not found", "…b…", true},
		{"a: b: not found", "…c…", false},
		{"b: not found", "a: …not found", false},
		{"not found here", "…not found", false},
		{"ends in a blank: ", "ends in a blank:", true},
	} {
		if got := matchError(c.got, c.want); got != c.same {
			t.Errorf("matchError(%q, %q) = %t", c.got, c.want, got)
		}
	}
}
