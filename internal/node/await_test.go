package node_test

import (
	"bytes"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

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
