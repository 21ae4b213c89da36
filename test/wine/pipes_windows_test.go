package wine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client"
	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	fsapi "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// A client without a server, with one that starts, stops and starts again.
func TestClientReconnects(t *testing.T) {
	csiProxySim.path(t)
	// A call fails at once. Waiting for a missing pipe as for a busy one would take two seconds
	// each time; on a slow machine some calls do as well.
	const times = 30
	least := time.Hour
	for range times {
		begin := time.Now()
		if c, err := filesystem.NewClient(); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("without a server: NewClient = %v, %v, want fs.ErrNotExist", c, err)
		}
		least = min(least, time.Since(begin))
	}
	if least >= 2*time.Second {
		t.Errorf("without a server: NewClient took at least %v, each of %d times", least, times)
	}

	// While the server starts, NewClient fails, at once or because the pipe stays
	// busy, or returns a working client.
	begin := time.Now()
	p := launch(t, csiProxySim)
	var c *filesystem.Client
	for c == nil {
		var err error
		c, err = filesystem.NewClient()
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !os.IsTimeout(err) {
			t.Errorf("while it starts: NewClient: %v, want fs.ErrNotExist", err)
		}
		if time.Since(begin) > timeout {
			t.Fatalf("no client in %v: %v", time.Since(begin), err)
		}
	}
	defer c.Close()
	exists := func(opts ...grpc.CallOption) error {
		out, err := c.PathExists(t.Context(), &fsapi.PathExistsRequest{Path: `C:\var\lib\kubelet`}, opts...)
		if err == nil && !out.Exists {
			t.Error("PathExists is false for the kubelet's directory")
		}
		return err
	}
	if err := exists(); err != nil {
		t.Errorf("the first call: %v", err)
	}

	p.kill()
	if err := exists(); status.Code(err) != codes.Unavailable {
		t.Errorf("without the server: %v, want Unavailable", err)
	}

	start(t, csiProxySim)
	begin = time.Now()
	if err := exists(grpc.WaitForReady(true)); err != nil {
		t.Errorf("after its restart: %v", err)
	}
	measured(t, "the client worked again after %v", time.Since(begin))
}

// Deadlines of named pipes: the server disconnects a client that sends nothing or
// an incomplete message within seconds, and serves others meanwhile.
func TestSilentClients(t *testing.T) {
	start(t, csiProxySim)
	connect := func(group string) net.Conn {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		c, err := pipe.Dial(ctx, client.PipePath(group, apiversion.NewVersionOrPanic("v1")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	begin := time.Now()
	var wg sync.WaitGroup
	disconnected := func(what string, send string, deaf, within time.Duration) {
		c := connect("disk")
		wg.Go(func() {
			// A pipe has no buffer: a write waits for the other side's read.
			go io.WriteString(c, send)
			time.Sleep(deaf)
			reads := time.Now()
			io.Copy(io.Discard, c)
			if took := time.Since(reads); took > within {
				t.Errorf("a client that sends %s was disconnected after %v, want %v at most", what, took, within)
			}
			measured(t, "a client that sends %s: disconnected after %v", what, time.Since(begin).Round(100*time.Millisecond))
		})
	}
	const preface, settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	disconnected("nothing", "", 0, time.Minute)
	// The server disconnected it before it reads: it has ten seconds from its
	// connection on.
	disconnected("nothing, and does not read for 15 s", "", 15*time.Second, 8*time.Second)
	disconnected("half a preface", preface[:10], 0, time.Minute)
	disconnected("half a frame", preface+settings+"\x00\x00\x64", 0, time.Minute)
	idle, err := disk.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	list := func() {
		if _, err := idle.ListDiskIDs(t.Context(), &diskapi.ListDiskIDsRequest{}); err != nil {
			t.Errorf("ListDiskIDs after %v: %v", time.Since(begin), err)
		}
	}
	list()

	// On another pipe, more connections than it accepts.
	for range 300 {
		connect("filesystem")
	}
	c, err := filesystem.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.PathExists(t.Context(), &fsapi.PathExistsRequest{Path: `C:\var\lib\kubelet`}); err != nil {
		t.Errorf("behind 300 silent clients: %v", err)
	}
	measured(t, "a call behind 300 silent connections: after %v", time.Since(begin).Round(time.Millisecond))
	wg.Wait()
	list() // on a connection that has been idle for longer than any of them
}
