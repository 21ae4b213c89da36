// Package transport makes gRPC connections to the pipes of a CSI Proxy.
//
// The clients below groups are made from it. Use it for what they do not
// cover: another service of the same server, or a call whose group and version
// are known only at run time.
package transport

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// busyLimit is how long [Connect] waits for a pipe of which all instances are
// busy.
const busyLimit = 2 * time.Second

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
// It fails at once if nobody serves there, with the error of [pipe.Dial] as it
// is. Whether the server is there later shows in each call: one for which there
// is no server ends with the status Unavailable, and the connection comes back
// by itself when the server does. Close it when it is no longer used.
//
// Neither side encrypts or proves who it is: who may open the pipe may call.
func Connect(pipePath string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := probe(pipePath); err != nil {
		return nil, err
	}
	all := append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return pipe.Dial(ctx, pipePath)
		}),
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
