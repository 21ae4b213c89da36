package pipes

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// A proxy that is replaced closes its connections, so one connection is one proxy. gRPC connects
// again by itself, also between the question what a proxy guarantees and a call that relies on
// the answer. The only place that knows the connection of a call before it is sent is that of
// credentials per call.

// connection is the connection of a call.
type connection struct{ credentials.AuthInfo }

type (
	askedKey   struct{} // in the context of a question: where the connection of the answer is stored
	relyingKey struct{} // in the context of a call that relies on answers: their connections, by group
)

// relied is the option of remote for connections of a group that can be relied on.
func relied(group string) remote.Option {
	return remote.WithDialOptions(grpc.WithTransportCredentials(distinct{insecure.NewCredentials()}), grpc.WithPerRPCCredentials(sameProxy{group}))
}

// distinct gives each connection an identity.
type distinct struct {
	credentials.TransportCredentials
}

func (d distinct) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return conn, &connection{info}, err
}

func (d distinct) Clone() credentials.TransportCredentials {
	return distinct{d.TransportCredentials.Clone()}
}

// sameProxy refuses a call that relies on another proxy than the one that it would be sent to.
type sameProxy struct{ group string }

func (s sameProxy) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	call, _ := credentials.RequestInfoFromContext(ctx)
	conn, _ := call.AuthInfo.(*connection)
	if asked, ok := ctx.Value(askedKey{}).(*atomic.Pointer[connection]); ok {
		asked.Store(conn)
	}
	relying, _ := ctx.Value(relyingKey{}).(map[string]*connection)
	if want := relying[s.group]; want != nil && want != conn {
		return nil, status.Error(codes.Unavailable, "another CSI Proxy serves this pipe since the driver asked what it guarantees")
	}
	return nil, nil
}

func (sameProxy) RequireTransportSecurity() bool { return false }
