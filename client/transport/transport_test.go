package transport_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// disks returns the disk number as the size of a disk. Rescan sends its deadline and
// waits for its context. GetDiskState fails.
type disks struct {
	api.UnimplementedDiskServer
	deadlines chan time.Time
	rescanned chan error
}

func (d *disks) GetDiskStats(_ context.Context, in *api.GetDiskStatsRequest) (*api.GetDiskStatsResponse, error) {
	return &api.GetDiskStatsResponse{TotalBytes: int64(in.DiskNumber)}, nil
}

func (d *disks) Rescan(ctx context.Context, _ *api.RescanRequest) (*api.RescanResponse, error) {
	deadline, _ := ctx.Deadline()
	d.deadlines <- deadline
	<-ctx.Done()
	d.rescanned <- ctx.Err()
	return nil, ctx.Err()
}

func (d *disks) GetDiskState(ctx context.Context, _ *api.GetDiskStateRequest) (*api.GetDiskStateResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return nil, status.Errorf(codes.NotFound, "authority %v", md[":authority"])
}

// serve serves the disk API at a pipe until the test ends or stop is called.
func serve(t *testing.T, path string) (srv *disks, l *pipetest.Listener, stop func()) {
	t.Helper()
	l = pipetest.Listen(t, path)
	srv = &disks{deadlines: make(chan time.Time, 1), rescanned: make(chan error, 1)}
	s := grpc.NewServer()
	api.RegisterDiskServer(s, srv)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return srv, l, stop
}

func newClient(t *testing.T, path string) *disk.Client {
	t.Helper()
	c, err := disk.NewClientWithPipePath(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) // a second Close returns an error, which is ignored
	return c
}

func TestConnectFailsWithoutServer(t *testing.T) {
	path := pipetest.Path(t)
	// Fake time advances only while all goroutines wait.
	synctest.Test(t, func(t *testing.T) { testConnectFailsWithoutServer(t, path) })
}

func testConnectFailsWithoutServer(t *testing.T, path string) {
	start := time.Now()
	c, err := disk.NewClientWithPipePath(path)
	if c != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("NewClientWithPipePath(%q) = %v, %v, want fs.ErrNotExist", path, c, err)
	}
	name, nameErr := pipe.Name(path)
	if nameErr != nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error %q does not name the pipe %q", err, name)
	}
	if _, ok := status.FromError(err); ok {
		t.Errorf("error %q is a gRPC status; published clients return the bare error", err)
	}
	if took := time.Since(start); took > 0 {
		t.Errorf("waited %v", took)
	}
}

func TestConnectFailsOnStaleSocket(t *testing.T) {
	path := pipetest.Path(t)
	socket := pipetest.Stale(t, path)
	_, err := disk.NewClientWithPipePath(path)
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), socket) {
		t.Errorf("NewClientWithPipePath(%q): error %v, want ECONNREFUSED with the path %q", path, err, socket)
	}
}

func TestConnectRefusesInvalidPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows checks the path itself: run it on Linux")
	}
	_, err := disk.NewClientWithPipePath("csi-proxy-disk-v1")
	if err == nil || !strings.Contains(err.Error(), `want \\.\pipe\NAME, or the absolute path of a unix socket`) {
		t.Errorf("error %v does not contain the expected forms", err)
	}
}

// useOnce creates a client, calls, closes it, waits until no connection is open,
// and returns the number of accepted connections. A connection that was only probed
// may still be in the queue. (On a named pipe it may never be accepted:
// ConnectNamedPipe fails with ERROR_NO_DATA after its client disconnected.) When a
// call has returned, all earlier connections have been accepted.
func useOnce(t *testing.T, l *pipetest.Listener, path string) (accepted int) {
	t.Helper()
	c := newClient(t, path)
	if _, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	l.WaitOpen(t, 0)
	return l.Accepted()
}

// The server has one connection while the client is in use, and none after the client
// was closed.
func TestNoConnectionRemains(t *testing.T) {
	path := pipetest.Path(t)
	_, l, _ := serve(t, path)
	// The first use of a named pipe starts goroutines that never end.
	first := useOnce(t, l, path)
	before := runtime.NumGoroutine()
	for i := range 5 {
		c := newClient(t, path)
		for n := range uint32(3) {
			resp, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{DiskNumber: n})
			if err != nil || resp.TotalBytes != int64(n) {
				t.Fatalf("GetDiskStats(%d) = %v, %v", n, resp, err)
			}
		}
		l.WaitOpen(t, 1)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		l.WaitOpen(t, 0)
		if got, most := l.Accepted()-first, 2*(i+1); got > most {
			t.Errorf("%d connections for %d clients, want at most %d", got, i+1, most)
		}
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > before; wait *= 2 {
		if wait > time.Minute {
			t.Fatalf("%d goroutines remain, there were %d", runtime.NumGoroutine(), before)
		}
		time.Sleep(wait)
	}
}

// For a client that is never used, only the probe connects.
func TestUnusedClientHoldsNoConnection(t *testing.T) {
	path := pipetest.Path(t)
	_, l, _ := serve(t, path)
	c := newClient(t, path)
	useOnce(t, l, path)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("a call after Close: %v, want Canceled", err)
	}
}

// expiring is a context whose deadline expires when the test closes over.
type expiring struct {
	context.Context
	deadline time.Time
	over     chan struct{}
}

func (c *expiring) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *expiring) Done() <-chan struct{}       { return c.over }

func (c *expiring) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestDeadlineReachesTheServer(t *testing.T) {
	path := pipetest.Path(t)
	srv, _, _ := serve(t, path)
	c := newClient(t, path)
	ctx := &expiring{t.Context(), time.Now().Add(time.Hour), make(chan struct{})}
	answered := make(chan error, 1)
	go func() {
		_, err := c.Rescan(ctx, &api.RescanRequest{})
		answered <- err
	}()
	next := func(from <-chan error, what string) error {
		t.Helper()
		select {
		case err := <-from:
			return err
		case <-time.After(time.Minute):
			t.Fatal(what)
			return nil
		}
	}
	select {
	case deadline := <-srv.deadlines:
		if off := deadline.Sub(ctx.deadline).Abs(); off > 10*time.Minute {
			t.Errorf("the server's deadline is %v, %v off from %v", deadline, off, ctx.deadline)
		}
	case err := <-answered:
		t.Fatalf("Rescan: %v, want it to wait", err)
	}
	close(ctx.over)
	if err := next(answered, "the call does not end at its deadline"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Rescan: %v, want DeadlineExceeded", err)
	}
	if err := next(srv.rescanned, "the deadline did not reach the server"); err == nil {
		t.Error("the server's context did not end")
	}
}

func TestStatusReachesClient(t *testing.T) {
	path := pipetest.Path(t)
	serve(t, path)
	c := newClient(t, path)
	_, err := c.GetDiskState(t.Context(), &api.GetDiskStateRequest{})
	if want := "authority [localhost]"; status.Code(err) != codes.NotFound || status.Convert(err).Message() != want {
		t.Errorf("GetDiskState: %v, want NotFound, %s", err, want)
	}
}

// While the server is stopped, calls fail with a status. When it runs again, the
// client reconnects by itself.
func TestClientReconnectsAfterRestart(t *testing.T) {
	path := pipetest.Path(t)
	_, _, stop := serve(t, path)
	c := newClient(t, path)
	if _, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{}); err != nil {
		t.Fatal(err)
	}

	stop()
	if _, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("with no server: %v, want Unavailable", err)
	}

	serve(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := c.GetDiskStats(ctx, &api.GetDiskStatsRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("with a new server: %v", err)
	}
}

// A stopping server completes the handshake and disconnects. ConnectContext then
// returns a connection or ErrNoAnswer, but does not block.
func TestConnectToServerThatDisconnects(t *testing.T) {
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	go l.Handle(func(c net.Conn) {
		c.Read(make([]byte, 64))
		c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // an empty SETTINGS frame
	})
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := transport.ConnectContext(ctx, path)
		if err == nil {
			err = conn.Close()
		}
		if err != nil && !errors.Is(err, transport.ErrNoAnswer) {
			t.Fatalf("ConnectContext: %v, want a connection or %v", err, transport.ErrNoAnswer)
		}
	}
}

// ConnectContext closes the connection that it opened, if gRPC does not take it.
func TestFailedConnectLeavesNoConnection(t *testing.T) {
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	read := make(chan error, 1)
	go l.Handle(func(c net.Conn) {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := c.Read(make([]byte, 1))
		read <- err
	})
	if _, err := transport.ConnectContext(t.Context(), path, grpc.WithDefaultServiceConfig("none")); err == nil {
		t.Fatal("connected with an option that is not valid")
	}
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Errorf("the connection ends with %v, want that it is closed", err)
	}
}

// A caller that brings its own dialer keeps no other connection.
func TestConnectWithOwnDialerLeavesNoConnection(t *testing.T) {
	path := pipetest.Path(t)
	_, l, _ := serve(t, path)
	own := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.Dial(ctx, path) })
	conn, err := transport.ConnectContext(t.Context(), path, own)
	if err != nil {
		t.Fatal(err)
	}
	l.WaitOpen(t, 1)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	l.WaitOpen(t, 0)
}

// Connect waits for a busy pipe longer than the two seconds of published clients.
// Here it is busy because the server does not accept connections yet.
func TestConnectWaitsForBusyPipe(t *testing.T) {
	if runtime.GOOS != "windows" {
		t.Skip("connecting to a socket succeeds before the server accepts: run it on Windows")
	}
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	s := grpc.NewServer()
	t.Cleanup(s.Stop)
	go func() {
		time.Sleep(3 * time.Second)
		s.Serve(l)
	}()
	conn, err := transport.Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
