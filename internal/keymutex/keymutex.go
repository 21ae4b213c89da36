// Package keymutex lets goroutines take turns by key: two requests for one disk
// wait for each other, two for different disks do not. Waiting ends with the
// waiter's context, so a caller's deadline is kept even behind a slow one.
//
// A lock is exclusive or shared. [Set.LockPath] uses both for a tree: it locks
// a path and shares its ancestors, so that two pods' directories are worked on
// at once while nobody removes the directory above them.
package keymutex

import (
	"context"
	"math"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Set is a set of locks by key. The zero Set is ready to use; keys cost memory
// only while somebody holds or awaits them.
type Set struct {
	mu    sync.Mutex
	locks map[string]*lock
}

type lock struct {
	sem   *semaphore.Weighted
	users int // holders and waiters, guarded by Set.mu
}

const exclusive = math.MaxInt64

// Lock waits until key is free of holders and takes it. It fails only with
// ctx's error. unlock must be called exactly once.
func (s *Set) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return s.acquire(ctx, key, exclusive)
}

// RLock shares key with other callers of RLock.
func (s *Set) RLock(ctx context.Context, key string) (unlock func(), err error) {
	return s.acquire(ctx, key, 1)
}

// LockPath locks the last of elems, the elements of a path from the root on,
// and shares each path above it. Ancestors are taken first, so two callers
// never wait for each other in a circle.
func (s *Set) LockPath(ctx context.Context, elems []string) (unlock func(), err error) {
	var held []func()
	release := func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i]()
		}
	}
	// Each key is the beginning of the next: a path of thousands of elements must
	// not cost memory by the square.
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
		s.locks[key] = l
	}
	l.users++
	s.mu.Unlock()

	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, key)
		}
	}
	if err := l.sem.Acquire(ctx, weight); err != nil {
		leave()
		return nil, err
	}
	return func() {
		l.sem.Release(weight)
		leave()
	}, nil
}

// Len is the number of keys that somebody holds or awaits.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.locks)
}
