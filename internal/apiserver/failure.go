package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// failure is an error together with the gRPC status that the client gets.
type failure struct {
	status *status.Status
	cause  error
}

func failed(err error) *failure { return &failure{status: statusOf(err), cause: err} }

func (f *failure) Error() string              { return f.cause.Error() }
func (f *failure) Unwrap() error              { return f.cause }
func (f *failure) GRPCStatus() *status.Status { return f.status }

// recovered converts a panic into an error. It must be deferred.
func recovered(err *error) {
	if v := recover(); v != nil {
		cause := &node.PanicError{Value: v, Stack: debug.Stack()}
		*err = failed(cause)
	}
}

// logFailure logs a failed call in one line. The request is not logged, because
// requests hold secrets.
//
// Floods of calls do not flood the log: per pipe and [logInterval], at most
// [maxFailureLines] failures and one rejected call are logged.
func (s *Server) logFailure(ctx context.Context, l *limiter, method string, took time.Duration, err error) {
	limit := &l.failureLog
	if b := (*BusyError)(nil); errors.As(err, &b) {
		limit = &l.busyLog
	}
	suppressed, ok := limit.allow()
	if !ok {
		return
	}
	code := status.Code(err)
	attrs := []slog.Attr{
		slog.String("pipe", l.pipe),
		slog.String("method", method),
		slog.Duration("took", took),
		slog.String("code", code.String()),
		slog.String("err", limited(err.Error())),
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	if p := (*node.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	level := slog.LevelError
	switch code {
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.FailedPrecondition, codes.Unimplemented:
		// The caller made a mistake; the node has not failed.
		level = slog.LevelWarn
	}
	if errors.As(err, new(stoppingError)) {
		level = slog.LevelWarn
	}
	s.config.Log.LogAttrs(ctx, level, "Request failed", attrs...)
}
