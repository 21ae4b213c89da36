// Package serve serves gRPC on the pipes of a node, with one gRPC server per pipe.
//
// It does everything that is the same for all calls. A panic becomes an Internal error, and the
// server keeps running. A call without a deadline gets one. Calls wait when too many are running
// (package limit). An error becomes a gRPC status (package failure). What becomes of a call is
// logged once (package calls). Every pipe also answers gRPC health checks.
//
// # Start and stop
//
// [Open] creates all pipes before [Server.Serve] accepts calls on any of them, so
// a driver that finds one pipe finds all. It waits while another process serves one. The server
// stops when Serve's context ends: the pipes are closed to new calls, running calls finish, and
// calls that take longer than [Config.Grace] are cut off. When Serve returns, the pipes are
// removed and all clients are disconnected.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/limit"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Pipe is a named pipe and the service behind it.
type Pipe struct {
	Name string // "csi-proxy-disk-v1", without the prefix \\.\pipe\
	Desc *grpc.ServiceDesc
	Impl any // of Desc.HandlerType

	// Changes reports whether a method changes the node; see [calls.Changes]. Methods of a nil
	// Changes are neither audited nor refused.
	Changes func(method string) bool

	// Listen creates the pipe; nil means [Config.Listen].
	Listen func(name string) (net.Listener, error)

	// Stops is the method that stops the server, or empty: the server does not wait for it, and
	// it runs however busy the pipe is.
	Stops string

	// Looks means that callers of methods without [Pipe.Changes] only look, such as a command
	// that shows the calls in flight: if one gives up, the failure is not logged or kept.
	Looks bool
}

// Config configures a [Server]. The zero Config is usable.
type Config struct {
	// Log receives a line for each failed call; nil means slog.Default().
	Log *slog.Logger

	// Listen creates a pipe; nil means [pipes.Listen].
	Listen func(name string) (net.Listener, error)

	// Ready, if set, is called once, when every pipe accepts connections: Serve
	// has then connected to and disconnected from each of them.
	Ready func()

	// Stopping, if set, is called once, when Serve begins to stop, because its ctx has ended
	// or a pipe fails. Running calls continue.
	Stopping func()

	// Version, if set, is the version of the build, for [pipes.VersionHeader].
	Version string

	// Calls, if set, are the calls in flight of this server, and the last that failed.
	Calls *calls.Calls

	// Steps, if set, has what the Win32 calls of calls have done, for the audit log and
	// [calls.Calls.Failed].
	Steps *inflight.Steps

	// Count, if set, wraps every call, including those that are refused before their
	// request was read. It does not get the request.
	Count grpc.UnaryServerInterceptor

	// Busy, if set, is called for each call that is refused because its pipe has too many.
	Busy func(pipe string)

	// Crowded, if set, is called for each connection that is closed because its pipe has too
	// many. It returns soon.
	Crowded func(pipe string, how limit.Crowded)

	// Failed, if set, is called for each failed call, with the name of its method. It returns
	// soon.
	Failed func(method string, code codes.Code, err error)

	// Audit logs each request that changes the node, with its caller and result: see
	// [calls.Log.Request].
	Audit bool

	// ReadOnly refuses requests that change the node.
	ReadOnly bool

	// IgnoreFields logs requests with fields that the called version of the API does not have,
	// instead of refusing them: see [wire.CheckFields].
	IgnoreFields bool

	// Grace is the time that running calls get to finish when the server stops;
	// 0 means one minute.
	Grace time.Duration

	// InUse, if set, is called when [Open] starts to wait for pipes that other processes
	// serve, with an error that names each of these processes, and again when the
	// processes change.
	InUse func(error)
}

// Time limits of starting and stopping.
const (
	defaultGrace = time.Minute

	// readyLimit is how long the server may take to connect to all its own pipes.
	readyLimit = 10 * time.Second

	// flushLimit is how long finished responses may take to reach their clients
	// after the last call, or less if the process has less time. Only clients that do not
	// read get close to it.
	flushLimit = 5 * time.Second

	// cutLimit is how long calls may take to notice that they were cut off.
	cutLimit = time.Second
)

// Server serves a set of pipes.
type Server struct {
	config Config
	pipes  []*pipeServer
	calls  *calls.Calls
	log    *calls.Log
	ids    atomic.Uint64 // of calls
}

// pipeServer is a pipe with its gRPC server.
type pipeServer struct {
	Pipe
	listener *limit.Pipe
	grpc     *grpc.Server
	health   *health.Server
}

// Open creates all pipes as [pipes.Open] does, and fails as that does.
func Open(ctx context.Context, config Config, served ...Pipe) (*Server, error) {
	if len(served) == 0 {
		return nil, errors.New("no pipes to serve")
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Calls == nil {
		config.Calls = new(calls.Calls)
	}
	if config.Grace == 0 {
		config.Grace = defaultGrace
	}
	s := &Server{config: config, calls: config.Calls, log: calls.NewLog(config.Log, config.Calls)}
	s.log.Audit, s.log.Failed, s.log.Busy = config.Audit, config.Failed, config.Busy
	names := make([]pipes.Pipe, len(served))
	for i, p := range served {
		names[i] = pipes.Pipe{Name: p.Name, Listen: p.Listen}
	}
	listeners, err := pipes.Open(ctx, pipes.Opening{Log: config.Log, Listen: config.Listen, InUse: config.InUse}, names)
	if err != nil {
		return nil, err
	}
	for i, p := range served {
		s.pipes = append(s.pipes, s.newPipeServer(p, listeners[i]))
	}
	return s, nil
}

func (s *Server) newPipeServer(p Pipe, l net.Listener) *pipeServer {
	listener := limit.NewPipe(p.Name, l, s.config.Log, func(c *limit.Conn, how limit.Crowded) { s.crowded(p.Name, c, how) })
	api := group{Pipe: p, limit: listener.API, calls: s.calls}
	// A stop does not wait for health checks: clients use them to see that the server is
	// stopping. Nor for the call that asks for it.
	aux := group{Pipe: p, limit: listener.Aux, calls: new(calls.Calls), quiet: true}
	api.stop = &group{Pipe: p, limit: listener.Aux, calls: aux.calls}
	g := grpc.NewServer(append(limit.Options(),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.UnaryInterceptor(s.invoke(listener)),
	)...)
	g.RegisterService(s.wrapService(p.Desc, api), p.Impl)
	h := health.NewServer()
	h.SetServingStatus(p.Desc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	g.RegisterService(s.wrapService(&grpc_health_v1.Health_ServiceDesc, aux), h)
	return &pipeServer{Pipe: p, listener: listener, grpc: g, health: h}
}

// crowded counts and logs that a connection of a pipe is closed because too many are open.
func (s *Server) crowded(pipe string, c *limit.Conn, how limit.Crowded) {
	if s.config.Crowded != nil {
		s.config.Crowded(pipe, how)
	}
	msg := "Closed a connection without a running call, of the process that has most: too many are open"
	if how == limit.Refused {
		msg = "Refused a connection: too many are open"
	}
	process, program := c.Process()
	s.log.Crowded(msg, pipe, limit.Connections, process, program)
}

// Serve serves all pipes until ctx ends, and then stops as the package comment
// describes. It returns an error if calls were cut off. If a pipe fails, the
// server stops in the same way, and the error names the pipe. If the cause of ctx has a
// method StopWithin() time.Duration, running calls get less time than [Config.Grace] if
// that is needed to return in time. Serve may be called only once.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.pipes))
	for _, p := range s.pipes {
		go func() {
			// gRPC's Serve returns nil if it was stopped.
			if err := p.grpc.Serve(p.listener); err != nil {
				failed <- fmt.Errorf("%s: %w", p.Name, err)
			}
		}()
	}
	checking, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.config.Ready != nil {
		checked := make(chan struct{})
		go func() {
			defer close(checked)
			s.checkPipes(checking)
		}()
		defer func() { <-checked }()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failed:
	}
	cancel() // a stopping server must not report that it is ready
	if s.config.Stopping != nil {
		s.config.Stopping()
	}
	return errors.Join(failure, s.stop(s.grace(ctx)))
}

// grace returns how long running calls may take after ctx has ended, and how long they and the
// responses of the last ones together.
func (s *Server) grace(ctx context.Context) (calls, flushed time.Duration) {
	calls, flushed = s.config.Grace, s.config.Grace+flushLimit
	var limited interface{ StopWithin() time.Duration }
	if errors.As(context.Cause(ctx), &limited) {
		flushed = max(min(flushed, limited.StopWithin()-cutLimit), 0)
	}
	return min(calls, flushed), flushed
}

// checkPipes connects to each pipe and then calls Ready. A pipe that rejects this
// process may accept other clients, so that is logged and is not a failure.
//
// Under Wine this is also needed for clients to work. go-winio first creates an
// instance of the pipe that it does not serve. Windows never connects a client to
// that instance, but Wine connects the first one, which then waits forever.
func (s *Server) checkPipes(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, p := range s.pipes {
		conn, err := pipe.Dial(limited, p.listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.config.Log.Warn("Cannot connect to own pipe", "pipe", p.Name, "err", err)
		}
	}
	s.config.Ready()
}

// Close removes the pipes of a server on which Serve is not called.
func (s *Server) Close() {
	s.closePipes()
	for _, p := range s.pipes {
		p.grpc.Stop() // its goroutines
	}
}

func (s *Server) closePipes() {
	for _, p := range s.pipes {
		p.listener.Close()
	}
}

// stop stops all gRPC servers, including those that have not started to serve. The limits are
// those of [Server.grace].
func (s *Server) stop(limit, flushed time.Duration) error {
	end := time.Now().Add(flushed)
	running, done := s.calls.Close()
	for _, p := range s.pipes {
		p.health.Shutdown()
	}
	// gRPC would close only pipes that it already serves, and it waits for the
	// handshakes of new connections before it notifies its clients.
	s.closePipes()
	stopped := make(chan struct{}, len(s.pipes))
	for _, p := range s.pipes {
		go func() {
			p.grpc.GracefulStop()
			stopped <- struct{}{}
		}()
	}
	left := len(s.pipes)
	wait := func(limit time.Duration) {
		t := time.NewTimer(limit)
		defer t.Stop()
		for left > 0 {
			select {
			case <-stopped:
				left--
			case <-t.C:
				return
			}
		}
	}
	if running > 0 {
		s.config.Log.Info("Waiting for running calls to finish", "calls", running, "limit", limit)
	}
	// GracefulStop does not wait for calls whose clients have disconnected. So the server counts
	// its calls itself: when none is running, GracefulStop only has to flush responses.
	grace := time.NewTimer(limit)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	cut := s.calls.Count()
	if cut == 0 {
		wait(min(flushLimit, time.Until(end)))
	}
	for _, p := range s.pipes {
		// gRPC's Stop would block here on a GracefulStop that waits for a call
		// whose client has disconnected.
		p.listener.CloseAll()
	}
	wait(cutLimit)
	s.log.Close()
	if cut > 0 {
		return fmt.Errorf("cut off %d calls that were still running %v after the stop", cut, limit)
	}
	return nil
}

// Pipes returns the pipes of services, one for each group and version.
func Pipes(services []wire.Service) []Pipe {
	all := make([]Pipe, len(services))
	for i, s := range services {
		all[i] = Pipe{Name: "csi-proxy-" + s.Group + "-" + s.Version.String(), Desc: s.Desc, Impl: s.Impl, Changes: calls.Changes}
	}
	return all
}
