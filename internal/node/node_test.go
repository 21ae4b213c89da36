package node_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

func TestJoinWaitsForRunningWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node.New(nil)
		runs := 0
		work := func() error {
			runs++
			time.Sleep(10 * time.Second)
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Join(ctx, "format v", work); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("first call = %v, want DeadlineExceeded", err)
		}
		if err := n.Join(t.Context(), "format v", work); err != nil {
			t.Fatalf("retry = %v, want nil", err)
		}
		if runs != 1 {
			t.Errorf("work ran %d times, want once", runs)
		}
	})
}

func TestNativeOffWindowsNamesAlternative(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("here the native node opens: run it on Linux")
	}
	if _, err := node.Native(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Native() = %v, want errors.ErrUnsupported", err)
	}
}
