// Package apiserver serves gRPC on named pipes, with one gRPC server per pipe.
//
// Drivers mount individual pipes into their containers, and a driver can call
// only the versions whose pipes it mounts. So every version of every group has
// its own pipe: \\.\pipe\csi-proxy-disk-v1. On systems without named pipes, unix
// sockets are used instead; package pipe of the client module maps pipe names to
// sockets for both sides.
//
// # Handling of a call
//
// This package does everything that is the same for all calls. A panic becomes
// an Internal error, and the server keeps running. A call without a deadline
// gets one. Calls wait when too many are running. An error becomes a gRPC status
// ([statusOf]). Each failure is logged once, within a limit. Every pipe also
// serves the gRPC health and reflection services.
//
// # Limits
//
// Any container that has a pipe can call as often as it likes, and can misbehave.
// Each pipe therefore has its own limits (limits.go): on connections, calls,
// sizes, and on the time that a client may take to send a request or to read a
// response. A flood on one pipe does not slow down another.
//
// # Start and stop
//
// [Open] creates all pipes before [Server.Serve] accepts calls on any of them, so
// a driver that finds one pipe finds all. It waits while another process serves one. The server stops when Serve's context
// ends: the pipes are closed to new calls, running calls finish, and calls that
// take longer than [Config.Grace] are cut off. When Serve returns, the pipes are
// removed and all clients are disconnected.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Pipe is a named pipe and the service behind it.
type Pipe struct {
	Name string // "csi-proxy-disk-v1", without the prefix \\.\pipe\
	Desc *grpc.ServiceDesc
	Impl any // of Desc.HandlerType

	// Changes reports whether a method changes the node; see [Changes]. Methods of a nil
	// Changes are neither audited nor refused.
	Changes func(method string) bool

	// Listen creates the pipe; nil means [Config.Listen].
	Listen func(name string) (net.Listener, error)

	// Looks means that callers of methods without [Pipe.Changes] only look, such as a command
	// that shows the calls in flight: if one gives up, the failure is not logged or kept.
	Looks bool
}

// Config configures a [Server]. The zero Config is usable.
type Config struct {
	// Log receives a line for each failed call; nil means slog.Default().
	Log *slog.Logger

	// Listen creates a pipe; nil means [Listen].
	Listen func(name string) (net.Listener, error)

	// Ready, if set, is called once, when every pipe accepts connections: Serve
	// has then connected to and disconnected from each of them.
	Ready func()

	// Stopping, if set, is called once, when Serve begins to stop, because its ctx has ended
	// or a pipe fails. Running calls continue.
	Stopping func()

	// Interceptors wrap every call; the first one is the outermost. The errors
	// that they see are gRPC statuses.
	Interceptors []grpc.UnaryServerInterceptor

	// Version, if set, is the version of the build, for [VersionHeader].
	Version string

	// Calls, if set, are the calls in flight of this server, and the last that failed.
	Calls *Calls

	// Steps, if set, are the Win32 calls that failed, for [Calls.Failed].
	Steps *inflight.Steps

	// Count, if set, wraps every call, including those that are refused before their
	// request was read. It does not get the request.
	Count grpc.UnaryServerInterceptor

	// Measure, if set, is called once for each method ("/v1.Disk/Rescan"). It returns a
	// function for the time that a call of the method took, which is called when the call and
	// all its work are done.
	Measure func(method string) func(inflight.Spent)

	// Busy, if set, is called for each call that is refused because its pipe has too many.
	Busy func(pipe string)

	// Crowded, if set, is called for each connection that is closed because its pipe has too
	// many. It returns soon.
	Crowded func(pipe string, how Crowded)

	// Failed, if set, is called for each failed call, with the name of its method. It returns
	// soon.
	Failed func(method string, code codes.Code, err error)

	// Audit logs each request that changes the node, with its caller and result.
	Audit bool

	// ReadOnly refuses requests that change the node.
	ReadOnly bool

	// Grace is the time that running calls get to finish when the server stops;
	// 0 means one minute.
	Grace time.Duration

	// InUse, if set, is called when [Open] starts to wait for pipes that other processes
	// serve, with an error that names each of these processes, and again when the
	// processes change. Open then waits until ctx ends.
	InUse func(error)
}

// OpenLimit is how long [Open] waits for pipes that other processes serve, without
// [Config.InUse].
const OpenLimit = 10 * time.Second

// Other time limits of starting and stopping.
const (
	defaultGrace = time.Minute

	// openRetry is the interval at which [Open] tries a pipe that is in use.
	openRetry = 100 * time.Millisecond

	// ownersInterval is the interval at which Open checks which processes serve its
	// pipes. That connects to each pipe.
	ownersInterval = 30 * time.Second

	// waitLogInterval is the interval at which Open logs that it still waits.
	waitLogInterval = 5 * time.Minute

	// readyLimit is how long the server may take to connect to all its own pipes.
	readyLimit = 10 * time.Second

	// flushLimit is how long finished responses may take to reach their clients
	// after the last call. Only clients that do not read get close to it.
	flushLimit = 5 * time.Second

	// cutLimit is how long calls may take to notice that they were cut off.
	cutLimit = time.Second
)

// Server serves a set of pipes.
type Server struct {
	config    Config
	pipes     []*pipeServer
	calls     *Calls
	ids       atomic.Uint64 // of calls
	workers   inflight.Workers
	changes   map[string]change // by full method
	callsDone chan struct{}     // closed when all calls have finished and streams must end
	accepting atomic.Int32      // pipes that accept connections
}

// pipeServer is a pipe with its gRPC server.
type pipeServer struct {
	Pipe
	listener *conns
	grpc     *grpc.Server
	health   *health.Server
}

// Open creates all pipes. If it cannot create one, it removes the others and
// returns an [OpenError] that lists every pipe that could not be created.
//
// Open waits up to [OpenLimit], or until ctx ends, for pipes that another process
// serves, such as an earlier CSI Proxy that is stopping. While it waits it has no pipe, so
// two servers never serve different pipes at the same time. It never adds an instance to a
// pipe of another process. If several servers start at the same time, one of them gets all
// pipes.
func Open(ctx context.Context, config Config, pipes ...Pipe) (*Server, error) {
	if len(pipes) == 0 {
		return nil, errors.New("no pipes to serve")
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Listen == nil {
		config.Listen = Listen
	}
	if config.Calls == nil {
		config.Calls = new(Calls)
	}
	if config.Grace == 0 {
		config.Grace = defaultGrace
	}
	s := &Server{config: config, calls: config.Calls, changes: map[string]change{}, callsDone: make(chan struct{})}
	listeners, err := s.awaitListeners(ctx, pipes)
	if err != nil {
		return nil, err
	}
	for i, p := range pipes {
		s.pipes = append(s.pipes, s.newPipeServer(p, listeners[i]))
	}
	return s, nil
}

// awaitListeners creates the listeners of all pipes as soon as no other process serves one.
func (s *Server) awaitListeners(ctx context.Context, pipes []Pipe) ([]net.Listener, error) {
	begin := time.Now()
	var looked, logged time.Time
	owners := ""
	blocked := 0 // the pipe to try first: the one that failed last
	for {
		listeners, failed, err := s.listenAll(pipes, blocked)
		if err == nil {
			if !logged.IsZero() {
				s.config.Log.Info("Created all pipes after waiting for another process", "waited", time.Since(begin))
			}
			return listeners, nil
		}
		var inUse *inUseError
		if !errors.As(err, &inUse) {
			return s.listenEach(pipes)
		}
		if now := time.Now(); looked.IsZero() || failed != blocked || now.Sub(looked) >= ownersInterval {
			looked = now
			by := ownersOf(pipes, failed, inUse.withRemedy(err))
			changed := by.Error() != owners
			owners = by.Error()
			if s.config.InUse != nil && changed {
				s.config.InUse(by)
			}
			if changed || now.Sub(logged) >= waitLogInterval {
				s.config.Log.Warn("Waiting for another process to close its pipe, serving no pipe until then", "pipe", pipes[failed].Name, "err", by)
				logged = now
			}
		}
		pause := openRetry
		if failed != blocked {
			// Servers that wait for each other's pipe must not try again at the same time.
			pause += rand.N(openRetry)
		}
		blocked = failed
		if s.config.InUse == nil {
			left := OpenLimit - time.Since(begin)
			if left <= 0 {
				return s.listenEach(pipes)
			}
			pause = min(pause, left)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if s.config.InUse != nil {
				return nil, ctx.Err()
			}
			return s.listenEach(pipes)
		}
	}
}

// ownersOf returns err, which says who serves the pipe that failed and what to do, with the
// other processes that serve pipes. Pipes whose server is unknown are left out.
func ownersOf(pipes []Pipe, failed int, err error) error {
	type owner struct {
		pid   uint32
		image string
		pipes []string
	}
	first, _, _ := ServerOf(pipe.Path(pipes[failed].Name))
	var others []owner
	for i, p := range pipes {
		if i == failed {
			continue
		}
		pid, image, err := ServerOf(pipe.Path(p.Name))
		if err != nil || pid == first {
			continue
		}
		at := slices.IndexFunc(others, func(o owner) bool { return o.pid == pid })
		if at < 0 {
			at, others = len(others), append(others, owner{pid: pid, image: image})
		}
		others[at].pipes = append(others[at].pipes, p.Name)
	}
	err = fmt.Errorf("%s: %w", pipes[failed].Name, err)
	for _, o := range others {
		more := ""
		if n := len(o.pipes) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		err = fmt.Errorf("%w; %s%s: served by process %d (%s): stop it, too", err, o.pipes[0], more, o.pid, o.image)
	}
	return err
}

// listenAll creates the listeners of all pipes, beginning with the pipe first. If one fails,
// it closes the earlier ones, and returns the index of the pipe that failed.
func (s *Server) listenAll(pipes []Pipe, first int) (listeners []net.Listener, failed int, err error) {
	listeners = make([]net.Listener, len(pipes))
	for i := -1; i < len(pipes); i++ {
		at := i
		if i < 0 {
			at = first
		} else if i == first {
			continue
		}
		if listeners[at], err = s.listen(pipes[at]); err != nil {
			listeners[at] = nil
			closeListeners(listeners)
			return nil, at, err
		}
	}
	return listeners, 0, nil
}

// listenEach creates the listeners of all pipes, and fails with an [OpenError] that lists
// each one that it could not create.
func (s *Server) listenEach(pipes []Pipe) ([]net.Listener, error) {
	listeners := make([]net.Listener, len(pipes))
	var refused []error
	for i, p := range pipes {
		l, err := s.listen(p)
		var inUse *inUseError
		switch {
		case errors.As(err, &inUse):
			refused = append(refused, fmt.Errorf("%s: %w", p.Name, inUse.withRemedy(err)))
		case err != nil:
			refused = append(refused, fmt.Errorf("%s: %w", p.Name, err))
		default:
			listeners[i] = l
		}
	}
	if refused != nil {
		closeListeners(listeners)
		return nil, &OpenError{Pipes: len(pipes), Refused: refused}
	}
	return listeners, nil
}

func closeListeners(listeners []net.Listener) {
	for _, l := range listeners {
		if l != nil {
			l.Close()
		}
	}
}

func (s *Server) listen(p Pipe) (net.Listener, error) {
	if p.Listen != nil {
		return p.Listen(p.Name)
	}
	return s.config.Listen(p.Name)
}

// inUseError is the error of [Listen] for a pipe that another process serves.
type inUseError struct {
	path string
	err  error
}

func (e *inUseError) Error() string { return e.err.Error() }
func (e *inUseError) Unwrap() error { return e.err }

// withRemedy adds to err, which wraps e, what to do.
func (e *inUseError) withRemedy(err error) error { return fmt.Errorf("%w: %s", err, e.remedy()) }

// OpenError lists the pipes that could not be created.
type OpenError struct {
	Pipes   int     // number of pipes that Open was asked for
	Refused []error // one error per failed pipe, with its name and the reason
}

// Error returns a summary line, and one line for each failed pipe.
func (e *OpenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot create %d of %d pipes:", len(e.Refused), e.Pipes)
	for _, err := range e.Refused {
		fmt.Fprintf(&b, "\n  %v", err)
	}
	return b.String()
}

// Unwrap returns the errors of the failed pipes.
func (e *OpenError) Unwrap() []error { return e.Refused }

func (s *Server) newPipeServer(p Pipe, l net.Listener) *pipeServer {
	s.changesOf(p)
	// A stop does not wait for the health and reflection services: clients use
	// them to see that the server is stopping.
	api, aux := newLimiter(p.Name, s.calls), newLimiter(p.Name, new(Calls))
	aux.quiet, api.looks = true, p.Looks
	g := grpc.NewServer(append(limits(),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.ChainUnaryInterceptor(slices.Concat(s.config.Interceptors, []grpc.UnaryServerInterceptor{s.invoke})...),
		grpc.StreamInterceptor(s.wrapStream(aux)),
	)...)
	g.RegisterService(s.wrapService(p.Desc, api), p.Impl)
	registrar := auxiliary{g, func(d *grpc.ServiceDesc) *grpc.ServiceDesc { return s.wrapService(d, aux) }}
	h := health.NewServer()
	h.SetServingStatus(p.Desc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(registrar, h)
	reflection.Register(registrar)
	listener := newConns(p.Name, l, s.config.Log)
	if s.config.Crowded != nil {
		listener.crowded = func(how Crowded) { s.config.Crowded(p.Name, how) }
	}
	return &pipeServer{Pipe: p, listener: listener, grpc: g, health: h}
}

// Serve serves all pipes until ctx ends, and then stops as the package comment
// describes. It returns an error if calls were cut off. If a pipe fails, the
// server stops in the same way, and the error names the pipe. If the cause of ctx has a
// method StopWithin() time.Duration, running calls get less time than [Config.Grace] if
// that is needed to return in time. Serve may be called only once.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.pipes))
	for _, p := range s.pipes {
		s.accepting.Add(1)
		go func() {
			defer s.accepting.Add(-1)
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

// grace returns how long running calls may take after ctx has ended.
func (s *Server) grace(ctx context.Context) time.Duration {
	var limited interface{ StopWithin() time.Duration }
	if errors.As(context.Cause(ctx), &limited) {
		return max(min(s.config.Grace, limited.StopWithin()-flushLimit-cutLimit), 0)
	}
	return s.config.Grace
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

// Accepting returns how many of the server's pipes accept connections.
func (s *Server) Accepting() (accepting, pipes int) {
	return int(s.accepting.Load()), len(s.pipes)
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

// stop stops all gRPC servers, including those that have not started to serve.
func (s *Server) stop(limit time.Duration) error {
	running, done := s.calls.close()
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
	// GracefulStop waits for streams of the health and reflection services, which
	// may never end, but not for calls whose clients have disconnected. So the
	// server counts its calls itself: when none is running it ends the streams, and
	// GracefulStop only has to flush responses.
	grace := time.NewTimer(limit)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	cut := s.calls.Count()
	close(s.callsDone)
	if cut == 0 {
		wait(flushLimit)
	}
	for _, p := range s.pipes {
		// gRPC's Stop would block here on a GracefulStop that waits for a call
		// whose client has disconnected.
		p.listener.closeAll()
	}
	wait(cutLimit)
	s.workers.Close()
	if cut > 0 {
		return fmt.Errorf("cut off %d calls that were still running %v after the stop", cut, limit)
	}
	return nil
}

// Pipes returns the pipes of services, one for each group and version.
func Pipes(services []wire.Service) []Pipe {
	pipes := make([]Pipe, len(services))
	for i, s := range services {
		pipes[i] = Pipe{Name: "csi-proxy-" + s.Group + "-" + s.Version.String(), Desc: s.Desc, Impl: s.Impl, Changes: Changes}
	}
	return pipes
}
