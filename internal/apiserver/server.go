// Package apiserver serves gRPC on named pipes, one server for each pipe.
//
// Drivers mount single pipes into their containers, so which versions a driver
// may call is decided by the pipes it gets, and every version of every group
// has one of its own: \\.\pipe\csi-proxy-disk-v1. Where there are no named pipes
// unix sockets stand in for them; package pipe of the client module has the
// rule by which both sides find them.
//
// # What stands around a call
//
// All that is the same for every call happens here and nowhere else: a panic
// becomes the answer Internal and leaves the server running, a call without a
// deadline gets one, calls wait for their turn when too many run, an error
// becomes a gRPC status ([statusOf]), and each failure is logged once, unless
// there are too many for a log. Beside its API every pipe serves the gRPC health
// and reflection services.
//
// # What a client may cost
//
// Any container that has a pipe may call as often as it likes, badly or not at
// all. So each pipe has its own limits (limits.go): of connections, calls,
// sizes, and of the time in which a client has to say something or to read its
// answer. A flood of one pipe does not slow down another.
//
// # Start and stop
//
// [Open] makes all pipes before [Server.Serve] answers on any of them, so a
// driver that finds one finds all. The end of Serve's context stops the server:
// pipes are closed to new calls, running calls finish, and only those that
// take longer than [Config.Grace] are cut off. When Serve returns no pipe is left
// and nobody is connected.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Pipe is a named pipe and the service behind it.
type Pipe struct {
	Name string // "csi-proxy-disk-v1", without the \\.\pipe\ before it
	Desc *grpc.ServiceDesc
	Impl any // of Desc.HandlerType
}

// Config says how pipes are served. The zero Config is usable.
type Config struct {
	// Log gets a line for each call that fails; nil means slog.Default().
	Log *slog.Logger

	// Listen makes a pipe; nil means [Listen].
	Listen func(name string) (net.Listener, error)

	// Ready, if set, is called once, when every pipe takes connections: Serve
	// has then connected to each of them and hung up.
	Ready func()

	// Interceptors stand around every call, the first one outermost. The errors
	// that they see are gRPC statuses.
	Interceptors []grpc.UnaryServerInterceptor

	// Grace is how long running calls may take to finish once the server
	// stops; 0 means one minute.
	Grace time.Duration
}

// How long starting and stopping take.
const (
	defaultGrace = time.Minute

	// rivalLimit is how long a server that has made a pipe waits for others that
	// have those it still lacks, and rivalPause how long between two looks.
	rivalLimit = 2 * time.Second
	rivalPause = 5 * time.Millisecond

	// readyLimit is how long it may take until the server has connected to all
	// of its pipes.
	readyLimit = 10 * time.Second

	// flushLimit is how long answers that are ready may take to reach clients
	// after the last call. Only clients that do not read come near it.
	flushLimit = 5 * time.Second

	// cutLimit is how long calls may take to notice that they were cut off.
	cutLimit = time.Second
)

// Server serves a set of pipes.
type Server struct {
	config  Config
	pipes   []*pipeServer
	running *inFlight
	over    chan struct{} // closed once all calls are, and streams have to end
}

// pipeServer is one pipe and its gRPC server.
type pipeServer struct {
	Pipe
	listener *conns
	grpc     *grpc.Server
	health   *health.Server
}

// Open makes all pipes. If one cannot be made none is left, and the error names
// each pipe that cannot be made and why.
//
// Of servers that start at once, the one that makes the first pipe has them all. The
// others still find out which they cannot have, and give back at once what they get;
// so does one that ends and has closed some of its pipes. Two seconds are enough for it.
func Open(config Config, pipes ...Pipe) (*Server, error) {
	if len(pipes) == 0 {
		return nil, errors.New("no pipes to serve")
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Listen == nil {
		config.Listen = Listen
	}
	if config.Grace == 0 {
		config.Grace = defaultGrace
	}
	s := &Server{config: config, running: newInFlight(), over: make(chan struct{})}
	var refused []error
	waiting := rivalLimit
	for _, p := range pipes {
		var l net.Listener
		err := node.Poll(context.Background(), node.SystemClock{}, node.Pace{Pause: rivalPause, Left: &waiting}, func() (_ bool, err error) {
			l, err = config.Listen(p.Name)
			return err == nil || len(s.pipes) == 0, err
		})
		switch {
		case err != nil:
			refused = append(refused, fmt.Errorf("%s: %w", p.Name, err))
			s.Close()
			s.pipes = nil
		case len(refused) > 0:
			l.Close()
		default:
			s.pipes = append(s.pipes, s.newPipeServer(p, l))
		}
	}
	if len(refused) > 0 {
		return nil, &OpenError{Pipes: len(pipes), Refused: refused}
	}
	return s, nil
}

// OpenError says which pipes could not be made.
type OpenError struct {
	Pipes   int     // how many there were to make
	Refused []error // for each that could not be made: its name and the reason
}

// Error is a line for all and one for each pipe.
func (e *OpenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d pipes cannot be made:", len(e.Refused), e.Pipes)
	for _, err := range e.Refused {
		fmt.Fprintf(&b, "\n  %v", err)
	}
	return b.String()
}

// Unwrap lists the reasons.
func (e *OpenError) Unwrap() []error { return e.Refused }

func (s *Server) newPipeServer(p Pipe, l net.Listener) *pipeServer {
	// What the services beside the API do is nothing to wait for, and they tell
	// of a server that it stops.
	api, others := newGate(p.Name, s.running), newGate(p.Name, newInFlight())
	g := grpc.NewServer(append(limits(),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.ChainUnaryInterceptor(slices.Concat(s.config.Interceptors, []grpc.UnaryServerInterceptor{s.answer})...),
		grpc.StreamInterceptor(s.guardStream(others)),
	)...)
	g.RegisterService(s.guarded(p.Desc, api), p.Impl)
	aside := beside{g, func(d *grpc.ServiceDesc) *grpc.ServiceDesc { return s.guarded(d, others) }}
	h := health.NewServer()
	h.SetServingStatus(p.Desc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(aside, h)
	reflection.Register(aside)
	return &pipeServer{Pipe: p, listener: newConns(p.Name, l, s.config.Log), grpc: g, health: h}
}

// Serve answers calls until ctx ends, and then stops as the package comment
// says; an error tells that calls were cut off. If a pipe fails meanwhile, the
// server stops in the same way and the error names that pipe. Serve may be
// called once.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.pipes))
	for _, p := range s.pipes {
		go func() {
			// Serve returns nil once its server is told to stop.
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
	cancel() // what stops does not become ready
	return errors.Join(failure, s.stop())
}

// checkPipes connects to each pipe, and calls Ready. A pipe that refuses this
// process may well be open to others, so that is logged and no failure.
//
// Under Wine clients depend on it. go-winio begins a pipe with an instance that
// Windows gives to nobody; Wine gives it to the first client, which then waits
// for answers of a server that does not know of it.
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
			s.config.Log.Warn("A pipe does not take the server's own connection", "pipe", p.Name, "err", err)
		}
	}
	s.config.Ready()
}

// Close removes the pipes of a server that was opened and will not serve.
func (s *Server) Close() {
	for _, p := range s.pipes {
		p.listener.Close()
	}
}

// stop ends all gRPC servers. It may find that some have not begun.
func (s *Server) stop() error {
	running, over := s.running.close()
	for _, p := range s.pipes {
		p.health.Shutdown()
	}
	// Not left to gRPC: it does so for pipes that are served already, and before it
	// tells its clients it waits for all that have connected to say something.
	s.Close()
	stopped := make(chan struct{}, len(s.pipes))
	for _, p := range s.pipes {
		go func() {
			p.grpc.GracefulStop()
			stopped <- struct{}{}
		}()
	}
	left := len(s.pipes)
	await := func(limit time.Duration) {
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
		s.config.Log.Info("Waiting for running calls to finish", "calls", running, "limit", s.config.Grace)
	}
	// GracefulStop waits for watchers of the health service and for idle
	// reflection streams, which never end by themselves, and not for calls whose
	// clients have gone. So calls are counted here: once none runs, streams end
	// and only answers have to be flushed.
	grace := time.NewTimer(s.config.Grace)
	defer grace.Stop()
	select {
	case <-over:
	case <-grace.C:
	}
	cut := s.running.count()
	close(s.over)
	if cut == 0 {
		await(flushLimit)
	}
	for _, p := range s.pipes {
		// gRPC's own Stop would wait here for a GracefulStop that waits for a call
		// whose client has gone.
		p.listener.hangUp()
	}
	await(cutLimit)
	if cut > 0 {
		return fmt.Errorf("%d running calls took longer than %v and were cut off", cut, s.config.Grace)
	}
	return nil
}

// Pipes are the pipes of services, one for each group and version.
func Pipes(services []wire.Service) []Pipe {
	pipes := make([]Pipe, len(services))
	for i, s := range services {
		pipes[i] = Pipe{Name: "csi-proxy-" + s.Group + "-" + s.Version.String(), Desc: s.Desc, Impl: s.Impl}
	}
	return pipes
}
