package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
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
// [Config.Interceptors]. It recovers from panics, counts the call, sets the deadline,
// applies the limits and logs failures.
func (s *Server) wrapMethod(l *limiter, service string, m grpc.MethodDesc) grpc.MethodHandler {
	full := "/" + service + "/" + m.MethodName
	method := &method{server: s, limiter: l, full: full, name: m.MethodName, deadline: deadlineOf(m.MethodName), handle: m.Handler}
	if s.config.Measure != nil && !l.quiet {
		method.measure = s.config.Measure(full)
	}
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		c := method.newCall(ctx)
		defer func() {
			if err != nil {
				s.logFailure(l, &c.record, err)
			} else {
				s.calls.failed.succeeded(&c.record)
			}
		}()
		defer recovered(&err)
		if s.config.Count == nil {
			return c.run(impl, ctx, decode, interceptor)
		}
		return s.config.Count(ctx, nil, &grpc.UnaryServerInfo{Server: impl, FullMethod: full}, func(ctx context.Context, _ any) (any, error) {
			return c.run(impl, ctx, decode, interceptor)
		})
	}
}

// method is a method of a pipe.
type method struct {
	server     *Server
	limiter    *limiter
	full, name string
	deadline   time.Duration // of a call without one
	handle     grpc.MethodHandler
	measure    func(inflight.Spent) // nil if calls are not measured
}

// call is a call of a method.
type call struct {
	*method
	record inflight.Call
	from   *caller
	ctx    context.Context
	decode func(any) error

	arriving share
	request  request
	running  bool // it has a slot
	late     bool // it has taken longer than its limit; [Calls] guards it
}

func (m *method) newCall(ctx context.Context) *call {
	c := &call{method: m, from: callerOf(ctx)}
	c.arriving.of = c.from
	m.server.fill(&c.record, m.limiter, m.full, c.from)
	c.record.Measured = m.measure != nil
	return c
}

// fill sets the fields of the record of a call.
func (s *Server) fill(c *inflight.Call, l *limiter, method string, from *caller) {
	c.ID, c.Pipe, c.Method, c.Started, c.Workers = s.ids.Add(1), l.pipe, method, time.Now(), &s.workers
	c.Steps = s.config.Steps
	if from != nil {
		c.Process, c.Program = from.pid, from.program
	}
}

func (c *call) run(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	if _, ok := ctx.Deadline(); !ok {
		c.record.Limit = c.deadline
	}
	c.ctx, c.decode = c.record.Begin(ctx, c.ended), decode
	if !c.limiter.calls.start(c) {
		return nil, failed(stopping(c.name))
	}
	defer c.leave()
	out, err := c.handle(impl, c.ctx, c.admit, interceptor)
	if err == nil && c.record.Expired() {
		return nil, c.overLimit() // which its caller has already
	}
	return out, err
}

// leave ends the call for its caller.
func (c *call) leave() {
	if c.record.Leave() {
		c.server.watch(&c.record, stillAfter)
	}
}

// ended is called when the call and all its work have ended.
func (c *call) ended() {
	if c.running {
		c.limiter.release(c.from)
	}
	defer c.limiter.calls.end(&c.record) // last: a server that stops waits for the log line
	c.server.logFinish(c.ctx, c.limiter, &c.record)
	if c.measure != nil {
		c.measure(c.record.Spent())
	}
}

// admit reads the request into in, and waits until the call may run. A call takes a slot only
// when its request has arrived: clients that are slow to send one must not make others wait.
func (c *call) admit(in any) error {
	if err := c.receive(in); err != nil {
		return c.unlessReplaced(err)
	}
	if !c.limiter.tryAcquire(c.from) {
		c.record.SetPhase(inflight.Queued, in)
		if err := c.limiter.acquire(c.ctx, c.from); err != nil {
			return c.unlessReplaced(c.busy(err))
		}
	}
	if c.from.wasReplaced() { // from now on, the slot protects the connection
		c.limiter.release(c.from)
		return c.unlessReplaced(nil)
	}
	c.running = true
	c.record.SetPhase(inflight.Running, in)
	if c.record.Expired() { // expire may have answered that nothing was done
		return c.busy(c.limiter.allRunning(c.deadline))
	}
	return nil
}

// unlessReplaced returns err, or that csi-proxy has closed the connection for another one:
// otherwise that call would look as if its caller had given up.
func (c *call) unlessReplaced(err error) error {
	if c.from.wasReplaced() {
		return c.busy(&BusyError{Pipe: c.limiter.pipe, reason: fmt.Sprintf("the connection of this call was closed for another one: %d are open, which is the limit", maxConnections)})
	}
	return err
}

func (c *call) busy(err error) *failure {
	return failedIn(c.ctx, hosterr.WithHint("call", c.name, err, busyHint))
}

// receive reads the request of the call. A client that does not send it in time loses the
// call, as does one with too many calls: abort then ends the read.
func (c *call) receive(in any) error {
	c.arriving.call = c
	if err := c.limiter.arrive(&c.arriving); err != nil {
		return c.busy(err)
	}
	c.request.into = in.(proto.Message)
	err := c.decode(&c.request)
	if !c.limiter.arriving.put(&c.arriving) {
		return c.lost()
	}
	if c.ctx.Err() != nil {
		return failedIn(c.ctx, hosterr.Wrap("receive the request of", c.full, c.ctx.Err()))
	}
	if err != nil {
		return err
	}
	if err := c.request.err; err != nil {
		return failed(hosterr.Wrap("read the request of", c.full, hosterr.Text(hosterr.ErrInvalid, "%w", err)))
	}
	return nil
}

// lost is the error of a call whose request is no longer awaited.
func (c *call) lost() *failure {
	if c.arriving.late {
		return failed(hosterr.Wrap("receive the request of", c.full, fmt.Errorf("%w: the client did not send it within %v", context.DeadlineExceeded, receiptLimit)))
	}
	return c.busy(c.limiter.manyArriving())
}

// statusWriter is a method of gRPC's streams that is not part of its public API.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// abort ends the read of a request that is no longer awaited.
func (c *call) abort() { c.end(c.lost()) }

// expire ends a call that has taken longer than its limit. It marks the call before it checks
// the phase, and [call.admit] does the reverse, so a call that was queued here never runs.
func (c *call) expire() {
	c.record.Expire()
	if c.record.Phase() == inflight.Queued {
		c.end(c.busy(c.limiter.allRunning(c.deadline)))
		return
	}
	c.end(c.overLimit())
}

func (c *call) overLimit() *failure {
	return failed(hosterr.Wrap("call", c.name, fmt.Errorf("%w: it has not ended within %v, the limit for a caller that sets no deadline", context.DeadlineExceeded, c.deadline)))
}

// end answers a call, and ends its context, before its handler has returned. gRPC has no
// public way to do that: its stream does it when a status is written. Without that, end
// closes the connection, with its other calls.
func (c *call) end(f *failure) {
	if stream, ok := grpc.ServerTransportStreamFromContext(c.ctx).(statusWriter); ok {
		_ = stream.WriteStatus(f.status) // it fails if the client is gone
		return
	}
	if c.from != nil {
		_ = c.from.hangUp() // it fails if the client is gone
	}
}

// isHealth reports whether a method is that of a health check, which kubelets and load
// balancers repeat forever.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.") }

// invoke is the innermost interceptor: it calls the row.
func (s *Server) invoke(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
	if m, ok := in.(proto.Message); ok && s.config.Log.Enabled(ctx, LevelRequest) && !isHealth(info.FullMethod) {
		s.config.Log.Log(ctx, LevelRequest, "Received request", "id", inflight.Of(ctx).ID, "method", info.FullMethod, "request", redacted(m))
	}
	var changes change
	var start time.Time
	audited := false
	if s.config.Audit {
		if changes, audited = s.changes[info.FullMethod]; audited {
			start = time.Now()
		}
	}
	defer func() {
		if err != nil {
			out, err = nil, failedIn(ctx, err)
		}
		if audited {
			s.audit(ctx, changes, in, time.Since(start), status.Code(err))
		}
	}()
	defer recovered(&err)
	if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
		if err := s.addVersionHeader(ctx); err != nil {
			return nil, err
		}
	}
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
		c := new(inflight.Call)
		s.fill(c, l, info.FullMethod, callerOf(stream.Context()))
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
