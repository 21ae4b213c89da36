package transport_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	volumeapi "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// disks answers with the number it is asked for, tells in Rescan of its deadline and
// waits for its context, and refuses GetDiskState. It embeds nothing but what makes it
// short.
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
	t.Cleanup(func() { c.Close() }) // a second Close is an error, and harmless
	return c
}

func TestFailsAtOnceWhenNobodyServes(t *testing.T) {
	path := pipetest.Path(t)
	// Time passes there only while somebody waits for it.
	synctest.Test(t, func(t *testing.T) { testFailsAtOnce(t, path) })
}

func testFailsAtOnce(t *testing.T, path string) {
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

func TestFailsAtOnceOnAStaleSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a pipe ends with its server: run it on Linux")
	}
	path := pipetest.Path(t)
	socket, err := pipe.SocketPath(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal(err)
	}
	_, err = disk.NewClientWithPipePath(path)
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), socket) {
		t.Errorf("NewClientWithPipePath(%q): error %v, want a refusal that names %q", path, err, socket)
	}
}

func TestRefusesWhatIsNoPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows itself judges the path there: run it on Linux")
	}
	_, err := disk.NewClientWithPipePath("csi-proxy-disk-v1")
	if err == nil || !strings.Contains(err.Error(), `want \\.\pipe\NAME, or the absolute path of a unix socket`) {
		t.Errorf("error %v does not say what is wanted", err)
	}
}

// useOnce makes a client, calls, closes it, waits until no connection is open,
// and tells how many were accepted until then. A connection that was only
// probed may still stand in the queue (or, of a named pipe, never be accepted:
// ConnectNamedPipe fails with ERROR_NO_DATA once its client is gone); one that
// answered a call had all the earlier ones accepted before it.
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

// TestNoConnectionRemains counts what the server sees: one connection while
// the client works, none after it was closed.
func TestNoConnectionRemains(t *testing.T) {
	path := pipetest.Path(t)
	_, l, _ := serve(t, path)
	// What the first use of a named pipe starts for good is there before.
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

// TestUnusedClientHoldsNothing is the case in which nothing but the probe ever
// connects.
func TestUnusedClientHoldsNothing(t *testing.T) {
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

// expiring is a context with a deadline that comes when the test says so.
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
		t.Fatalf("Rescan: %v, want that it waits", err)
	}
	close(ctx.over)
	if err := next(answered, "the call does not end with its deadline"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Rescan: %v, want DeadlineExceeded", err)
	}
	if err := next(srv.rescanned, "the server did not learn of the deadline"); err == nil {
		t.Error("the server's context did not end")
	}
}

func TestStatusOfServerArrives(t *testing.T) {
	path := pipetest.Path(t)
	serve(t, path)
	c := newClient(t, path)
	_, err := c.GetDiskState(t.Context(), &api.GetDiskStateRequest{})
	if want := "authority [localhost]"; status.Code(err) != codes.NotFound || status.Convert(err).Message() != want {
		t.Errorf("GetDiskState: %v, want NotFound, %s", err, want)
	}
}

func TestUnimplemented(t *testing.T) {
	path := pipetest.Path(t)
	serve(t, path)

	c := newClient(t, path)
	if _, err := c.PartitionDisk(t.Context(), &api.PartitionDiskRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that the server has not: %v, want Unimplemented", err)
	}

	v, err := volume.NewClientWithPipePath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.FormatVolume(t.Context(), &volumeapi.FormatVolumeRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a service that the server has not: %v, want Unimplemented", err)
	}
}

// TestServerGoesAndComesBack restarts the server under a client: calls in
// between fail with a status, and the client finds the new server by itself.
func TestServerGoesAndComesBack(t *testing.T) {
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

func TestOneClientManyGoroutines(t *testing.T) {
	path := pipetest.Path(t)
	_, l, _ := serve(t, path)
	c := newClient(t, path)
	var wg sync.WaitGroup
	for n := range uint32(50) {
		wg.Go(func() {
			resp, err := c.GetDiskStats(t.Context(), &api.GetDiskStatsRequest{DiskNumber: n})
			if err != nil || resp.TotalBytes != int64(n) {
				t.Errorf("GetDiskStats(%d) = %v, %v", n, resp, err)
			}
		})
	}
	wg.Wait()
	l.WaitOpen(t, 1)
}

// A server that is stopped completes a handshake and hangs up. Whoever connects then
// is told so, or has a connection; nobody waits for what will not come.
func TestServerThatHangsUpAfterItsHandshake(t *testing.T) {
	path := pipetest.Path(t)
	l := pipetest.Listen(t, path)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 64))
			c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // SETTINGS, of nothing
			c.Close()
		}
	}()
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

// A pipe that is busy is waited for, for longer than the two seconds that published
// clients have. Here it is busy because nobody takes connections yet.
func TestBusyPipeIsWaitedFor(t *testing.T) {
	if runtime.GOOS != "windows" {
		t.Skip("a socket takes connections before anybody accepts them: run it on Windows")
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
