package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// begin begins a call.
func begin(ctx context.Context, free func()) (_ context.Context, end func()) {
	var c inflight.Call
	return c.Begin(ctx, free), func() { c.Leave() }
}

// waysToWork are the functions whose work may outlive its caller.
func waysToWork() map[string]func(context.Context, func()) error {
	n := node.New(nil)
	return map[string]func(context.Context, func()) error{
		"Await": func(ctx context.Context, work func()) error {
			_, err := node.Await(ctx, func() (int, error) { work(); return 0, nil })
			return err
		},
		"Join": func(ctx context.Context, work func()) error {
			return n.Join(ctx, "k", func() error { work(); return nil })
		},
	}
}

// A caller that gives up does not free the thread that hangs in Windows.
func TestCallIsInFlightWhileWorkOutlivesIt(t *testing.T) {
	for name, run := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var freed, finished atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ctx, end := begin(ctx, func() { freed.Add(1) })
				err := run(ctx, func() { time.Sleep(time.Minute); finished.Add(1) })
				if !errors.Is(err, context.DeadlineExceeded) || finished.Load() != 0 {
					t.Errorf("%v, want DeadlineExceeded; the work was done %d times before that", err, finished.Load())
				}
				end()
				if freed.Load() != 0 {
					t.Error("the call ended while the work was running")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if freed.Load() != 1 || finished.Load() != 1 {
					t.Errorf("the work was done %d times and the call ended %d times after it, want once each", finished.Load(), freed.Load())
				}
			})
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	for name, run := range waysToWork() {
		err := run(t.Context(), func() { panic("boom") })
		var p *node.PanicError
		if !errors.As(err, &p) || p.Value != "boom" || len(p.Stack) == 0 {
			t.Errorf("%s = %v, want a PanicError of boom with its stack", name, err)
		}
	}
}

// A caller that has its result leaves no work behind. The call would be logged as one that
// goes on without its caller.
func TestCallThatReturnsLeavesNothing(t *testing.T) {
	for name, run := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			left := 0
			for range 100_000 {
				var c inflight.Call
				ctx := c.Begin(t.Context(), func() {})
				if err := run(ctx, func() {}); err != nil {
					t.Fatal(err)
				}
				if c.Leave() {
					left++
				}
			}
			if left > 0 {
				t.Errorf("%d of 100,000 calls went on after they had returned", left)
			}
		})
	}
}

// ending ends at the first call of Done.
type ending struct {
	context.Context
	end context.CancelFunc
}

func (c ending) Done() <-chan struct{} { c.end(); return c.Context.Done() }

// Work that has not started to run when its caller gives up keeps the call in flight too.
func TestCallIsInFlightWhenCallerGivesUpAtOnce(t *testing.T) {
	for name, run := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var freed, done atomic.Bool
				ctx, end := begin(t.Context(), func() {
					if !done.Load() {
						t.Error("the call ended before the work was done")
					}
					freed.Store(true)
				})
				ctx, cancel := context.WithCancel(ctx)
				run(ending{ctx, cancel}, func() {
					time.Sleep(time.Minute)
					done.Store(true)
				})
				end()
				time.Sleep(2 * time.Minute)
				if !freed.Load() {
					t.Error("the call goes on after the work")
				}
			})
		})
	}
}

func TestCallEndsOnce(t *testing.T) {
	freed := 0
	ctx, end := begin(t.Context(), func() { freed++ })
	end()
	if _, err := node.Await(ctx, func() (int, error) { return 0, nil }); err != nil {
		t.Fatal(err)
	}
	if freed != 1 {
		t.Errorf("the call ended %d times, want once", freed)
	}
}

func TestWorkNotStartedForCanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := false
		_, await := node.Await(ctx, func() (int, error) { began = true; return 0, nil })
		join := node.New(nil).Join(ctx, "k", func() error { began = true; return nil })
		synctest.Wait()
		if await != context.Canceled || join != context.Canceled || began {
			t.Errorf("Await = %v, Join = %v, started: %t, want Canceled and nothing started", await, join, began)
		}
	})
}
