package keymutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/keymutex"
)

func lock(t *testing.T, s *keymutex.Set, key string) func() {
	t.Helper()
	u, err := s.Lock(t.Context(), key)
	if err != nil {
		t.Fatalf("Lock(%q): %v", key, err)
	}
	return u
}

func TestSameKeyTakesTurnsOthersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		unlock := lock(t, &s, "1")
		lock(t, &s, "2")() // another key is free at once

		got := false
		go func() {
			u := lock(t, &s, "1")
			got = true
			u()
		}()
		synctest.Wait()
		if got {
			t.Fatal("second holder of a key entered beside the first")
		}
		unlock()
		synctest.Wait()
		if !got {
			t.Fatal("waiter did not get the freed key")
		}
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys are left, want 0", n)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		unlock := lock(t, &s, "1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, "1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock behind a holder = %v, want DeadlineExceeded", err)
		}
		unlock()
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys are left, want 0", n)
		}
	})
}

func TestSharedHoldersExcludeAnExclusiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		a, err := s.RLock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.RLock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		got := false
		go func() { lock(t, &s, "k")(); got = true }()
		a()
		synctest.Wait()
		if got {
			t.Fatal("exclusive holder entered beside a shared one")
		}
		b()
		synctest.Wait()
		if !got {
			t.Fatal("exclusive waiter did not get the freed key")
		}
	})
}

func TestPathsShareAncestors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		one, err := s.LockPath(t.Context(), []string{"C:", "pods", "a"})
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.LockPath(t.Context(), []string{"C:", "pods", "b"}) // a sibling is free
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.LockPath(ctx, []string{"C:", "pods"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("LockPath of an ancestor in use = %v, want DeadlineExceeded", err)
		}
		one()
		two()
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys are left, want 0", n)
		}
	})
}
