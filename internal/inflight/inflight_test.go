package inflight_test

import (
	"context"
	"sync"
	"testing"
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

// A call whose work waits for another one is waiting.
func TestPhase(t *testing.T) {
	c := &inflight.Call{ID: 1, Started: time.Now()}
	c.Begin(t.Context(), func() {})
	defer c.Leave()
	check := func(want inflight.Phase) {
		t.Helper()
		if got := c.Phase(); got != want {
			t.Errorf("the phase is %s, want %s", got, want)
		}
	}
	check(inflight.Receiving)
	c.SetPhase(inflight.Queued, nil)
	check(inflight.Queued)
	c.SetPhase(inflight.Running, nil)
	c.SetWait(&inflight.Wait{What: "disk 1"})
	check(inflight.Waiting)
	c.SetWait(nil)
	check(inflight.Running)
}
