package transport

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A server may respond and disconnect before the state of the connection is checked.
// The connection is idle then and would stay idle, so answered must not wait for it.
func TestAnsweredAfterServerDisconnected(t *testing.T) {
	client, server := net.Pipe()
	open, closed := context.WithCancel(t.Context())
	defer closed()
	conn, err := newClient("", func(context.Context) (net.Conn, error) { return &watched{client, closed}, nil }, nil)
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
	go func() { over <- answered(open, conn) }()
	select {
	case ok := <-over:
		if ok {
			t.Error("answered = true for a server that disconnected")
		}
	case <-time.After(time.Minute):
		t.Error("answered waits for a server that disconnected")
	}
}

// Without a server gRPC tries again after a tenth of a second, and every few seconds in the end.
func TestAttemptsToReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits = 10 * time.Minute
		var gaps []time.Duration
		last := time.Now()
		conn, err := newClient("", func(context.Context) (net.Conn, error) {
			gaps = append(gaps, time.Since(last))
			last = time.Now()
			return nil, io.ErrUnexpectedEOF
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), waits)
		defer cancel()
		err = conn.Invoke(ctx, "/v1.Disk/Rescan", &emptypb.Empty{}, &emptypb.Empty{}, grpc.WaitForReady(true))
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a call without a server: %v, want DeadlineExceeded", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if len(gaps) < 2 || gaps[1] > 120*time.Millisecond || slices.Max(gaps) > 3600*time.Millisecond {
			t.Errorf("the times between attempts are %v, want 100 ms at first, and 3 s at most, each 20%% more or less", gaps)
		}
		if most := 250; len(gaps) > most {
			t.Errorf("%d attempts in %v, want %d at most", len(gaps), waits, most)
		}
	})
}
