package transport

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"
)

// A server may respond and disconnect before the state of the connection is checked.
// The connection is idle then and would stay idle, so answered must not wait for it.
func TestAnsweredAfterServerDisconnected(t *testing.T) {
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
	if _, err := server.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil { // an empty SETTINGS frame
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
			t.Error("answered = true for a server that disconnected")
		}
	case <-time.After(time.Minute):
		t.Error("answered waits for a server that disconnected")
	}
}
