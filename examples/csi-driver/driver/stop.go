package driver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// stopMethod stops the driver, and answers when no call of CSI runs. The preStop hook of a
// HostProcess pod calls it: the container's runtime ends the program 5 s after its signal.
const stopMethod = "/example.csi.Driver/Stop"

// Stop stops the driver that serves CSI on a connection, and waits for its running calls.
func Stop(ctx context.Context, conn grpc.ClientConnInterface) error {
	return conn.Invoke(ctx, stopMethod, new(emptypb.Empty), new(emptypb.Empty))
}

// registerStop makes a server stop with stop.
func (d *Driver) registerStop(s *grpc.Server, stop func()) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "example.csi.Driver", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Stop", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := decode(new(emptypb.Empty)); err != nil {
				return nil, err
			}
			go stop() // it waits for this call as well
			d.running.Lock()
			defer d.running.Unlock()
			d.stopped = true
			return new(emptypb.Empty), nil
		}}},
	}, d)
}
