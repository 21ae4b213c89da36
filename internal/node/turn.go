package node

import (
	"context"
	"sync"
)

// turn is the right to keep the node busy, which a server gives to a call. It
// ends with the call and with the work that outlives it, whichever is later.
type turn struct {
	mu   sync.Mutex
	uses int
	over func()
}

type turnKey struct{}

// WithTurn lets work of [Await] and [Node.Do] that outlives its caller count as
// part of the call: over is called once, when end has been called and all such
// work is done. A server that bounds its calls so bounds the threads that hang
// in Windows too, because a caller who gives up does not free them. A driver in
// process has no turns, and no such bound.
func WithTurn(ctx context.Context, over func()) (_ context.Context, end func()) {
	t := &turn{uses: 1, over: over}
	return context.WithValue(ctx, turnKey{}, t), t.done
}

// use lengthens the turn of ctx, if it has one that is not over.
func use(ctx context.Context) (done func()) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uses == 0 {
		return func() {}
	}
	t.uses++
	return t.done
}

func (t *turn) done() {
	t.mu.Lock()
	t.uses--
	last := t.uses == 0
	t.mu.Unlock()
	if last {
		t.over()
	}
}
