package driver

import (
	"context"
	"net"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
)

// Stop answers when the running calls have ended; then Serve returns.
func TestStopWaitsForCalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Log: klog.Background()})
	served := make(chan error, 1)
	go func() { served <- d.Serve(context.Background(), l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
		t.Fatal(err)
	}
	started, finish := make(chan struct{}), make(chan struct{})
	called := make(chan error, 1)
	go func() {
		_, err := d.intercept(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Node/NodeStageVolume"}, func(context.Context, any) (any, error) {
			close(started)
			<-finish
			return nil, nil
		})
		called <- err
	}()
	<-started
	stopped := make(chan error, 1)
	go func() { stopped <- Stop(context.Background(), conn) }()
	for { // until the driver takes no connection
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		c.Close()
	}
	if len(stopped) > 0 {
		t.Errorf("Stop = %v while a call runs", <-stopped)
	}
	close(finish)
	for _, end := range []chan error{called, stopped, served} {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
}
