package node

import (
	"context"
	"sync"
)

// slot is one of a server's places for running calls. A call holds it until the
// call and all its work that outlives it are done.
type slot struct {
	mu    sync.Mutex
	users int
	free  func()
}

type slotKey struct{}

// WithSlot makes a call's slot last as long as its work: work that [Await] and
// [Node.Join] run under the returned context keeps the slot, even if the call
// itself has returned. free is called once, after end and after the last of that
// work. A server that limits its running calls thereby limits the threads that
// hang in Windows as well: a caller that gives up does not free its thread. A
// driver in process has no slots, and no such limit.
func WithSlot(ctx context.Context, free func()) (_ context.Context, end func()) {
	s := &slot{users: 1, free: free}
	return context.WithValue(ctx, slotKey{}, s), s.release
}

// holdSlot keeps the slot of ctx until release is called. It does nothing for a
// ctx without a slot, or with one that is already free.
func holdSlot(ctx context.Context) (release func()) {
	s, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return func() {}
	}
	s.users++
	return s.release
}

func (s *slot) release() {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if last {
		s.free()
	}
}
