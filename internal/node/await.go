package node

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// A Win32 call cannot be canceled, so work runs on its own goroutine while its
// caller waits for it or for its context. There are two ways to start it: with
// [Await] each caller starts its own, with [Node.Join] callers with the same key
// share one. Services use Await for every request. Hosts use Join where one run
// serves all callers: a rescan, the format of a volume.

// Await runs f on its own goroutine and returns when f does or when ctx ends. An f
// that outlives its caller runs to its end, so it must take and release its locks
// itself. A panic in f becomes a [PanicError]; a Windows error gets its kind
// ([Typed]).
//
// If ctx has already ended, f is not started. A retry does not join a running f: it
// waits for f's locks and then finds f's work done.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	v, err := start(ctx, f).wait(ctx)
	return v, Typed(err)
}

// Join is [Await] for work with a key: if work with the same key is running, Join
// waits for it and returns its result, and f is not started. The error is as f
// returned it.
func (n *Node) Join(ctx context.Context, key string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := n.join(ctx, key, f)
	if call := inflight.Of(ctx); call != nil && call != w.of {
		call.SetWait(&inflight.Wait{What: key, Holders: func() []*inflight.Call { return []*inflight.Call{w.of} }})
		defer call.SetWait(nil)
		defer func() {
			if w.of == nil || w.of.Changed() {
				call.MarkChanged() // it was done for this call, too
			}
		}()
	}
	_, err := w.wait(ctx)
	return err
}

// join returns the running work of key, and starts f if there is none. It adds f to
// the caller's call before the end of ctx can be noticed. That is why it does not
// use singleflight's DoChan, which starts f later and does not report which caller
// started it.
func (n *Node) join(ctx context.Context, key string, f func() error) *work[struct{}] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.work[key]; ok {
		return w
	}
	if n.work == nil {
		n.work = map[string]*work[struct{}]{}
	}
	w := start(ctx, func() (struct{}, error) {
		defer n.forget(key)
		return struct{}{}, f()
	})
	n.work[key] = w
	return w
}

// forget makes the next join of key start its own work.
func (n *Node) forget(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.work, key)
}

// work is a function that runs on its own goroutine.
type work[T any] struct {
	of   *inflight.Call // the call that started it, or nil
	done chan struct{}  // closed when value and err are set
	v    T
	err  error
}

// start starts f, as part of the call of ctx ([inflight.Call]).
func start[T any](ctx context.Context, f func() (T, error)) *work[T] {
	w := &work[T]{of: inflight.Of(ctx), done: make(chan struct{})}
	w.of.Go(func() error {
		w.run(f)
		return w.err
	}, func() { close(w.done) })
	return w
}

// run sets the result of f.
func (w *work[T]) run(f func() (T, error)) {
	defer func() {
		if v := recover(); v != nil {
			w.err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	w.v, w.err = f()
}

// wait returns the work's result, or ctx's error if ctx ends first.
func (w *work[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-w.done:
		return w.v, w.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// PanicError is a panic that was recovered in work. Its goroutine ends, and with it a thread that
// the work had locked and left in an unusual state.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
