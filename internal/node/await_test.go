package node_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

func TestAwaitReturnsAtDeadlineWhileWorkContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished atomic.Bool
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n, err := node.Await(ctx, func() (int, error) {
			time.Sleep(time.Minute)
			finished.Store(true)
			return 7, nil
		})
		if n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await = %d, %v, want 0 and DeadlineExceeded", n, err)
		}
		if finished.Load() {
			t.Error("the work was over before its caller's deadline")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !finished.Load() {
			t.Error("the work stopped with its caller")
		}
	})
}

func TestAwaitReturnsPanicError(t *testing.T) {
	_, err := node.Await(t.Context(), func() (int, error) { panic("boom") })
	var p *node.PanicError
	if !errors.As(err, &p) || p.Value != "boom" {
		t.Errorf("Await = %v, want a PanicError of boom", err)
	}
}

// A panic may leave a thread in a state of its own, locked: with the privilege of another
// account, for example. The thread ends, and nothing else runs on it.
func TestNothingRunsOnTheGoroutineOfAPanic(t *testing.T) {
	var workers inflight.Workers
	defer workers.Close()
	c := &inflight.Call{Workers: &workers}
	ctx := c.Begin(t.Context(), func() {})
	defer c.Leave()
	stack := func() string { return string(debug.Stack()[:bytes.IndexByte(debug.Stack(), '[')]) }
	before, err := node.Await(ctx, func() (string, error) { return stack(), nil })
	if err != nil {
		t.Fatal(err)
	}
	var p *node.PanicError
	if _, err := node.Await(ctx, func() (string, error) {
		if s := stack(); s != before {
			t.Errorf("work after work ran as %q and %q, so this test shows nothing", before, s)
		}
		runtime.LockOSThread()
		panic("the thread keeps a privilege")
	}); !errors.As(err, &p) {
		t.Fatalf("Await = %v, want a PanicError", err)
	}
	after, err := node.Await(ctx, func() (string, error) { return stack(), nil })
	if err != nil || after == before {
		t.Errorf("after a panic work ran on the same goroutine, %q, %v", after, err)
	}
}
