package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
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

// failedIn is failed for a call. A call that is canceled when its time is over has exceeded
// its deadline.
func failedIn(ctx context.Context, err error) *failure {
	return failed(inTime(ctx, err, time.Now()))
}

// inTime returns the error of a call that was canceled at that time. If its time was over, the
// call has exceeded its deadline.
func inTime(ctx context.Context, err error, canceled time.Time) error {
	if errors.Is(err, context.Canceled) && timeIsOver(ctx, canceled) {
		return overdue{err}
	}
	return err
}

// timeIsOver reports whether a call has reached its deadline at that time. When a client's time is
// over, it cancels the call, and the server sees either this or its own copy of the deadline first.
func timeIsOver(ctx context.Context, at time.Time) bool {
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

// logFailure logs a failed call in one line. It logs the same part of the request as the
// audit log, because requests hold secrets.
//
// Floods of calls do not flood the log: per pipe and [logInterval], at most
// [maxFailureLines] failures and one rejected call are logged.
func (s *Server) logFailure(l *limiter, c *inflight.Call, err error) {
	busy, panicked := (*BusyError)(nil), (*node.PanicError)(nil)
	limit := &l.failureLog
	if errors.As(err, &busy) {
		limit = &l.busyLog
	}
	errors.As(err, &panicked)
	if busy != nil && s.config.Busy != nil {
		s.config.Busy(l.pipe)
	}
	if l.quiet && busy == nil && panicked == nil {
		return
	}
	code := status.Code(err)
	if s.lookedOnly(l, c, code) {
		return
	}
	if s.config.Failed != nil {
		s.config.Failed(path.Base(c.Method), code, err)
	}
	s.calls.failed.add(c, code, err)
	suppressed, ok := limit.allow()
	if !ok {
		return
	}
	attrs := append(attrsOf(c), slog.Duration("took", time.Since(c.Started)), slog.String("code", code.String()), slog.String("err", limited(err.Error())))
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	if panicked != nil {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	s.log(levelOf(code, c, err), "Request failed", err, attrs)
}

// lookedOnly reports whether a call ended because a caller that only looks gave up.
func (s *Server) lookedOnly(l *limiter, c *inflight.Call, code codes.Code) bool {
	_, changes := s.changes[c.Method]
	return l.looks && !changes && !c.Expired() && (code == codes.Canceled || code == codes.DeadlineExceeded)
}

// log logs a line whose source is where the error was made, if that is known.
func (s *Server) log(level slog.Level, msg string, err error, attrs []slog.Attr) {
	ctx, h := context.Background(), s.config.Log.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	pc := hosterr.SourceOf(err)
	if pc == 0 {
		var here [1]uintptr
		runtime.Callers(2, here[:]) // the caller of log
		pc = here[0]
	}
	r := slog.NewRecord(time.Now(), level, msg, pc)
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r) // as [slog.Logger] does
}

// attrsOf are the attributes of log lines about a call.
func attrsOf(c *inflight.Call) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 12), slog.Uint64("id", c.ID), slog.String("pipe", c.Pipe), slog.String("method", c.Method))
	if target := targetOf(c.Request()); target != "" {
		attrs = append(attrs, slog.String("target", target))
	}
	return append(attrs, (&caller{pid: c.Process, program: c.Program}).attrs()...)
}

// levelOf returns the level of a failure. It is an error if the node or csi-proxy may be the
// cause, and a warning if the caller is.
func levelOf(code codes.Code, c *inflight.Call, err error) slog.Level {
	fromWindows := func() bool { _, ok := win32.Code(err); return ok }
	switch code {
	case codes.OK:
		return slog.LevelInfo
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.FailedPrecondition, codes.Unimplemented:
		return slog.LevelWarn
	case codes.DeadlineExceeded:
		if c.Limit == 0 { // the caller has chosen it
			return slog.LevelWarn
		}
	case codes.PermissionDenied, codes.ResourceExhausted:
		if !fromWindows() { // a rule or a limit of csi-proxy
			return slog.LevelWarn
		}
	case codes.Unavailable:
		if errors.As(err, new(stoppingError)) {
			return slog.LevelWarn
		}
	}
	return slog.LevelError
}

// A call whose caller is gone is logged stillAfter its start, then each time its duration has
// doubled, and finally every stillLongest.
const (
	stillAfter   = 10 * time.Second
	stillLongest = time.Hour
)

// watch logs from time to time that the work of a call continues without its caller.
func (s *Server) watch(c *inflight.Call, after time.Duration) {
	time.AfterFunc(time.Until(c.Started.Add(after)), func() {
		states := inflight.States([]*inflight.Call{c})
		if len(states) == 0 {
			return
		}
		attrs := append(attrsOf(c), slog.Duration("took", time.Since(c.Started)))
		if call := win32.CallIn(states[0].Stack); call != "" {
			attrs = append(attrs, slog.String("win32", call))
		}
		if states[0].Waits != "" {
			attrs = append(attrs, slog.String("waits", states[0].Waits))
		}
		s.log(slog.LevelWarn, "Still running without its caller", nil, attrs)
		next := after
		for next <= time.Since(c.Started) {
			next += min(next, stillLongest)
		}
		s.watch(c, next)
	})
}

// logFinish logs that the work of a call whose caller was gone has ended. ctx is that of the call.
func (s *Server) logFinish(ctx context.Context, l *limiter, c *inflight.Call) {
	if c.Left().IsZero() {
		return
	}
	code, err := codes.OK, inTime(ctx, c.Err(), c.Left())
	if err != nil {
		if code = statusOf(err).Code(); s.lookedOnly(l, c, code) {
			return
		}
		s.calls.failed.add(c, code, err)
	} else {
		s.calls.failed.succeeded(c)
	}
	suppressed, ok := l.failureLog.allow()
	if !ok {
		return
	}
	attrs := append(attrsOf(c), slog.Duration("took", time.Since(c.Started)))
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", limited(err.Error())))
	}
	s.log(levelOf(code, c, err), "Finished without its caller", err, attrs)
}
