package node

import (
	"context"
	"runtime/debug"
)

// Await runs f on its own goroutine, because a Win32 call cannot be cancelled,
// and returns when f does or when ctx ends. An f that outlives its caller runs to
// its end, so it must take and release its locks itself. A panic in f becomes a
// [PanicError]; a Windows error gets its kind ([Typed]).
//
// If ctx has already ended, f is not started. Unlike [Node.Do], a retry does not
// join a running f: it waits for f's locks and then finds f's work done.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	done := make(chan result, 1)
	release := holdSlot(ctx)
	go func() {
		defer release()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			done <- r
		}()
		r.v, r.err = f()
	}()
	select {
	case r := <-done:
		return r.v, Typed(r.err)
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
