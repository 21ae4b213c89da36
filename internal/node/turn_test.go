package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// waysToWork are the ways in which work may outlive its caller.
func waysToWork() map[string]func(context.Context, func()) error {
	n := node.New(nil)
	return map[string]func(context.Context, func()) error{
		"Await": func(ctx context.Context, work func()) error {
			_, err := node.Await(ctx, func() (int, error) { work(); return 0, nil })
			return err
		},
		"Do": func(ctx context.Context, work func()) error {
			return n.Do(ctx, "k", func() error { work(); return nil })
		},
	}
}

// A caller that gives up does not free the thread that hangs in Windows.
func TestTurnLastsAsLongAsWorkThatOutlivesTheCall(t *testing.T) {
	for name, run := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ctx, end := node.WithTurn(ctx, func() { over.Add(1) })
				if err := run(ctx, func() { time.Sleep(time.Minute) }); err == nil {
					t.Fatal("the work ended within a second")
				}
				end()
				if over.Load() != 0 {
					t.Error("the turn was over while the work went on")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if n := over.Load(); n != 1 {
					t.Errorf("after the work the turn was over %d times, want once", n)
				}
			})
		})
	}
}

// ending ends when it is first asked for its channel.
type ending struct {
	context.Context
	end context.CancelFunc
}

func (c ending) Done() <-chan struct{} { c.end(); return c.Context.Done() }

// Work that has not begun to run when its caller gives up is part of the turn too.
func TestTurnLastsForWorkWhoseCallerGivesUpAtOnce(t *testing.T) {
	for name, run := range waysToWork() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var over, done atomic.Bool
				ctx, end := node.WithTurn(t.Context(), func() {
					if !done.Load() {
						t.Error("the turn was over before the work")
					}
					over.Store(true)
				})
				ctx, cancel := context.WithCancel(ctx)
				run(ending{ctx, cancel}, func() {
					time.Sleep(time.Minute)
					done.Store(true)
				})
				end()
				time.Sleep(2 * time.Minute)
				if !over.Load() {
					t.Error("the turn is not over after the work")
				}
			})
		})
	}
}

func TestTurnIsOverOnce(t *testing.T) {
	over := 0
	ctx, end := node.WithTurn(t.Context(), func() { over++ })
	end()
	if _, err := node.Await(ctx, func() (int, error) { return 0, nil }); err != nil {
		t.Fatal(err)
	}
	if over != 1 {
		t.Errorf("the turn was over %d times, want once", over)
	}
}

func TestNothingIsBegunForACallerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := false
		_, await := node.Await(ctx, func() (int, error) { began = true; return 0, nil })
		do := node.New(nil).Do(ctx, "k", func() error { began = true; return nil })
		synctest.Wait()
		if await != context.Canceled || do != context.Canceled || began {
			t.Errorf("Await = %v, Do = %v, begun: %t, want Canceled and nothing begun", await, do, began)
		}
	})
}
