package driver

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
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

// Once the preStop hook has its answer, the program may be ended at any time: a call that arrives
// while the hook waits for another one must not run after that.
func TestNoCallRunsAfterStop(t *testing.T) {
	d := New(Config{Log: klog.Background()})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(t.Context(), l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	call := func(do func()) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := d.intercept(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Node/Test"}, func(context.Context, any) (any, error) {
				do()
				return nil, nil
			})
			done <- err
		}()
		return done
	}
	running, end := make(chan struct{}), make(chan struct{})
	first := call(func() { close(running); <-end })
	<-running
	stopped := make(chan error, 1)
	go func() { stopped <- Stop(t.Context(), conn) }()
	for d.running.TryRLock() { // the hook does not wait yet
		d.running.RUnlock()
		time.Sleep(time.Millisecond)
	}
	second := call(func() { t.Error("a call began after the stop") })
	time.Sleep(20 * time.Millisecond) // it waits as well
	close(end)
	if err := <-first; err != nil {
		t.Errorf("the call that ran = %v", err)
	}
	if err := <-second; status.Code(err) != codes.Unavailable {
		t.Errorf("the call that arrived during the stop = %v, want Unavailable", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop = %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
}
