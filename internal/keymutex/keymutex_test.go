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

func TestLockWaitsForSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		unlock := lock(t, &s, "1")
		lock(t, &s, "2")() // another key is not locked

		got := false
		go func() {
			u := lock(t, &s, "1")
			got = true
			u()
		}()
		synctest.Wait()
		if got {
			t.Fatal("a second caller got the key while the first held it")
		}
		unlock()
		synctest.Wait()
		if !got {
			t.Fatal("the waiting caller did not get the unlocked key")
		}
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys are left, want 0", n)
		}
	})
}

func TestLockFailsAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s keymutex.Set
		unlock := lock(t, &s, "1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, "1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock of a held key = %v, want DeadlineExceeded", err)
		}
		unlock()
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys are left, want 0", n)
		}
	})
}

func TestLockWaitsForSharedHolders(t *testing.T) {
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
			t.Fatal("Lock returned while the key was shared")
		}
		b()
		synctest.Wait()
		if !got {
			t.Fatal("Lock did not return after the key was unlocked")
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
		two, err := s.LockPath(t.Context(), []string{"C:", "pods", "b"}) // a sibling is not locked
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
