package win32

import (
	"log/slog"
	"slices"
	"testing"
)

func TestCounts(t *testing.T) {
	counts := NewCounts()
	inner := &recorder{}
	api := Trace(inner, slog.New(slog.DiscardHandler), counts, nil)
	of := func(call string) Count {
		all := counts.All()
		i := slices.IndexFunc(all, func(c Count) bool { return c.Call == call })
		if i < 0 || len(all) != len(CallNames()) {
			t.Fatalf("%d counts, %s at %d, want one for each call", len(all), call, i)
		}
		return all[i]
	}
	_ = api.Reenumerate()
	inner.err = ERROR_ACCESS_DENIED
	_ = api.Reenumerate()
	if c := of("Reenumerate"); c.Calls != 2 || c.Errors != 1 || c.Running != 0 || c.Took < 0 {
		t.Errorf("after a call and a failure: %+v", c)
	}
	inner.err = nil
	_ = api.WithPrivilege("SeManageVolumePrivilege", func(api API) error {
		if c := of("WithPrivilege"); c.Running != 1 {
			t.Errorf("during the call: %+v", c)
		}
		return api.Reenumerate()
	})
	if c := of("Reenumerate"); c.Calls != 3 {
		t.Errorf("a call with a privilege is not counted: %+v", c)
	}
	func() {
		defer func() { _ = recover() }()
		_ = api.WithPrivilege("", func(API) error { panic("a driver") })
	}()
	if c := of("WithPrivilege"); c.Calls != 2 || c.Running != 0 {
		t.Errorf("after a panic: %+v", c)
	}
	if (*Counts)(nil).All() != nil {
		t.Error("no counts have calls")
	}
}

func BenchmarkCounts(b *testing.B) {
	for name, counts := range map[string]*Counts{"off": nil, "on": NewCounts()} {
		b.Run(name, func(b *testing.B) {
			api := Trace(nothing{}, slog.New(slog.DiscardHandler), counts, nil)
			b.ReportAllocs()
			for b.Loop() {
				_ = api.Reenumerate()
			}
		})
	}
}

// nothing is an API whose Reenumerate does nothing.
type nothing struct{ API }

func (nothing) Reenumerate() error { return nil }
