// Package failure turns the error of a call into what its client gets, a gRPC status, and keeps
// the error beside it for the log. [Status] is the only place where one becomes the other. It
// also has the errors of the server itself: a panic, a pipe that has too many calls, a server
// that is stopping, a deadline that has passed.
package failure

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Error is an error together with the gRPC status that the client gets.
type Error struct {
	status *status.Status
	cause  error
}

// Of returns err with its status.
func Of(err error) *Error { return &Error{status: Status(err), cause: err} }

func (f *Error) Error() string { return f.cause.Error() }
func (f *Error) Unwrap() error { return f.cause }

// GRPCStatus returns what the client gets.
func (f *Error) GRPCStatus() *status.Status { return f.status }

// Recover converts a panic into an error. It must be deferred.
func Recover(err *error) {
	if v := recover(); v != nil {
		cause := &node.PanicError{Value: v, Stack: debug.Stack()}
		*err = Of(cause)
	}
}

// In is [Of] for a call. A call that is canceled when its time is over has exceeded
// its deadline.
func In(ctx context.Context, err error) *Error {
	return Of(InTime(ctx, err, time.Now()))
}

// InTime returns the error of a call that was canceled at that time. If its time was over, the
// call has exceeded its deadline.
func InTime(ctx context.Context, err error, canceled time.Time) error {
	if errors.Is(err, context.Canceled) && TimeIsOver(ctx, canceled) {
		return overdue{err}
	}
	return err
}

// TimeIsOver reports whether a call has reached its deadline at that time. When a client's time is
// over, it cancels the call, and the server sees either this or its own copy of the deadline first.
func TimeIsOver(ctx context.Context, at time.Time) bool {
	c := inflight.Of(ctx)
	d, ok := ctx.Deadline()
	return ok && c != nil && d.Sub(at) < min(deadlineSlack, d.Sub(c.Started)/4)
}

// deadlineSlack is how long before the deadline that the server knows a caller may give up
// because its time is over. The two differ by the time that the request took to arrive.
const deadlineSlack = time.Second

// overdue is a canceled call whose time is over.
type overdue struct{ error }

func (e overdue) Error() string {
	return strings.ReplaceAll(e.error.Error(), context.Canceled.Error(), context.DeadlineExceeded.Error())
}
func (e overdue) Unwrap() []error { return []error{context.DeadlineExceeded, e.error} }

// BusyError rejects a call because its pipe reached a limit. Nothing was done
// for the call.
type BusyError struct {
	Pipe   string
	Reason string // the limit
}

// Error names the pipe and the limit.
func (e *BusyError) Error() string { return "pipe " + e.Pipe + " is busy: " + e.Reason }

const busyHint = "call again later; a call whose caller gave up keeps running until Windows finishes it"

// Busy returns the error of a method whose call was rejected.
func Busy(ctx context.Context, method string, err error) *Error {
	return In(ctx, hosterr.WithHint("call", method, err, busyHint))
}

// Stopping is the error of a call that arrives while the server is stopping.
// gRPC accepts calls until it has notified every client, and a client that is
// halfway through its handshake can delay that for seconds.
func Stopping(method string) error {
	return hosterr.WithHint("call", method, StoppingError{}, "call again when csi-proxy is running again")
}

// StoppingError is the cause of [Stopping]. It has its own type because it is logged as a warning: the node
// has not failed.
type StoppingError struct{}

func (StoppingError) Error() string { return "csi-proxy is stopping, and nothing was done" }
func (StoppingError) Unwrap() error { return hosterr.ErrUnavailable }
