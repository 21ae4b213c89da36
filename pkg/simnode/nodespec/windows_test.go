package nodespec_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Every field of Windows has an option, in the same order, with at least two values.
func TestOptions(t *testing.T) {
	options, typ := nodespec.Options(), reflect.TypeFor[nodespec.Windows]()
	if len(options) != typ.NumField() {
		t.Fatalf("%d options for %d fields of Windows", len(options), typ.NumField())
	}
	for i, o := range options {
		if key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); key != o.Key {
			t.Errorf("option %d is %q, want %q", i, o.Key, key)
		}
		if o.Does == "" || len(o.Values) < 2 {
			t.Errorf("option %s does %q, with %d values", o.Key, o.Does, len(o.Values))
		}
		seen := map[string]bool{}
		for _, v := range o.Values {
			if v.Name == "" || v.Does == "" || v.Source == "" || seen[v.Name] {
				t.Errorf("%s: value %+v, want a name of its own, what it does and a source", o.Key, v)
			}
			seen[v.Name] = true
		}
	}
}

// A world has a value for every option.
func TestWorlds(t *testing.T) {
	for _, w := range nodespec.Worlds() {
		for _, o := range nodespec.Options() {
			if w.Get(o.Key) == "" {
				t.Errorf("world %s has no value for %s", w.Name, o.Key)
			}
		}
		got, err := nodespec.Windows{}.In(w.Name)
		if err != nil || got != w.Windows {
			t.Errorf("In(%q) = %+v, %v, want %+v", w.Name, got, err, w.Windows)
		}
	}
}

// Options that are set stay; the world has the others. No world is the default world.
func TestIn(t *testing.T) {
	for _, o := range nodespec.Options() {
		last := o.Values[len(o.Values)-1].Name
		var set nodespec.Windows
		set.Set(o.Key, last)
		want := nodespec.Worlds()[0].Windows
		want.Set(o.Key, last)
		if got, err := set.In(""); err != nil || got != want {
			t.Errorf("%s %s: %+v, %v, want %+v", o.Key, last, got, err, want)
		}
		set.Set(o.Key, "?")
		if _, err := set.In(""); err == nil || !strings.Contains(err.Error(), o.Key+` "?", want `+o.Values[0].Name) {
			t.Errorf("%s: %v, want the name, the value and the values", o.Key, err)
		}
	}
	if _, err := (nodespec.Windows{}).In("nice"); err == nil || err.Error() != `world "nice", want strict or kind` {
		t.Error(err)
	}
}
