package nodespec_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Every field of every description has a JSON name or is excluded from JSON.
func TestFieldsHaveJSONNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(typ.Elem())
		case reflect.Struct:
			if seen[typ] || !strings.HasSuffix(typ.PkgPath(), "nodespec") || typ == reflect.TypeFor[nodespec.ISCSIPortal]() { // a string in JSON
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				f := typ.Field(i)
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "" && !f.Anonymous {
					t.Errorf("%s.%s has no name in JSON", typ.Name(), f.Name)
				}
				look(f.Type)
			}
		}
	}
	look(reflect.TypeFor[nodespec.Config]())
	look(reflect.TypeFor[nodespec.State]())
	if len(seen) < 25 {
		t.Errorf("checked %d types, want all types of the package", len(seen))
	}
}

func TestDecodeNamesUnknownFields(t *testing.T) {
	for text, want := range map[string]string{
		`{"disks": [{"sise": 1}]}`: `unknown field "sise"`,
		`{"iscsi": {"targets": [{"luns": [{"disk": {"bus": "sas", "x": 1}}]}]}}`: `unknown field "x"`,
		`{} {}`: "more text", ``: "empty", `{"rules": {}}`: `unknown field "rules"`,
	} {
		if c, err := nodespec.Decode[nodespec.Config]([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %+v, %v, want an error with %q", text, c, err, want)
		}
	}
	if f, err := nodespec.Decode[nodespec.Fault]([]byte(`{"call": "Format", "delay": 3}`)); err == nil || !strings.Contains(err.Error(), `unknown field "delay"`) {
		t.Errorf("%+v, %v, want the unknown field", f, err)
	}
}

// A fault is the same after JSON. Only its delay is rounded to milliseconds.
func TestFaultInJSON(t *testing.T) {
	f := nodespec.Fault{Call: "Format", Code: 1, CodeName: "one", Path: `C:\a`, Skip: 2, Error: "5", Times: 3, Delay: 1500 * time.Millisecond, Hits: 4}
	text, err := json.Marshal(f)
	if err != nil || !strings.Contains(string(text), `"delayMilliseconds":1500`) {
		t.Fatalf("%s, %v", text, err)
	}
	if again, err := nodespec.Decode[nodespec.Fault](text); err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("%+v, %v, want %+v", again, err, f)
	}
	for _, ms := range []string{"9223372036854775807", "-9223372036854775808"} {
		if f, err := nodespec.Decode[nodespec.Fault]([]byte(`{"call": "Format", "delayMilliseconds": ` + ms + `}`)); err == nil {
			t.Errorf("%s ms = %v, want an error", ms, f.Delay)
		}
	}
}

func TestPortals(t *testing.T) {
	for text, want := range map[string]nodespec.ISCSIPortal{
		`"10.0.0.1"`: {Address: "10.0.0.1"}, `"10.0.0.1:3261"`: {Address: "10.0.0.1", Port: 3261},
		`"fd00::1"`: {Address: "fd00::1"}, `"[fd00::1]"`: {Address: "fd00::1"}, `"[fd00::1]:3261"`: {Address: "fd00::1", Port: 3261},
	} {
		if p, err := nodespec.Decode[nodespec.ISCSIPortal]([]byte(text)); err != nil || p != want {
			t.Errorf("%s = %+v, %v, want %+v", text, p, err, want)
		}
	}
	for _, text := range []string{`"10.0.0.1:0"`, `"10.0.0.1:65536"`, `"10.0.0.1:x"`, `3260`, `{"address": "a"}`} {
		if p, err := nodespec.Decode[nodespec.ISCSIPortal]([]byte(text)); err == nil {
			t.Errorf("%s = %+v, want an error", text, p)
		}
	}
	if got := fmt.Sprint(nodespec.ISCSIPortal{Address: "fd00::1"}); got != "[fd00::1]:3260" {
		t.Errorf("printed as %s", got)
	}
}

// FuzzISCSIPortal: a parsed portal is the same after JSON.
func FuzzISCSIPortal(f *testing.F) {
	for _, s := range []string{"", "10.0.0.1", "10.0.0.1:3260", "[fd00::1]:1", "fd00::1", "[fd00::1]", "a:b", "]:1", "[[a]]:1", "host%zone:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := nodespec.ParseISCSIPortal(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(p.Address, "[]") || strings.ToValidUTF8(s, "") != s {
			return // an emulated node refuses brackets, and JSON strings are valid UTF-8
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := nodespec.Decode[nodespec.ISCSIPortal](text); err != nil || again != p {
			t.Errorf("ParseISCSIPortal(%q) = %+v, and after JSON %s %+v, %v", s, p, text, again, err)
		}
	})
}
