package serve_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskclient "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

// fakeDisk returns what a test sets.
type fakeDisk struct {
	disk.Service
	rescan func(context.Context) error
	ids    map[uint32]*disk.DiskIDs
}

func (d *fakeDisk) ListDiskIDs(context.Context, *disk.ListDiskIDsRequest) (*disk.ListDiskIDsResponse, error) {
	return &disk.ListDiskIDsResponse{DiskIDs: d.ids}, nil
}

func (d *fakeDisk) Rescan(ctx context.Context, _ *disk.RescanRequest) (*disk.RescanResponse, error) {
	if err := d.rescan(ctx); err != nil {
		return nil, err
	}
	return &disk.RescanResponse{}, nil
}

type fakeSMB struct{ smb.Service }

func (fakeSMB) NewSMBGlobalMapping(context.Context, *smb.NewSMBGlobalMappingRequest) (*smb.NewSMBGlobalMappingResponse, error) {
	return nil, hosterr.Wrap("map", hosterr.Quote(`\\server\share`), hosterr.ErrPermissionDenied)
}

// logBuffer collects log lines from several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// socketDir creates a directory with a short path, in which the listeners and
// clients of this test have their sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)
	return dir
}

// begin serves g until the test ends or stop is called, and returns when the server
// is ready. stop returns the result of Serve.
func begin(t *testing.T, config serve.Config, g wire.Groups) (stop func() error) {
	t.Helper()
	ready := make(chan struct{})
	if config.Ready == nil {
		config.Ready = func() { close(ready) }
	} else {
		close(ready)
	}
	s, err := serve.Open(context.Background(), config, serve.Pipes(wire.Services(g))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- s.Serve(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-result })
	t.Cleanup(func() { stop() })
	<-ready
	return stop
}

func dialDisk(t *testing.T) *diskclient.Client {
	t.Helper()
	c, err := diskclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestPanicReturnsInternal(t *testing.T) {
	socketDir(t)
	var log logBuffer
	calls := 0
	begin(t, serve.Config{Log: log.logger(slog.LevelInfo)}, wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error {
		calls++
		if calls == 1 {
			panic("no such session")
		}
		return nil
	}}})
	c := dialDisk(t)
	_, err := c.Rescan(t.Context(), &diskv1.RescanRequest{})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no such session") {
		t.Errorf("call that panics = %v, want Internal with the value of the panic", err)
	}
	if _, err := c.Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("next call = %v, want success", err)
	}
	if got := log.String(); strings.Count(got, "Request failed") != 1 || !strings.Contains(got, "server_test.go") {
		t.Errorf("log = %q, want one failure with the stack", got)
	}
}

func TestPanicInMetricsReturnsInternal(t *testing.T) {
	socketDir(t)
	var log logBuffer
	boom := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		panic("in the metrics")
	}
	begin(t, serve.Config{Log: log.logger(slog.LevelInfo), Count: boom},
		wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error { return nil }}})
	if _, err := dialDisk(t).Rescan(t.Context(), &diskv1.RescanRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("Rescan = %v, want Internal", err)
	}
}

func TestSecondServerHasNoPipe(t *testing.T) {
	dir := socketDir(t)
	g := wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error { return nil }}}
	begin(t, serve.Config{}, g)
	c := dialDisk(t)

	g.SMB = fakeSMB{}
	ctx, cancel := context.WithCancel(t.Context())
	reason := "another CSI Proxy"
	if runtime.GOOS == "windows" { // which knows the process that serves a pipe
		reason = "this process serves the pipe already"
	}
	_, err := serve.Open(ctx, serve.Config{Log: quiet, InUse: func(error) { cancel() }}, serve.Pipes(wire.Services(g))...)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), reason) {
		t.Errorf("second server: %v, want that %q", err, reason)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "csi-proxy-smb-*")); len(left) > 0 {
		t.Errorf("the failed server left %q", left)
	}
	if _, err := c.Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("the first server returns %v, want success", err)
	}
}

func TestConcurrentServersOneServes(t *testing.T) {
	socketDir(t)
	pipes := serve.Pipes(wire.Disk(&fakeDisk{}, nil))
	for range 100 {
		var starting sync.WaitGroup
		var servers [3]*serve.Server
		var errs [3]error
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range servers {
			starting.Go(func() {
				servers[i], errs[i] = serve.Open(ctx, serve.Config{Log: quiet}, pipes...)
				cancel() // the others would wait for this one to stop
			})
		}
		starting.Wait()
		opened := 0
		for _, s := range servers {
			if s != nil {
				opened++
				s.Close()
			}
		}
		if opened != 1 {
			t.Fatalf("%d servers have pipes, want one: %v", opened, errs)
		}
	}
}

func TestOpenCreatesAllPipesBeforeServing(t *testing.T) {
	synctest.Test(t, testNoPipeAnswersBeforeAllAreMade)
}

func testNoPipeAnswersBeforeAllAreMade(t *testing.T) {
	var made, closed int
	pipes := serve.Pipes(wire.Disk(&fakeDisk{}, nil))[:3]
	listen := func(name string) (net.Listener, error) {
		if name == pipes[2].Name {
			return nil, errors.New("no more pipes")
		}
		made++
		return silentListener{&closed}, nil
	}
	_, err := serve.Open(context.Background(), serve.Config{Listen: listen}, pipes...)
	if err == nil || !strings.Contains(err.Error(), "create pipe "+pipes[2].Name+": no more pipes") {
		t.Errorf("Open = %v, want the error of the third pipe", err)
	}
	if closed != made {
		t.Errorf("%d pipes were created and %d closed", made, closed)
	}
}

// silentListener panics in Accept and counts calls of Close.
type silentListener struct{ closed *int }

func (l silentListener) Accept() (net.Conn, error) { panic("accepted before all pipes were created") }
func (l silentListener) Close() error              { *l.closed++; return nil }
func (l silentListener) Addr() net.Addr            { return &net.UnixAddr{} }

// A client that has sent half of its settings keeps gRPC from notifying the other
// clients that the server is stopping. Their new calls are rejected, because they
// would be cut off.
func TestStopRefusesNewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		l, h := newMemory(), held{release: make(chan struct{})}
		stop := inMemory(t, log.logger(slog.LevelInfo), l, h.disk())
		conn := l.client(t)
		call := func() error {
			_, err := diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{})
			return err
		}
		half := sendPreface(l.dial())
		defer half.Close()
		half.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0})
		running := make(chan error, 1)
		go func() { running <- call() }()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		select {
		case <-l.closed:
		default:
			t.Error("the pipe exists while the server stops")
		}

		if s := status.Convert(call()); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "csi-proxy is stopping") {
			t.Errorf("a call while the server stops = %v, want Unavailable with the reason", s)
		}
		if want := `level=WARN msg="Request failed"`; !strings.Contains(log.String(), want) {
			t.Errorf("the log of a rejected call is %q, want %s", log.String(), want)
		}
		if n := h.running.Load(); n != 1 {
			t.Errorf("%d calls are running, want the first one only", n)
		}
		if got, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "v1.Disk"}); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health of a stopping server = %v, %v, want NOT_SERVING", got, err)
		}
		close(h.release)
		if err := <-running; err != nil {
			t.Errorf("running call = %v, want its answer", err)
		}
		<-stopped
	})
}

// Idle connections, like those that published clients leave open, do not delay the stop. Nor does
// a client that would watch the health: there are no streams.
func TestStopDisconnectsIdleClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		stop := inMemory(t, quiet, l, rescans())
		silent := l.dial()
		defer silent.Close()
		left := make(chan struct{})
		go func() { io.Copy(io.Discard, silent); close(left) }()
		conn := l.client(t)
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "v1.Disk"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); status.Code(err) != codes.Unimplemented {
			t.Errorf("a stream ends with %v, want Unimplemented", err)
		}
		synctest.Wait()

		start := time.Now()
		stop()
		if took := time.Since(start); took >= time.Second {
			t.Errorf("stopping took %v, want no time", took)
		}
		synctest.Wait()
		select {
		case <-left:
		default:
			t.Error("the silent client is still connected")
		}
	})
}

// A call continues when its client gives up and disconnects, and the stop waits for
// it.
func TestStopWaitsForCallsOfDisconnectedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newMemory(), held{release: make(chan struct{})}
		work := h.disk().rescan
		stop := inMemory(t, quiet, l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, err := node.Await(ctx, func() (struct{}, error) { return struct{}{}, work(ctx) })
			return err
		}})
		conn := l.client(t)
		ctx, giveUp := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			_, err := diskv1.NewDiskClient(conn).Rescan(ctx, &diskv1.RescanRequest{})
			answer <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-answer; err == nil {
			t.Fatal("Rescan succeeded, want an error because its caller gave up")
		}
		conn.Close()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		time.Sleep(30 * time.Second)
		select {
		case <-stopped:
			t.Error("the server stopped before the call finished")
		default:
		}
		close(h.release)
		<-stopped
		if n := h.running.Load(); n != 0 {
			t.Errorf("%d calls are running after the server stopped", n)
		}
	})
}

func TestStopCutsOffCallsAfterGrace(t *testing.T) {
	socketDir(t)
	var log logBuffer
	started, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	stop := begin(t, serve.Config{Log: log.logger(slog.LevelInfo), Grace: time.Millisecond}, wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error {
		close(started)
		<-finish
		return nil
	}}})
	c := dialDisk(t)
	go c.Rescan(context.Background(), &diskv1.RescanRequest{})
	<-started
	if err := stop(); err == nil || !strings.Contains(err.Error(), "cut off 1 calls") {
		t.Errorf("Serve = %v, want an error because one call was cut off", err)
	}
}

func TestStopBeforeReady(t *testing.T) {
	socketDir(t)
	s, err := serve.Open(context.Background(), serve.Config{Ready: func() { t.Error("Ready was called") }}, serve.Pipes(wire.Disk(&fakeDisk{}, nil))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ctx); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}

// lateListener blocks in Addr until it is closed.
type lateListener struct{ *memory }

func (l lateListener) Addr() net.Addr { <-l.closed; return l.memory.Addr() }

func TestFailedPipePreventsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := serve.Pipes(wire.Disk(&fakeDisk{}, nil))
		s, err := serve.Open(context.Background(), serve.Config{
			Log: quiet,
			Listen: func(name string) (net.Listener, error) {
				if name == pipes[0].Name {
					return lateListener{newMemory()}, nil // delays checkPipes
				}
				return &failingListener{memory: newMemory(), times: 1, err: net.ErrClosed}, nil
			},
			Ready: func() { t.Error("Ready was called") },
		}, pipes...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve = %v, want the failure", err)
		}
	})
}

func TestFailingPipeStopsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the pipe broke")
		listen := func(name string) (net.Listener, error) {
			if name == "csi-proxy-disk-v1beta1" {
				return &failingListener{memory: newMemory(), times: 1 << 30, err: broken}, nil
			}
			return newMemory(), nil
		}
		s, err := serve.Open(context.Background(), serve.Config{Listen: listen, Log: slog.New(slog.DiscardHandler)}, serve.Pipes(wire.Disk(&fakeDisk{}, nil))...)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := s.Serve(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "csi-proxy-disk-v1beta1") {
			t.Errorf("Serve = %v, want the failure with its pipe", err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("the server stopped after %v, want 30 s", took)
		}
	})
}

// A server with a failed pipe says so before its running calls have finished, so that probes
// do not consider it serving or hanging.
func TestStoppingIsKnownWhileCallsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pipes []*memory
		listen := func(string) (net.Listener, error) {
			pipes = append(pipes, newMemory())
			return pipes[len(pipes)-1], nil
		}
		finish, stopping := make(chan struct{}), 0
		d := &fakeDisk{rescan: func(context.Context) error { <-finish; return nil }}
		s, err := serve.Open(context.Background(), serve.Config{Listen: listen, Log: quiet, Stopping: func() { stopping++ }}, serve.Pipes(wire.Disk(d, nil))...)
		if err != nil {
			t.Fatal(err)
		}
		served, called := make(chan error), make(chan error)
		go func() { served <- s.Serve(t.Context()) }()
		name := slices.IndexFunc(wire.Disk(d, nil), func(s wire.Service) bool { return s.Version.String() == "v1" })
		client := diskv1.NewDiskClient(pipes[name].client(t))
		go func() {
			_, err := client.Rescan(t.Context(), &diskv1.RescanRequest{})
			called <- err
		}()
		synctest.Wait()
		if stopping != 0 {
			t.Error("a server that serves is said to stop")
		}
		pipes[(name+1)%len(pipes)].Close()
		synctest.Wait()
		if stopping != 1 {
			t.Errorf("Stopping was called %d times while a call ran, want once", stopping)
		}
		close(finish)
		if err := <-called; err != nil {
			t.Errorf("the call that ran: %v", err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) || stopping != 1 {
			t.Errorf("Serve = %v after %d times, want the failure of the pipe", err, stopping)
		}
	})
}
