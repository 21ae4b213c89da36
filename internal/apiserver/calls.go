package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// LevelRequest is the level at which requests are logged. klog shows it with
// -v=2.
const LevelRequest = slog.Level(-2)

// wrapService returns the service with each of its methods wrapped by
// wrapMethod.
func (s *Server) wrapService(service *grpc.ServiceDesc, l *limiter) *grpc.ServiceDesc {
	desc := *service
	desc.Methods = make([]grpc.MethodDesc, len(service.Methods))
	for i, m := range service.Methods {
		desc.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: s.wrapMethod(l, desc.ServiceName, m)}
	}
	return &desc
}

// wrapMethod returns the outermost handler of a call, outside of decoding and of
// [Config.Interceptors]. It recovers from panics, has the call counted, sets the deadline,
// applies the limits and logs failures.
func (s *Server) wrapMethod(l *limiter, service string, m grpc.MethodDesc) grpc.MethodHandler {
	full := "/" + service + "/" + m.MethodName
	deadline := deadlineOf(m.MethodName)
	run := func(impl any, ctx context.Context, c *inflight.Call, from *caller, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, deadline)
			defer cancel()
			c.OwnDeadline = true
		}
		if !l.calls.start(c) {
			return nil, failed(stopping(m.MethodName))
		}
		release := func() {}
		ctx = c.Begin(ctx, func() {
			release()
			defer l.calls.end(c) // last: a server that stops waits for the log line
			s.logFinish(l, c)
		})
		defer func() {
			if c.Leave() {
				s.watch(c, stillAfter)
			}
		}()
		// A call takes a slot only when its request has arrived: clients that are
		// slow to send one must not make others wait.
		admitted := func(in any) error {
			busy := func(err error) error {
				return failedIn(ctx, hosterr.WithHint("call", m.MethodName, err, busyHint))
			}
			lost, arrived, err := l.arrive(from)
			if err != nil {
				return busy(err)
			}
			err = receive(ctx, full, decode, in, lost)
			arrived()
			if err == errLost {
				return busy(l.manyArriving())
			}
			if err != nil {
				return err
			}
			c.SetPhase(inflight.Queued, in)
			slot, err := l.acquire(ctx, from)
			if err != nil {
				return busy(err)
			}
			c.SetPhase(inflight.Running, nil)
			release = slot
			return nil
		}
		return m.Handler(impl, ctx, admitted, interceptor)
	}
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		from := callerOf(ctx)
		c := s.newCall(l, full, from)
		defer func() {
			if err != nil {
				s.logFailure(l, c, err)
			}
		}()
		defer recovered(&err)
		if s.config.Count == nil {
			return run(impl, ctx, c, from, decode, interceptor)
		}
		return s.config.Count(ctx, nil, &grpc.UnaryServerInfo{Server: impl, FullMethod: full}, func(ctx context.Context, _ any) (any, error) {
			return run(impl, ctx, c, from, decode, interceptor)
		})
	}
}

// newCall returns the record of a call.
func (s *Server) newCall(l *limiter, method string, from *caller) *inflight.Call {
	c := &inflight.Call{ID: s.ids.Add(1), Pipe: l.pipe, Method: method, Started: time.Now()}
	if from != nil {
		c.Process, c.Program = from.pid, from.program
	}
	return c
}

// receive reads the request of a call into in. A client that does not send its
// request in time loses the call; gRPC then ends the read that is still running
// in the background. So does one of a caller with too many calls, when lost is closed:
// that is errLost.
func receive(ctx context.Context, method string, read func(any) error, in any, lost <-chan struct{}) error {
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
		return failedIn(ctx, hosterr.Wrap("receive the request of", method, ctx.Err()))
	case <-lost:
		return errLost
	case <-t.C:
		return failed(hosterr.Wrap("receive the request of", method, fmt.Errorf("%w: the client did not send it within %v", context.DeadlineExceeded, receiptLimit)))
	}
	if err := proto.Unmarshal(got.bytes, in.(proto.Message)); err != nil {
		return failed(hosterr.Wrap("read the request of", method, hosterr.Text(hosterr.ErrInvalid, "%w", err)))
	}
	return nil
}

// errLost is the error of a call whose place another caller has taken.
var errLost = errors.New("another caller has taken the place of the call")

// isHealth reports whether a method is that of a health check, which kubelets and load
// balancers repeat for ever.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.") }

// invoke is the innermost interceptor: it calls the row.
func (s *Server) invoke(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	if m, ok := in.(proto.Message); ok && !isHealth(info.FullMethod) && s.config.Log.Enabled(ctx, LevelRequest) {
		s.config.Log.Log(ctx, LevelRequest, "Received request", "id", inflight.Of(ctx).ID, "method", info.FullMethod, "request", redacted(m))
	}
	start := time.Now()
	defer func() {
		if err != nil {
			out, err = nil, failedIn(ctx, err)
		}
		if c, ok := s.changes[info.FullMethod]; ok && s.config.Audit {
			s.audit(ctx, c, in, time.Since(start), status.Code(err))
		}
	}()
	defer recovered(&err)
	if err := s.allow(info); err != nil {
		return nil, err
	}
	return handle(ctx, in)
}

// wrapStream is wrapMethod for streams. Only the health and reflection services
// have streams. A stream has no deadline: it may stay open until its client
// closes it or the server stops.
func (s *Server) wrapStream(l *limiter) grpc.StreamServerInterceptor {
	return func(impl any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		c := s.newCall(l, info.FullMethod, callerOf(stream.Context()))
		defer func() {
			p, b := (*node.PanicError)(nil), (*BusyError)(nil)
			if errors.As(err, &p) || errors.As(err, &b) {
				s.logFailure(l, c, err)
			}
		}()
		lost, closed, err := l.openStream(callerOf(stream.Context()))
		if err != nil {
			return failed(err)
		}
		done := make(chan error, 1)
		go func() {
			defer closed()
			var err error
			defer func() { done <- err }()
			defer recovered(&err)
			err = handle(impl, stream)
		}()
		select {
		case err := <-done:
			return err
		case <-lost:
			return failed(l.manyStreams())
		case <-s.callsDone: // gRPC then ends the handler that is still running
			return failed(stopping(info.FullMethod))
		}
	}
}

// auxiliary registers the health and reflection services of a pipe. They are
// wrapped like the API but have their own limiter, so that they respond even if
// the API has no free slot.
type auxiliary struct {
	*grpc.Server
	wrap func(*grpc.ServiceDesc) *grpc.ServiceDesc
}

// RegisterService implements [grpc.ServiceRegistrar].
func (a auxiliary) RegisterService(desc *grpc.ServiceDesc, impl any) {
	a.Server.RegisterService(a.wrap(desc), impl)
}
