package calls

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Log writes what becomes of calls into the log. Its exported fields and its methods are set
// before the first call.
type Log struct {
	*slog.Logger
	// Calls has the calls in flight and the last that failed.
	Calls *Calls
	// Audit logs each request that changes the node.
	Audit bool
	// Failed, if set, is called for each failed call, with the name of its method. It returns
	// soon.
	Failed func(method string, code codes.Code, err error)
	// Busy, if set, is called for each call that is refused because its pipe has too many.
	Busy func(pipe string)

	methods                       map[string]Method // by full name
	failures, unchanged, overload *lines
}

// Method is how a method of a service is logged.
type Method struct {
	Pipe, Name string // "csi-proxy-disk-v1", "Rescan"
	// Changes means that it changes the node: see [Changes].
	Changes bool
	// Looks means that its callers only look: if one gives up, that is not logged or kept.
	Looks bool
	// Quiet means that its failures are not logged, unless csi-proxy causes them.
	Quiet bool
}

// NewLog returns a log of calls.
func NewLog(to *slog.Logger, calls *Calls) *Log {
	return &Log{
		Logger: to, Calls: calls, methods: map[string]Method{},
		failures:  newLines(to, "Left out failed requests"),
		unchanged: newLines(to, "Left out requests that changed nothing"),
		overload:  &lines{log: to, what: "Left out what a pipe with too many callers refused", each: 1, all: 10},
	}
}

// Add adds a method by its full name, "/v1.Disk/Rescan".
func (l *Log) Add(full string, m Method) { l.methods[full] = m }

// Method returns a method by its full name.
func (l *Log) Method(full string) Method { return l.methods[full] }

// Close writes how much was left out until now.
func (l *Log) Close() {
	for _, kind := range []*lines{l.failures, l.unchanged, l.overload} {
		kind.flush()
	}
}

// Crowded logs that a connection of a process is closed, and why.
func (l *Log) Crowded(msg, pipe string, limit int, process uint32, program func() string) {
	if l.overload.allow(process, program) {
		l.LogAttrs(context.Background(), slog.LevelWarn, msg, append(callerAttrs(process, program), slog.String("pipe", pipe), slog.Int("limit", limit))...)
	}
}

// Succeeded notes that a call has succeeded.
func (l *Log) Succeeded(c *inflight.Call) { l.Calls.failed.succeeded(c) }

// Failure logs a failed call in one line. It logs the same part of the request as the audit
// log, because requests hold secrets. Floods of calls do not flood the log: see [lines].
func (l *Log) Failure(c *inflight.Call, err error) {
	busy, panicked := (*failure.BusyError)(nil), (*node.PanicError)(nil)
	limit := l.failures
	if errors.As(err, &busy) {
		limit = l.overload
	}
	errors.As(err, &panicked)
	if busy != nil && l.Busy != nil {
		l.Busy(c.Pipe)
	}
	if l.methods[c.Method].Quiet && busy == nil && panicked == nil {
		return
	}
	code := status.Code(err)
	if l.lookedOnly(c, code) {
		return
	}
	if l.Failed != nil {
		l.Failed(path.Base(c.Method), code, err)
	}
	l.Calls.failed.add(c, code, err)
	if !limit.allow(c.Process, c.Program) {
		return
	}
	attrs := append(attrsOf(c), slog.Duration("took", time.Since(c.Started)), slog.String("code", code.String()), slog.String("err", failure.Limited(err.Error())))
	if panicked != nil {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	l.line(levelOf(code, c, err), "Request failed", err, attrs)
}

// Ignored logs that fields of a request are ignored. It counts as a failure for [lines].
func (l *Log) Ignored(c *inflight.Call, err error) {
	if l.failures.allow(c.Process, c.Program) {
		l.line(slog.LevelWarn, "Ignoring fields of a request", err, append(attrsOf(c), slog.String("err", failure.Limited(err.Error()))))
	}
}

// lookedOnly reports whether a call ended because a caller that only looks gave up.
func (l *Log) lookedOnly(c *inflight.Call, code codes.Code) bool {
	m := l.methods[c.Method]
	return m.Looks && !m.Changes && !c.Expired() && (code == codes.Canceled || code == codes.DeadlineExceeded)
}

// line logs a line whose source is where the error was made, if that is known.
func (l *Log) line(level slog.Level, msg string, err error, attrs []slog.Attr) {
	ctx, h := context.Background(), l.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	pc := hosterr.SourceOf(err)
	if pc == 0 {
		var here [1]uintptr
		runtime.Callers(2, here[:]) // the caller of line
		pc = here[0]
	}
	r := slog.NewRecord(time.Now(), level, msg, pc)
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r) // as [slog.Logger] does
}

// attrsOf are the attributes of log lines about a call.
func attrsOf(c *inflight.Call) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 12), slog.Uint64("id", c.ID), slog.String("pipe", c.Pipe), slog.String("method", c.Method))
	if target := Target(c.Request()); target != "" {
		attrs = append(attrs, slog.String("target", target))
	}
	return append(attrs, callerAttrs(c.Process, c.Program)...)
}

// callerAttrs are the attributes of log lines about a process.
func callerAttrs(process uint32, program func() string) []slog.Attr {
	if process == 0 {
		return []slog.Attr{slog.String("caller", "unknown")}
	}
	return []slog.Attr{slog.Uint64("caller", uint64(process)), slog.String("program", program())}
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
		if errors.As(err, new(failure.StoppingError)) {
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

// Abandoned logs from time to time that the work of a call continues without its caller.
func (l *Log) Abandoned(c *inflight.Call) { l.still(c, stillAfter) }

func (l *Log) still(c *inflight.Call, after time.Duration) {
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
		l.line(slog.LevelWarn, "Still running without its caller", nil, attrs)
		next := after
		for next <= time.Since(c.Started) {
			next += min(next, stillLongest)
		}
		l.still(c, next)
	})
}

// Finish logs that the work of a call whose caller was gone has ended. ctx is that of the call.
// If the work has changed something, its line is not limited: the one of [Log.Request] may have
// been written before.
func (l *Log) Finish(ctx context.Context, c *inflight.Call) {
	if c.Left().IsZero() {
		return
	}
	code, err := codes.OK, failure.InTime(ctx, c.Err(), c.Left())
	if err != nil {
		if code = failure.Status(err).Code(); l.lookedOnly(c, code) {
			return
		}
		l.Calls.failed.add(c, code, err)
	} else {
		l.Calls.failed.succeeded(c)
	}
	changed := c.Changed()
	if !changed && !l.failures.allow(c.Process, c.Program) {
		return
	}
	attrs := append(attrsOf(c), slog.Duration("took", time.Since(c.Started)))
	if c.Steps != nil && (changed || l.methods[c.Method].Changes) {
		attrs = append(attrs, slog.Bool("changed", changed))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", failure.Limited(err.Error())))
	}
	l.line(levelOf(code, c, err), "Finished without its caller", err, attrs)
}
