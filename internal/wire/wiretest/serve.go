package wiretest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// Serve runs a gRPC server in memory until the test ends, with what register puts
// into it, and returns a connection to it.
func Serve(t testing.TB, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer()
	register(s)
	l := bufconn.Listen(1 << 16)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///node",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Register puts all versions of the groups into a server.
func Register(s *grpc.Server, groups wire.Groups) {
	for _, svc := range wire.Services(groups) {
		s.RegisterService(svc.Desc, svc.Impl)
	}
}
