package script

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Both generations of generated structs have these tags. The older one also has
// fields without a JSON name.
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
		{"same", whole(""), ""},
		{"missing field", `{"text": "C:\a"}`, "is not expected"},
		{"extra field", whole(`, "more": 0`), `no "more"`},
		{"other text", strings.Replace(whole(""), `C:\a`, `C:\b`, 1), "text is"},
		{"other number", strings.Replace(whole(""), "7", "8", 1), "number is"},
		{"number as text", strings.Replace(whole(""), "7", `"7"`, 1), "number is"},
		{"number in the range", strings.Replace(whole(""), "7", `"7..9"`, 1), ""},
		{"number out of the range", strings.Replace(whole(""), "7", `"8..9"`, 1), "number is"},
		{"any number", strings.Replace(whole(""), "7", `"*"`, 1), ""},
		{"any number, but it is zero", strings.Replace(whole(""), `"kind": 0`, `"kind": "*"`, 1), "kind is"},
		{"list too short", strings.Replace(whole(""), `"x", "y"`, `"x"`, 1), "names is"},
		{"other order", strings.Replace(whole(""), `"x", "y"`, `"y", "x"`, 1), "names[0] is"},
		{"variable", strings.Replace(whole(""), `C:\a`, `$path`, 1), ""},
		{"variable with another value", strings.Replace(whole(""), `C:\a`, `$other`, 1), "text is"},
		{"text instead of a bool", strings.Replace(whole(""), "false", `"*"`, 1), "flag is"},
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

func TestMatchStoresVariables(t *testing.T) {
	vars := variables{}
	if err := match([]any{"a", "b"}, []any{"?x", "?y"}, vars, "it"); err != nil || vars["x"] != "a" || vars["y"] != "b" {
		t.Errorf("match = %v, variables %v", err, vars)
	}
	if err := match("", "?x", vars, "it"); err == nil {
		t.Error("match accepted an empty text for a variable")
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
