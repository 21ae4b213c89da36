package node

import (
	"context"
	"runtime/debug"
)

// Await runs f on a goroutine of its own, because a Win32 call cannot be
// cancelled, and waits for it or for ctx. An f that outlives its caller goes on
// to its end: what it does under a lock it must lock and unlock itself. A panic
// in f becomes a [PanicError], an error of Windows gets its kind ([Typed]).
//
// f is not begun for a ctx that has ended. Unlike [Node.Do] nobody joins f:
// whoever comes after waits for f's locks, and finds done what f did.
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
	finished := use(ctx)
	go func() {
		defer finished()
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
