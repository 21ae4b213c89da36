package transport

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"
)

// A server may have answered and hung up before anybody has looked at either. A
// connection that is idle by then is not waited for: it would stay so without end.
func TestServerThatHungUpBeforeAnybodyLooked(t *testing.T) {
	client, server := net.Pipe()
	d := newDialed(t.Context(), "", client)
	defer d.drop()
	conn, err := newClient("", d.dial, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.Copy(io.Discard, server)
	conn.Connect()
	if _, err := server.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil { // SETTINGS, of nothing
		t.Fatal(err)
	}
	until := func(want connectivity.State) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for s := conn.GetState(); s != want; s = conn.GetState() {
			if !conn.WaitForStateChange(ctx, s) {
				t.Fatalf("the connection is %v, want %v", s, want)
			}
		}
	}
	until(connectivity.Ready)
	server.Close()
	until(connectivity.Idle)

	over := make(chan bool, 1)
	go func() { over <- answered(d.open, conn) }()
	select {
	case ok := <-over:
		if ok {
			t.Error("a server that hung up counts as one that answers")
		}
	case <-time.After(time.Minute):
		t.Error("a server that hung up is waited for")
	}
}
