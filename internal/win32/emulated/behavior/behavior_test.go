package behavior_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Every field of Windows is that of one option with at least two values, each with a source,
// and every public option is one of them.
func TestAll(t *testing.T) {
	var w behavior.Windows
	keys := map[string]bool{}
	for i, o := range behavior.All() {
		*o.Of(&w) = o.Key
		if o.Does == "" || len(o.Values) < 2 || keys[o.Key] {
			t.Errorf("option %d: %+v", i, o)
		}
		keys[o.Key] = true
		seen := map[string]bool{}
		for _, v := range o.Values {
			if v.Name == "" || v.Does == "" || v.Source == "" || seen[v.Name] {
				t.Errorf("%s: value %+v, want a name of its own, what it does and a source", o.Key, v)
			}
			seen[v.Name] = true
		}
	}
	for v, i := reflect.ValueOf(w), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; !strings.EqualFold(name, v.Field(i).String()) {
			t.Errorf("the option %q sets the field %s", v.Field(i), name)
		}
	}
	for typ, i := reflect.TypeFor[nodespec.Windows](), 0; i < typ.NumField(); i++ {
		if key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); !keys[key] {
			t.Errorf("the public option %s is none", key)
		}
	}
}

// A public option goes before the world, the world's own values before the world below it, and
// these before the strict ones.
func TestOf(t *testing.T) {
	of := func(c nodespec.Config) behavior.Windows {
		t.Helper()
		w, err := behavior.Of(c)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, o := range behavior.All() {
		last := o.Values[len(o.Values)-1].Name
		strict, kind := of(nodespec.Config{World: nodespec.WorldStrict}), of(nodespec.Config{World: nodespec.WorldKind})
		if *o.Of(&strict) != o.Values[0].Name || *o.Of(&kind) != last || of(nodespec.Config{}) != strict {
			t.Errorf("%s: strict %s, kind %s", o.Key, *o.Of(&strict), *o.Of(&kind))
		}
		var own behavior.Windows
		*o.Of(&own) = last
		*o.Of(&strict) = last
		if got := of(nodespec.Config{World: behavior.In("", own)}); got != strict {
			t.Errorf("%s %s: %+v, want %+v", o.Key, last, got, strict)
		}
		*o.Of(&own) = o.Values[0].Name
		*o.Of(&kind) = o.Values[0].Name
		if got := of(nodespec.Config{World: behavior.In(nodespec.WorldKind, own)}); got != kind {
			t.Errorf("kind, but %s %s: %+v, want %+v", o.Key, o.Values[0].Name, got, kind)
		}
		*o.Of(&own) = "?"
		if _, err := behavior.Of(nodespec.Config{World: behavior.In("", own)}); err == nil || !strings.Contains(err.Error(), o.Key+` "?", want `+o.Values[0].Name) {
			t.Errorf("%s: %v, want the name, the value and the values", o.Key, err)
		}
	}
	public := nodespec.Config{World: behavior.In("", behavior.Windows{Attach: nodespec.AttachSeen}), Windows: nodespec.Windows{Attach: nodespec.AttachPlugAndPlay}}
	if got := of(public); got.Attach != nodespec.AttachPlugAndPlay {
		t.Errorf("attach is %s, want the public value", got.Attach)
	}
	if _, err := behavior.Of(nodespec.Config{World: "nice"}); err == nil || err.Error() != `world "nice", want strict or kind` {
		t.Error(err)
	}
}
