package main

import (
	"context"
	"io"
	"testing"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// maxAllocations is how many allocations a PathExists of the daemon may have beyond those of
// bare gRPC and of the client, with logs, metrics and traces off. Lower it when the code gets
// better.
const maxAllocations = 11

func TestAllocationsPerCall(t *testing.T) {
	bare := allocations(t, echoServer)
	if got := allocations(t, stubServer) - bare; got > maxAllocations {
		t.Errorf("a call has %.0f allocations more than one of bare gRPC, which has %.0f; want at most %d", got, bare, maxAllocations)
	} else {
		t.Logf("%.0f allocations more than %.0f", got, bare)
	}
}

// allocations returns how many allocations a call of a server in this process has, with
// those of its client.
func allocations(t *testing.T, kind string) float64 {
	t.Setenv(pipe.DirVariable, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	stdin, end := io.Pipe()
	served := make(chan int)
	go func() { served <- serve(ctx, kind, nil, stdin, io.Discard, io.Discard) }()
	defer func() {
		end.Close()
		stop()
		if code := <-served; code != 0 {
			t.Errorf("%s ended with exit code %d", kind, code)
		}
	}()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		conn, err := transport.ConnectContext(ctx, pipe.Path(pipeName))
		if err == nil {
			conn.Close()
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal(err)
		}
	}
	clients, disconnect, err := connect(1)
	if err != nil {
		t.Fatal(err)
	}
	defer disconnect()
	call := func() {
		if out, err := clients[0].PathExists(ctx, &api.PathExistsRequest{Path: path}); err != nil || !out.GetExists() {
			t.Fatalf("PathExists = %v, %v", out, err)
		}
	}
	for range 100 {
		call()
	}
	return testing.AllocsPerRun(2000, call)
}
