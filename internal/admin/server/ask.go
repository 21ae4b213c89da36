package server

import (
	"context"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// patience is how long one device may take to answer. Others are described without it.
const patience = 5 * time.Second

// questions are the questions that devices have not answered yet. A question changes nothing,
// so it belongs to no call: a server that stops does not wait for it. A device that hangs
// holds one goroutine, however often it is asked about.
type questions struct {
	mu      sync.Mutex
	pending map[string]*question
}

type question struct {
	begun  time.Time
	done   chan struct{} // closed when the rest is set
	answer any
	err    error
}

// ask returns what f returns, or an error if that takes too long. about names the device and
// what is asked. If the same is being asked already, ask waits for that answer, but not if it
// took too long already: waiting for devices that hang would leave no time for the others. The
// answer may be shared with other callers, so do not change what it points to.
func ask[T any](ctx context.Context, all *questions, about string, f func(context.Context) (T, error)) (T, error) {
	answer, err := all.ask(ctx, about, func(ctx context.Context) (any, error) { return f(ctx) })
	if err != nil {
		var none T
		return none, err
	}
	return answer.(T), nil
}

// ask is without a type parameter, because each type would make csi-proxy.exe larger.
func (all *questions) ask(ctx context.Context, about string, f func(context.Context) (any, error)) (any, error) {
	all.mu.Lock()
	q := all.pending[about]
	if q == nil {
		if err := ctx.Err(); err != nil { // the caller left
			all.mu.Unlock()
			return nil, err
		}
		q = &question{begun: time.Now(), done: make(chan struct{})}
		if all.pending == nil {
			all.pending = map[string]*question{}
		}
		all.pending[about] = q
		go func() {
			defer close(q.done)
			// An operation that retries ends a moment earlier, so that its own error is the answer.
			alone, cancel := context.WithTimeout(context.Background(), patience-patience/10)
			defer cancel()
			q.answer, q.err = node.Await(context.Background(), func() (any, error) { return f(alone) })
			if q.err != nil && alone.Err() != nil && hosterr.KindOf(q.err) == nil {
				q.err = hosterr.Text(hosterr.ErrUnavailable, "%w", q.err)
			}
			all.mu.Lock()
			defer all.mu.Unlock()
			delete(all.pending, about)
		}()
	}
	all.mu.Unlock()
	late := time.NewTimer(patience - time.Since(q.begun))
	defer late.Stop()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, hosterr.Text(hosterr.ErrUnavailable, "no answer for %s", patience)
	}
}
