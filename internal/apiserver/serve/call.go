package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/failure"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// LevelRequest is the level at which requests are logged. klog shows it with
// -v=2.
const LevelRequest = slog.Level(-2)

// group is what the methods of a service of a pipe have in common: that of the API, or that of
// health checks.
type group struct {
	Pipe
	limit *limit.Calls
	calls *calls.Calls
	quiet bool // failures of calls are not logged, unless csi-proxy causes them

	stop *group // of the method [Pipe.Stops]
}

// wrapService returns the service with each of its methods wrapped by wrapMethod. Streams, of which
// health checks have one, are not served: they would need limits of their own.
func (s *Server) wrapService(service *grpc.ServiceDesc, g group) *grpc.ServiceDesc {
	desc := *service
	desc.Streams = nil
	desc.Methods = make([]grpc.MethodDesc, len(service.Methods))
	for i, m := range service.Methods {
		of := g
		if g.stop != nil && m.MethodName == g.Stops {
			of = *g.stop
		}
		desc.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: s.wrapMethod(of, desc.ServiceName, m)}
	}
	return &desc
}

// wrapMethod returns the outermost handler of a call, outside of decoding. It recovers from panics,
// counts the call, sets the deadline, applies the limits and logs failures.
func (s *Server) wrapMethod(g group, service string, m grpc.MethodDesc) grpc.MethodHandler {
	full := "/" + service + "/" + m.MethodName
	s.log.Add(full, calls.Method{
		Pipe: g.Name, Name: m.MethodName, Changes: !g.quiet && g.Changes != nil && g.Changes(m.MethodName), Looks: g.Looks && !g.quiet, Quiet: g.quiet,
	})
	method := &method{group: g, server: s, full: full, name: m.MethodName, deadline: deadlineOf(m.MethodName), handle: m.Handler}
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (out any, err error) {
		c := method.newCall(ctx)
		defer func() {
			if err != nil {
				s.log.Failure(&c.record, err)
			} else {
				s.log.Succeeded(&c.record)
			}
		}()
		defer failure.Recover(&err)
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
	group
	server     *Server
	full, name string
	deadline   time.Duration // of a call without one
	handle     grpc.MethodHandler
}

// call is a call of a method.
type call struct {
	*method
	record inflight.Call
	limits limit.Call
	ctx    context.Context
	decode func(any) error

	request request
	running bool        // it has a slot
	slow    atomic.Bool // its request took too long to arrive
}

func (m *method) newCall(ctx context.Context) *call {
	c := &call{method: m}
	c.limits.Of, c.limits.Loser = limit.CallerOf(ctx), c
	r := &c.record
	r.ID, r.Pipe, r.Method, r.Started = m.server.ids.Add(1), m.Name, m.full, time.Now()
	r.Steps = m.server.config.Steps
	r.Process, r.Program = c.limits.Of.Process()
	return c
}

func (c *call) run(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	if _, ok := ctx.Deadline(); !ok {
		c.record.Limit = c.deadline
	}
	c.ctx, c.decode = c.record.Begin(ctx, c.ended), decode
	if !c.calls.Start(&c.record, limit.ReceiptLimit, c) {
		return nil, failure.Of(failure.Stopping(c.name))
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
		c.server.log.Abandoned(&c.record)
	}
}

// ended is called when the call and all its work have ended.
func (c *call) ended() {
	if c.running {
		c.limit.End(&c.limits)
	}
	defer c.calls.End(&c.record) // last: a server that stops waits for the log line
	c.server.log.Finish(c.ctx, &c.record)
}

// admit reads the request into in, and waits until the call may run. A call takes a slot only
// when its request has arrived: clients that are slow to send one must not make others wait.
func (c *call) admit(in any) error {
	if err := c.receive(in); err != nil {
		return err
	}
	if err := c.limit.Run(c.ctx, &c.limits, func() { c.record.SetPhase(inflight.Queued, in) }); err != nil {
		return failure.Busy(c.ctx, c.name, err)
	}
	c.running = true
	c.record.SetPhase(inflight.Running, in)
	if c.record.Expired() { // End may have answered that nothing was done
		return failure.Busy(c.ctx, c.name, c.limit.AllRunning(c.deadline))
	}
	return nil
}

// receive reads the request of the call. A client that does not send it in time loses the
// call, as may one with too many: that ends the read.
func (c *call) receive(in any) error {
	if err := c.limit.Begin(&c.limits); err != nil {
		return failure.Busy(c.ctx, c.name, err)
	}
	c.request.into = in.(proto.Message)
	err := c.decode(&c.request)
	switch {
	case c.slow.Load():
		err = c.tooSlow()
	case c.limits.Lost():
		err = failure.Busy(c.ctx, c.name, c.limit.Full())
	case c.ctx.Err() != nil:
		err = failure.In(c.ctx, hosterr.Wrap("receive the request of", c.full, c.ctx.Err()))
	case err == nil && c.request.err != nil:
		err = failure.Of(hosterr.Wrap("read the request of", c.full, hosterr.Text(hosterr.ErrInvalid, "%w", c.request.err)))
	case err == nil && !c.quiet:
		err = c.known()
	}
	if err != nil {
		c.limit.Drop(&c.limits)
	}
	return err
}

// known refuses a request with fields that its message does not have, or logs it.
func (c *call) known() error {
	service := protoreflect.FullName(strings.TrimPrefix(path.Dir(c.full), "/"))
	err := wire.CheckFields(service.Parent(), c.request.into.ProtoReflect())
	switch {
	case err == nil:
		return nil
	case c.server.config.IgnoreFields:
		c.server.log.Ignored(&c.record, err)
		return nil
	}
	return failure.Of(hosterr.Wrap("call", c.full, err))
}

func (c *call) tooSlow() *failure.Error {
	return failure.Of(hosterr.Wrap("receive the request of", c.full, fmt.Errorf("%w: the client did not send it within %v", context.DeadlineExceeded, limit.ReceiptLimit)))
}

// statusWriter is a method of gRPC's streams that is not part of its public API.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// Lose implements [limit.Loser]: the call has lost its place to another one.
func (c *call) Lose() { c.end(failure.Busy(c.ctx, c.name, c.limit.Full())) }

// End implements [calls.Ender]: the request or the call has taken too long. It marks the call
// before it checks the phase, and [call.admit] does the reverse, so a call that was queued here
// never runs.
func (c *call) End() {
	if c.record.Phase() == inflight.Receiving {
		c.slow.Store(true)
		c.end(c.tooSlow())
		return
	}
	c.record.Expire()
	if c.record.Phase() == inflight.Queued {
		c.end(failure.Busy(c.ctx, c.name, c.limit.AllRunning(c.deadline)))
		return
	}
	c.end(c.overLimit())
}

func (c *call) overLimit() *failure.Error {
	return failure.Of(hosterr.Wrap("call", c.name, fmt.Errorf("%w: it has not ended within %v, the limit for a caller that sets no deadline", context.DeadlineExceeded, c.deadline)))
}

// end answers a call, and ends its context, before its handler has returned. gRPC has no
// public way to do that: its stream does it when a status is written. Without that, end
// closes the connection, with its other calls.
func (c *call) end(f *failure.Error) {
	if stream, ok := grpc.ServerTransportStreamFromContext(c.ctx).(statusWriter); ok {
		_ = stream.WriteStatus(f.GRPCStatus()) // it fails if the client is gone
		return
	}
	_ = c.limits.Of.Close() // it fails if the client is gone
}

// isHealth reports whether a method is that of a health check, which kubelets and load
// balancers repeat forever.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.") }

// invoke is the innermost interceptor of a pipe: it calls the row.
func (s *Server) invoke(of *limit.Pipe) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
		if s.config.Log.Enabled(ctx, LevelRequest) && !isHealth(info.FullMethod) {
			s.config.Log.Log(ctx, LevelRequest, "Received request", "id", inflight.Of(ctx).ID, "method", info.FullMethod, "target", calls.Target(in))
		}
		start := time.Now()
		defer func() {
			if err != nil {
				out, err = nil, failure.In(ctx, err)
			}
			s.log.Request(ctx, in, time.Since(start), status.Code(err))
		}()
		defer failure.Recover(&err)
		if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
			if err := s.addHeaders(ctx, of); err != nil {
				return nil, err
			}
		}
		if m := s.log.Method(info.FullMethod); s.config.ReadOnly && m.Changes {
			return nil, hosterr.WithHint("call", m.Name,
				hosterr.Text(hosterr.ErrPermissionDenied, "csi-proxy was started with -read-only-api, and this method changes the node"),
				"start csi-proxy without -read-only-api, or call only methods that read")
		}
		return handle(ctx, in)
	}
}
