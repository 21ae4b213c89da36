package node_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
