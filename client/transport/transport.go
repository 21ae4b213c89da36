// Package transport makes gRPC connections to the pipes of a CSI Proxy.
//
// The clients below groups are made from it. Use it for what they do not
// cover: another service of the same server, or a call whose group and version
// are known only at run time.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// busyLimit is how long [Connect] waits for a pipe of which all instances are busy. A
// server has one free instance at a time, for which clients that wait do not queue: when
// all drivers of a busy node connect at once, some have no luck for seconds. (Published
// clients wait for two, which was too short for forty of them.)
const busyLimit = 10 * time.Second

// reconnect is how to come back after the server went away. It is on this
// node, so there is no network to spare: a driver should notice within
// seconds that the service was restarted.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Connect returns a gRPC connection to the server of a named pipe, or of the
// unix socket that stands in for it; package pipe tells which paths it takes.
//
// It fails at once if nobody serves there, and after ten seconds in which all
// instances of the pipe were busy, with the error of [pipe.Dial] as it is; those
// seconds are Windows' alone, and [ConnectContext] is for who has less. Whether the
// server is there later shows in each call: one for which there is no server ends
// with the status Unavailable, and the connection comes back by itself when the
// server does. Close it when it is no longer used.
//
// Neither side encrypts or proves who it is: who may open the pipe may call.
func Connect(pipePath string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := probe(pipePath); err != nil {
		return nil, err
	}
	return newClient(pipePath, func(ctx context.Context) (net.Conn, error) {
		return pipe.Dial(ctx, pipePath)
	}, opts)
}

// newClient makes the connection that dial leads to, once it is used.
func newClient(pipePath string, dial func(context.Context) (net.Conn, error), opts []grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// By default it would be the path, which is no valid authority.
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(reconnect),
	}, opts...)
	conn, err := grpc.NewClient("passthrough:///"+url.PathEscape(pipePath), all...)
	if err != nil {
		return nil, fmt.Errorf("gRPC connection to %q: %w", pipePath, err)
	}
	return conn, nil
}

// probe tells whether there is a server. gRPC itself would connect only with
// the first call, and then report that nobody is there with less of a reason.
func probe(pipePath string) error {
	ctx, cancel := context.WithTimeout(context.Background(), busyLimit)
	defer cancel()
	conn, err := pipe.Dial(ctx, pipePath)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ErrNoAnswer says that something holds the pipe open and does not answer as a
// gRPC server does, or hangs up as soon as it did: one that is still starting, one
// that is stopping, or none at all.
var ErrNoAnswer = errors.New("nobody answers as a gRPC server")

// ConnectContext is [Connect] in the time that ctx leaves, and with more to
// rely on: the server has answered on the connection that is returned. A server
// that made its pipe and does not serve it yet is waited for, five seconds at most.
//
// The errors are those of [pipe.Dial], the one of ctx, and [ErrNoAnswer]. Nothing
// is dialed but the connection that is returned, and after an error none is open.
func ConnectContext(ctx context.Context, pipePath string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	first, err := pipe.Dial(ctx, pipePath)
	if err != nil {
		return nil, err
	}
	d := newDialed(ctx, pipePath, first)
	defer d.drop()
	conn, err := newClient(pipePath, d.dial, opts)
	if err != nil {
		return nil, err
	}
	conn.Connect()
	if !answered(d.open, conn) {
		conn.Close()
		err := ctx.Err()
		if err == nil {
			err = ErrNoAnswer
		}
		return nil, fmt.Errorf("%q: %w", pipePath, err)
	}
	return conn, nil
}

// answered waits until the server has sent its side of the handshake, or ctx ends,
// or it is known that the server will not.
func answered(ctx context.Context, conn *grpc.ClientConn) bool {
	for {
		s := conn.GetState()
		switch s {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		}
		if !conn.WaitForStateChange(ctx, s) {
			return false
		}
	}
}

// dialed hands gRPC the connection that is there already, and then new ones.
type dialed struct {
	path string

	// open ends with that connection. The states of a grpc.ClientConn do not tell all:
	// it may have been ready and be idle again before anybody looks.
	open   context.Context
	hungUp context.CancelFunc

	mu    sync.Mutex
	first net.Conn
}

func newDialed(ctx context.Context, path string, first net.Conn) *dialed {
	d := &dialed{path: path}
	d.open, d.hungUp = context.WithCancel(ctx)
	d.first = &watched{first, d.hungUp}
	return d
}

// watched is a connection that tells of its end.
type watched struct {
	net.Conn
	closed func()
}

func (c *watched) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (d *dialed) take() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.first
	d.first = nil
	return c
}

func (d *dialed) dial(ctx context.Context) (net.Conn, error) {
	if c := d.take(); c != nil {
		return c, nil
	}
	return pipe.Dial(ctx, d.path)
}

// drop ends what only the search for an answer needed: the context, and the first
// connection if gRPC has not taken it.
func (d *dialed) drop() {
	d.hungUp()
	if c := d.take(); c != nil {
		c.Close()
	}
}
