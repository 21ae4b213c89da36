package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// LevelRequest is the level at which requests are logged. klog's -v=2 shows
// it.
const LevelRequest = slog.Level(-2)

// guarded is a service with a guard around each method.
func (s *Server) guarded(service *grpc.ServiceDesc, g *gate) *grpc.ServiceDesc {
	desc := *service
	desc.Methods = make([]grpc.MethodDesc, len(service.Methods))
	for i, m := range service.Methods {
		desc.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: s.guard(g, desc.ServiceName, m)}
	}
	return &desc
}

// guard is the outermost thing around a call, outside of decoding and of all
// interceptors. Nothing panics through it, and it logs failures.
func (s *Server) guard(g *gate, service string, m grpc.MethodDesc) grpc.MethodHandler {
	full := "/" + service + "/" + m.MethodName
	limit := deadlineOf(m.MethodName)
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		start := time.Now()
		defer func() {
			if err != nil {
				s.logFailure(ctx, g, full, time.Since(start), err)
			}
		}()
		defer recovered(&err)
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		over, ok := g.running.start()
		if !ok {
			return nil, failed(stopping(m.MethodName))
		}
		leave := func() {}
		ctx, end := node.WithSlot(ctx, func() { leave(); over() })
		defer end()
		// A call gets its turn when its request is there: those that are slow to
		// send one must not keep others waiting.
		admitted := func(in any) error {
			arrived, err := g.arrive()
			if err != nil {
				return failed(hosterr.WithHint("call", m.MethodName, err, busyHint))
			}
			err = receive(ctx, full, decode, in)
			arrived()
			if err != nil {
				return err
			}
			turn, err := g.enter(ctx)
			if err != nil {
				return failed(hosterr.WithHint("call", m.MethodName, err, busyHint))
			}
			leave = turn
			return nil
		}
		return m.Handler(impl, ctx, admitted, interceptor)
	}
}

// receive reads the request of a call into in. A client that does not send it
// loses the call; once it has, gRPC ends the reading that goes on here.
func receive(ctx context.Context, method string, read func(any) error, in any) error {
	got := new(request)
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recovered(&err)
		err = read(got)
	}()
	t := time.NewTimer(receiptLimit)
	defer t.Stop()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return failed(hosterr.Wrap("receive the request of", method, ctx.Err()))
	case <-t.C:
		return failed(hosterr.Wrap("receive the request of", method, fmt.Errorf("%w: nothing more came within %v", context.DeadlineExceeded, receiptLimit)))
	}
	if err := proto.Unmarshal(got.bytes, in.(proto.Message)); err != nil {
		return failed(hosterr.Wrap("read the request of", method, hosterr.Text(hosterr.ErrInvalid, "%w", err)))
	}
	return nil
}

// answer is the innermost interceptor: it calls the row.
func (s *Server) answer(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	if m, ok := in.(proto.Message); ok && s.config.Log.Enabled(ctx, LevelRequest) {
		s.config.Log.Log(ctx, LevelRequest, "Request", "method", info.FullMethod, "request", redacted(m))
	}
	defer func() {
		if err != nil {
			out, err = nil, failed(err)
		}
	}()
	defer recovered(&err)
	return handle(ctx, in)
}

// guardStream is the guard of streams. Only the health and reflection services
// have them; they may stay open for as long as their clients live and calls run.
func (s *Server) guardStream(g *gate) grpc.StreamServerInterceptor {
	return func(impl any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		start := time.Now()
		defer func() {
			p, b := (*node.PanicError)(nil), (*BusyError)(nil)
			if errors.As(err, &p) || errors.As(err, &b) {
				s.logFailure(stream.Context(), g, info.FullMethod, time.Since(start), err)
			}
		}()
		leave, err := g.open()
		if err != nil {
			return failed(err)
		}
		done := make(chan error, 1)
		go func() {
			defer leave()
			var err error
			defer func() { done <- err }()
			defer recovered(&err)
			err = handle(impl, stream)
		}()
		select {
		case err := <-done:
			return err
		case <-s.over: // gRPC ends what goes on here
			return failed(stopping(info.FullMethod))
		}
	}
}

// beside registers a service beside that of a pipe: guarded as well, with a gate
// of its own, so that it has a word even if all turns of the API are taken.
type beside struct {
	*grpc.Server
	guarded func(*grpc.ServiceDesc) *grpc.ServiceDesc
}

// RegisterService implements [grpc.ServiceRegistrar].
func (b beside) RegisterService(desc *grpc.ServiceDesc, impl any) {
	b.Server.RegisterService(b.guarded(desc), impl)
}

// recovered turns a panic into an error. It is deferred.
func recovered(err *error) {
	if v := recover(); v != nil {
		cause := &node.PanicError{Value: v, Stack: debug.Stack()}
		*err = failed(cause)
	}
}

// failure is an error with the status that tells it to the client.
type failure struct {
	status *status.Status
	cause  error
}

func failed(err error) *failure { return &failure{status: statusOf(err), cause: err} }

func (f *failure) Error() string              { return f.cause.Error() }
func (f *failure) Unwrap() error              { return f.cause }
func (f *failure) GRPCStatus() *status.Status { return f.status }

// logFailure writes the one line that a failed call leaves. It says nothing of
// the request but what the error says: requests hold secrets.
//
// A flood is not one in the log as well: of the calls of a pipe that failed,
// [mostFailures] in [sayEvery] leave a line, and of those that got no turn, one.
func (s *Server) logFailure(ctx context.Context, g *gate, method string, took time.Duration, err error) {
	told := &g.failures
	if b := (*BusyError)(nil); errors.As(err, &b) {
		told = &g.busy
	}
	before, now := told.say()
	if !now {
		return
	}
	code := status.Code(err)
	attrs := []slog.Attr{slog.String("pipe", g.pipe)}
	if before > 0 {
		attrs = append(attrs, slog.Int("not told of before", before))
	}
	attrs = append(attrs,
		slog.String("method", method),
		slog.Duration("took", took),
		slog.String("code", code.String()),
		slog.String("error", limited(err.Error())),
	)
	if p := (*node.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	level := slog.LevelError
	switch code {
	case codes.Canceled, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.FailedPrecondition, codes.Unimplemented:
		// The caller's affair: the node is well.
		level = slog.LevelWarn
	}
	if errors.As(err, new(stoppingError)) {
		level = slog.LevelWarn // the administrator's affair
	}
	s.config.Log.LogAttrs(ctx, level, "Request failed", attrs...)
}

// stopping is the answer to a call that came when the server was stopping. gRPC
// lets calls in until it has told every client, which one that has connected and
// said half of what it has to can hold up for [handshakeLimit].
func stopping(method string) error {
	return hosterr.WithHint("call", method, stoppingError{}, "call again once csi-proxy runs again")
}

// stoppingError is why a call is not begun. It is of a kind of its own because the
// log has it as no failure of the node.
type stoppingError struct{}

func (stoppingError) Error() string { return "csi-proxy is stopping, and nothing was done" }
func (stoppingError) Unwrap() error { return hosterr.ErrUnavailable }

// inFlight counts running calls, and once it is closed lets no more begin.
type inFlight struct {
	mu     sync.Mutex
	n      int
	closed bool
	none   chan struct{} // closed once closed is true and n is 0
}

func newInFlight() *inFlight { return &inFlight{none: make(chan struct{})} }

// start counts a call, if it may begin, and returns the function that ends it.
func (f *inFlight) start() (end func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false
	}
	f.n++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n--
		if f.closed && f.n == 0 {
			close(f.none)
		}
	}, true
}

// close lets no further call begin. It returns how many run and a channel that
// is closed once they are over. It is called once.
func (f *inFlight) close() (running int, none <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.n == 0 {
		close(f.none)
	}
	return f.n, f.none
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}
