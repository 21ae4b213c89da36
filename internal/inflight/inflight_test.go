package inflight_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// A server lists a call before the call begins, so both may happen at once. The race
// detector is the judge.
func TestListWhileCallBegins(t *testing.T) {
	for range 100 {
		c := &inflight.Call{ID: 1, Started: time.Now()}
		var group sync.WaitGroup
		group.Go(func() {
			if n := len(inflight.States([]*inflight.Call{c})); n > 1 {
				t.Errorf("%d states of one call", n)
			}
		})
		freed := false
		ctx := c.Begin(context.Background(), func() { freed = true })
		group.Wait()
		if inflight.Of(ctx) != c {
			t.Fatal("the context does not have the call")
		}
		goesOn, left := c.Leave(), inflight.States([]*inflight.Call{c})
		if goesOn || !freed || len(left) > 0 {
			t.Fatalf("Leave = %t, freed %t, %d calls are left, want all work to be done", goesOn, freed, len(left))
		}
	}
}

// The time of a call is that of its phases, including work that outlives it.
func TestSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &inflight.Call{ID: 1, Started: time.Now(), Measured: true}
		c.Begin(t.Context(), func() {})
		check := func(want inflight.Phase) {
			t.Helper()
			if got := c.Phase(); got != want {
				t.Errorf("the phase is %s, want %s", got, want)
			}
		}
		time.Sleep(1 * time.Second)
		c.SetPhase(inflight.Queued, nil)
		time.Sleep(2 * time.Second)
		c.SetPhase(inflight.Running, nil)
		end, ended := make(chan struct{}), make(chan struct{})
		c.Go(func() error { <-end; return nil }, func() { close(ended) })
		time.Sleep(3 * time.Second)
		c.SetWait(&inflight.Wait{What: "disk 1"})
		check(inflight.Waiting)
		time.Sleep(4 * time.Second)
		c.SetWait(nil)
		check(inflight.Running)
		c.Leave()
		time.Sleep(5 * time.Second)
		close(end)
		<-ended
		want := inflight.Spent{Receiving: time.Second, Queued: 2 * time.Second, Waiting: 4 * time.Second, Running: 8 * time.Second}
		if got := c.Spent(); got != want {
			t.Errorf("spent %+v, want %+v", got, want)
		}
	})
}
