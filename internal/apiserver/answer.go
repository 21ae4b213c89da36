package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// LevelRequest is the level at which requests are logged. klog's -v=2 shows
// it.
const LevelRequest = slog.Level(-2)

// guarded is the service of p with a guard around each method.
func (s *Server) guarded(p Pipe) *grpc.ServiceDesc {
	desc := *p.Desc
	desc.Methods = make([]grpc.MethodDesc, len(p.Desc.Methods))
	for i, m := range p.Desc.Methods {
		desc.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: s.guard(p.Name, "/"+desc.ServiceName+"/"+m.MethodName, m.Handler)}
	}
	return &desc
}

// guard is the outermost thing around a call, outside of decoding and of all
// interceptors. Nothing panics through it, and it logs failures.
func (s *Server) guard(pipe, method string, handle grpc.MethodHandler) grpc.MethodHandler {
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		start := time.Now()
		defer s.running.start()()
		defer func() {
			if err != nil {
				s.logFailure(ctx, pipe, method, time.Since(start), err)
			}
		}()
		defer recovered(&err)
		return handle(impl, ctx, decode, interceptor)
	}
}

// answer is the innermost interceptor: it calls the row.
func (s *Server) answer(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.config.Deadline)
		defer cancel()
	}
	if m, ok := in.(proto.Message); ok && s.config.Log.Enabled(ctx, LevelRequest) {
		s.config.Log.Log(ctx, LevelRequest, "Request", "method", info.FullMethod, "request", redacted(m))
	}
	defer func() {
		if err != nil {
			out, err = nil, &failure{status: statusOf(err), cause: err}
		}
	}()
	defer recovered(&err)
	return handle(ctx, in)
}

// guardStream is the guard of the health and reflection services; the API
// itself has no streams.
func (s *Server) guardStream(impl any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	start := time.Now()
	defer func() {
		if p := (*node.PanicError)(nil); errors.As(err, &p) {
			s.logFailure(stream.Context(), "", info.FullMethod, time.Since(start), err)
		}
	}()
	defer recovered(&err)
	return handle(impl, stream)
}

// recovered turns a panic into an error. It is deferred.
func recovered(err *error) {
	if v := recover(); v != nil {
		cause := &node.PanicError{Value: v, Stack: debug.Stack()}
		*err = &failure{status: statusOf(cause), cause: cause}
	}
}

// failure is an error with the status that tells it to the client.
type failure struct {
	status *status.Status
	cause  error
}

func (f *failure) Error() string              { return f.cause.Error() }
func (f *failure) Unwrap() error              { return f.cause }
func (f *failure) GRPCStatus() *status.Status { return f.status }

// logFailure writes the one line that a failed call leaves. It says nothing of
// the request but what the error says: requests hold secrets.
func (s *Server) logFailure(ctx context.Context, pipe, method string, took time.Duration, err error) {
	code := status.Code(err)
	attrs := []slog.Attr{
		slog.String("pipe", pipe),
		slog.String("method", method),
		slog.Duration("took", took),
		slog.String("code", code.String()),
		slog.String("error", limited(err.Error())),
	}
	if p := (*node.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	level := slog.LevelError
	switch code {
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.FailedPrecondition, codes.Unimplemented:
		// The caller's affair: the node is well.
		level = slog.LevelWarn
	}
	s.config.Log.LogAttrs(ctx, level, "Request failed", attrs...)
}

// inFlight counts running calls.
type inFlight struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed while n is 0
}

func newInFlight() *inFlight {
	f := &inFlight{none: make(chan struct{})}
	close(f.none)
	return f
}

// start counts a call and returns the function that ends it.
func (f *inFlight) start() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		f.none = make(chan struct{})
	}
	f.n++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n--
		if f.n == 0 {
			close(f.none)
		}
	}
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// idle returns a channel that is closed once the calls that run now, and those
// that started before they ended, are over.
func (f *inFlight) idle() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.none
}
