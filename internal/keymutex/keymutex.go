// Package keymutex provides locks by key. Requests for the same disk wait for each
// other, requests for different disks do not. Waiting ends with the context of the
// caller, so a caller's deadline holds even if another caller is slow.
//
// A lock is exclusive or shared. [Set.LockPath] locks a path exclusively and shares the
// locks of its ancestors. So the directories of two pods can be changed at the same
// time, but no caller can remove their parent meanwhile.
package keymutex

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// Set is a set of locks by key. The zero Set is ready to use. A key uses memory only
// while callers hold its lock or wait for it.
type Set struct {
	// Kind is what the keys name, such as "disk", for [inflight.Wait].
	Kind string

	mu    sync.Mutex
	locks map[string]*lock
}

type lock struct {
	sem   *semaphore.Weighted
	users int // holders and waiters, guarded by Set.mu

	// The calls of holders, guarded by Set.mu. Only those of a server are known.
	holders []*inflight.Call
	first   [1]*inflight.Call // the usual array of holders
}

const exclusive = math.MaxInt64

// Lock locks key exclusively. It waits for other holders until ctx ends, and fails only
// with the error of ctx. unlock must be called exactly once.
func (s *Set) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return s.acquire(ctx, key, exclusive)
}

// RLock is like Lock, but shares key with other callers of RLock.
func (s *Set) RLock(ctx context.Context, key string) (unlock func(), err error) {
	return s.acquire(ctx, key, 1)
}

// LockPath locks a path exclusively and shares the locks of its ancestors. elems are
// the elements of the path, beginning with the root. LockPath locks ancestors first, so
// it cannot cause a deadlock.
func (s *Set) LockPath(ctx context.Context, elems []string) (unlock func(), err error) {
	var held []func()
	release := func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i]()
		}
	}
	// The keys are substrings of one string. Separate strings would need quadratic
	// memory for a path with thousands of elements.
	whole, end := "\x00"+strings.Join(elems, "\x00"), 0
	for i, e := range elems {
		end += len("\x00") + len(e)
		weight := int64(1)
		if i == len(elems)-1 {
			weight = exclusive
		}
		u, err := s.acquire(ctx, whole[:end], weight)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, u)
	}
	return release, nil
}

func (s *Set) acquire(ctx context.Context, key string, weight int64) (func(), error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = map[string]*lock{}
	}
	l := s.locks[key]
	if l == nil {
		l = &lock{sem: semaphore.NewWeighted(exclusive)}
		l.holders = l.first[:0]
		s.locks[key] = l
	}
	l.users++
	s.mu.Unlock()

	call := inflight.Of(ctx)
	if err := s.wait(ctx, call, key, l, weight); err != nil {
		s.leave(key, l)
		return nil, err
	}
	if call == nil {
		return func() {
			l.sem.Release(weight)
			s.leave(key, l)
		}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.holders = append(l.holders, call)
	return func() {
		s.mu.Lock()
		if i := slices.Index(l.holders, call); i >= 0 {
			l.holders = slices.Delete(l.holders, i, i+1)
		}
		s.mu.Unlock()
		l.sem.Release(weight)
		s.leave(key, l)
	}, nil
}

// wait acquires the semaphore of l, and notes that the call waits for it.
func (s *Set) wait(ctx context.Context, call *inflight.Call, key string, l *lock, weight int64) error {
	if call == nil {
		return l.sem.Acquire(ctx, weight)
	}
	if ctx.Err() == nil && l.sem.TryAcquire(weight) {
		return nil
	}
	call.SetWait(&inflight.Wait{What: s.describe(key), Holders: func() []*inflight.Call {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Clone(l.holders)
	}})
	defer call.SetWait(nil)
	return l.sem.Acquire(ctx, weight)
}

// describe returns a key as people read it.
func (s *Set) describe(key string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(key, "\x00"), "\x00", `\`)
	if s.Kind == "" {
		return name
	}
	return s.Kind + " " + name
}

// leave notes that a holder or waiter of l is gone.
func (s *Set) leave(key string, l *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.locks, key)
	}
}

// Len returns the number of keys that are held or waited for.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.locks)
}
