// Package transport creates gRPC connections to the pipes of a CSI Proxy.
//
// The clients below groups use it. Use it directly for other services of the same
// server, or if group and version are known only at run time.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// busyLimit is how long [Connect] waits while all instances of a pipe are busy. A
// server has one free instance at a time, and waiting clients do not queue: if all
// drivers of a busy node connect at once, some wait for seconds. Published clients
// wait for two seconds, which was not enough for forty clients.
const busyLimit = 10 * time.Second

// reconnect is how to reconnect after the server stopped. The server is on this
// node, so frequent attempts cost little, and a driver should be connected within
// seconds after a restart.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Connect returns a gRPC connection to the server of a named pipe, or of the unix
// socket that replaces it; package pipe defines the paths.
//
// It fails immediately with the error of [pipe.Dial] if the pipe does not exist, and
// after ten seconds if all instances of the pipe are busy, which happens on Windows
// only. Use [ConnectContext] to set another limit. If the server stops later, calls
// fail with the status Unavailable until it runs again; the connection is restored
// automatically. The caller must close it.
//
// There is no encryption or authentication: every process that may open the pipe may
// call.
func Connect(pipePath string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	dial := dialer(opts)
	if err := probe(pipePath, dial); err != nil {
		return nil, err
	}
	return newClient(pipePath, func(ctx context.Context) (net.Conn, error) {
		return dial(ctx, pipePath)
	}, opts)
}

// RequireTrustedOwner is an option of [Connect] and [ConnectContext] that makes every
// connection one of [pipe.DialTrusted]. NewClient and package negotiate use it for the
// pipes of CSI Proxy; [Connect] alone uses any pipe.
func RequireTrustedOwner() grpc.DialOption { return trustedOwner{} }

type trustedOwner struct{ grpc.EmptyDialOption }

// dialer returns how to connect to a pipe.
func dialer(opts []grpc.DialOption) func(ctx context.Context, path string) (net.Conn, error) {
	if slices.Contains(opts, RequireTrustedOwner()) {
		return pipe.DialTrusted
	}
	return pipe.Dial
}

// newClient returns a connection that calls dial when it is first used.
func newClient(pipePath string, dial func(context.Context) (net.Conn, error), opts []grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The default is the path, which is not a valid authority.
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(reconnect),
	}, opts...)
	conn, err := grpc.NewClient("passthrough:///"+url.PathEscape(pipePath), all...)
	if err != nil {
		return nil, fmt.Errorf("gRPC connection to %q: %w", pipePath, err)
	}
	return conn, nil
}

// probe checks that there is a server. gRPC itself would connect only with the
// first call, and its error would have fewer details.
func probe(pipePath string, dial func(context.Context, string) (net.Conn, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), busyLimit)
	defer cancel()
	conn, err := dial(ctx, pipePath)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ErrNoAnswer means that the pipe exists but no gRPC server responds on it, or
// disconnects immediately: the server is starting or stopping, or it is not a gRPC
// server.
var ErrNoAnswer = errors.New("no gRPC server responds")

// ConnectContext is like [Connect], but waits until ctx ends, and returns only when
// the server has responded on the connection. If a server has created its pipe but
// does not serve it yet, ConnectContext waits for up to five seconds.
//
// It fails with the errors of [pipe.Dial], the error of ctx, or [ErrNoAnswer]. It
// opens only the returned connection, and none if it fails.
func ConnectContext(ctx context.Context, pipePath string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	dial := dialer(opts)
	first, err := dial(ctx, pipePath)
	if err != nil {
		return nil, err
	}
	open, closed := context.WithCancel(ctx)
	defer closed()
	untaken := make(chan net.Conn, 1) // the first connection, until gRPC takes it
	untaken <- &watched{first, closed}
	defer func() {
		select {
		case c := <-untaken:
			c.Close()
		default:
		}
	}()
	conn, err := newClient(pipePath, func(ctx context.Context) (net.Conn, error) {
		select {
		case c := <-untaken:
			return c, nil
		default:
			return dial(ctx, pipePath)
		}
	}, opts)
	if err != nil {
		return nil, err
	}
	conn.Connect()
	if !answered(open, conn) {
		conn.Close()
		err := ctx.Err()
		if err == nil {
			err = ErrNoAnswer
		}
		return nil, fmt.Errorf("%q: %w", pipePath, err)
	}
	return conn, nil
}

// answered waits for the server's part of the handshake. It returns false if open ends or the
// handshake fails. open ends with the connection: the state of a grpc.ClientConn is not sufficient,
// because it may become ready and idle again between two checks.
func answered(open context.Context, conn *grpc.ClientConn) bool {
	for {
		s := conn.GetState()
		switch s {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		}
		if !conn.WaitForStateChange(open, s) {
			return false
		}
	}
}

// watched is a connection that calls closed when it is closed.
type watched struct {
	net.Conn
	closed func()
}

func (c *watched) Close() error {
	c.closed()
	return c.Conn.Close()
}
