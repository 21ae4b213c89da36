package keymutex_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
)

// A call that waits says for what, and which calls hold it.
func TestHoldersAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keymutex.Set{Kind: "path"}
		var calls []*inflight.Call
		begin := func(id uint64) *inflight.Call {
			c := &inflight.Call{ID: id}
			calls = append(calls, c)
			return c
		}
		a, b, waiting := begin(1), begin(2), begin(3)
		unlockA, err := s.RLock(a.Begin(t.Context(), func() {}), "\x00C:\x00dir")
		if err != nil {
			t.Fatal(err)
		}
		unlockB, err := s.RLock(b.Begin(t.Context(), func() {}), "\x00C:\x00dir")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			unlock, err := s.LockPath(waiting.Begin(t.Context(), func() {}), []string{"C:", "dir"})
			if err != nil {
				t.Error(err)
				return
			}
			unlock()
			waiting.Leave()
		}()
		check := func(want ...*inflight.Call) {
			t.Helper()
			synctest.Wait()
			states := inflight.States(calls)
			got := states[len(states)-1]
			if got.Call != waiting || got.Waits != `path C:\dir` || len(got.Holders) != len(want) {
				t.Fatalf("the call waits for %q of %v, want %v", got.Waits, got.Holders, want)
			}
			for i := range want {
				if got.Holders[i] != want[i] {
					t.Errorf("holder %d is the call %d, want %d", i, got.Holders[i].ID, want[i].ID)
				}
			}
			for _, s := range states[:len(states)-1] {
				if s.Waits != "" {
					t.Errorf("the call %d waits for %q", s.ID, s.Waits)
				}
			}
		}
		check(a, b)
		unlockA()
		check(b)
		unlockB()
		synctest.Wait()
		if states := inflight.States(calls); len(states) != 2 || s.Len() != 0 {
			t.Errorf("%d calls and %d locks are left", len(states), s.Len())
		}
	})
}
