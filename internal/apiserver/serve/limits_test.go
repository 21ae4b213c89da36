package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	iscsiv1 "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	systemv1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/system"
)

// memory is a listener with connections in memory, so that tests can use synctest's
// fake time.
type memory struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *memory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *memory) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memory) Addr() net.Addr { return &net.UnixAddr{} }

// dial connects to the listener.
func (l *memory) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// client is a gRPC client of the listener.
func (l *memory) client(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.dial(), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// failingListener fails to accept the given number of times.
type failingListener struct {
	*memory
	times int
	err   error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, l.err
	}
	return l.memory.Accept()
}

// inMemory serves version v1 of the disk API until the test ends or stop is
// called.
func inMemory(t *testing.T, log *slog.Logger, l net.Listener, d *fakeDisk) (stop func()) {
	t.Helper()
	return inMemoryWith(t, serve.Config{Log: log}, l, d)
}

func inMemoryWith(t *testing.T, config serve.Config, l net.Listener, d *fakeDisk) (stop func()) {
	t.Helper()
	config.Listen = func(string) (net.Listener, error) { return l, nil }
	services := wire.Disk(d, nil)
	v1 := slices.IndexFunc(services, func(s wire.Service) bool { return s.Version.String() == "v1" })
	s, err := serve.Open(context.Background(), config, serve.Pipes(services[v1:v1+1])...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

var quiet = slog.New(slog.DiscardHandler)

func rescans() *fakeDisk {
	return &fakeDisk{rescan: func(context.Context) error { return nil }}
}

// watched is a listener that closes ended when the server closes a connection.
type watched struct {
	net.Listener
	ended chan struct{}
}

func (l watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: c, ended: l.ended}, nil
}

type watchedConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// SetDeadline must not be called: it would change the deadline of a running Write.
func (c *watchedConn) SetDeadline(time.Time) error {
	return errors.New("want SetReadDeadline or SetWriteDeadline")
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

// rawClient is a client that sends single HTTP/2 frames, so that a test can leave
// some out.
type rawClient struct {
	net.Conn
	frames *http2.Framer
}

// sendPreface starts an HTTP/2 connection and omits the settings.
func sendPreface(c net.Conn) rawClient {
	go io.Copy(io.Discard, c) // the server would block if nothing read its frames
	io.WriteString(c, http2.ClientPreface)
	return rawClient{c, http2.NewFramer(c, nil)}
}

// headers sends the headers of a call of Rescan.
func (h rawClient) headers(stream uint32) { h.begin(stream, "/v1.Disk/Rescan") }

// begin sends the headers of a call of any method.
func (h rawClient) begin(stream uint32, path string) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	h.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true})
}

// A client that is slow or stops halfway is disconnected after seconds.
func TestServerDropsSlowClients(t *testing.T) {
	for _, c := range []struct {
		name   string
		behave func(net.Conn)
		within time.Duration
	}{
		{"no data, like the idle connection of published clients", func(net.Conn) {}, 10 * time.Second},
		{"half a preface", func(c net.Conn) { io.WriteString(c, http2.ClientPreface[:10]) }, 10 * time.Second},
		{"another protocol", func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: node\r\n\r\n") }, 10 * time.Second},
		{"no settings", func(c net.Conn) { sendPreface(c) }, 10 * time.Second},
		{"settings and nothing more", func(c net.Conn) { sendPreface(c).frames.WriteSettings() }, 20 * time.Second},
		{"half a frame", func(c net.Conn) {
			h := sendPreface(c)
			h.frames.WriteSettings()
			h.Write([]byte{0, 0, 100, 0})
		}, 20 * time.Second},
		{"a frame sent byte by byte", func(c net.Conn) {
			h := sendPreface(c)
			h.frames.WriteSettings()
			for _, b := range append([]byte{0, 0, 100, 0, 0, 0, 0, 0, 1}, make([]byte, 100)...) {
				time.Sleep(time.Second)
				if _, err := h.Write([]byte{b}); err != nil {
					return
				}
			}
		}, 20 * time.Second},
		{"sends and does not read", func(c net.Conn) {
			settings := make([]byte, 9)
			io.ReadFull(c, settings)
			io.ReadFull(c, make([]byte, int(settings[1])<<8|int(settings[2])))
			io.ReadFull(c, make([]byte, 9+4)) // the window of the connection
			io.WriteString(c, http2.ClientPreface)
			f := http2.NewFramer(c, nil)
			f.WriteSettings()
			for f.WriteWindowUpdate(0, 1) == nil {
				time.Sleep(time.Second)
			}
		}, 11 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, ended := newMemory(), make(chan struct{})
				inMemory(t, quiet, watched{l, ended}, rescans())
				conn := l.dial()
				defer conn.Close()
				start := time.Now()
				var client sync.WaitGroup
				client.Go(func() { c.behave(conn) })
				defer client.Wait()
				<-ended
				if took := time.Since(start); took > c.within {
					t.Errorf("dropped after %v, want %v at most", took, c.within)
				}
			})
		})
	}
}

// A call that sends only headers times out after seconds, even if its client
// replies to pings.
func TestCallWithoutMessageTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		inMemory(t, quiet, l, rescans())
		c := l.dial()
		defer c.Close()
		over := make(chan time.Time, 1)
		settled := make(chan struct{})
		f := http2.NewFramer(c, c)
		var mu sync.Mutex // of writing
		go func() {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.SettingsFrame:
					if frame.IsAck() {
						close(settled)
					}
				case *http2.PingFrame:
					mu.Lock()
					f.WritePing(true, frame.Data)
					mu.Unlock()
				case *http2.HeadersFrame:
					if frame.StreamEnded() {
						over <- time.Now()
					}
				}
			}
		}()
		mu.Lock()
		io.WriteString(c, http2.ClientPreface)
		f.WriteSettings()
		mu.Unlock()
		<-settled
		start := time.Now()
		mu.Lock()
		rawClient{c, f}.headers(1)
		mu.Unlock()
		if took := (<-over).Sub(start); took != 10*time.Second {
			t.Errorf("the call was over after %v, want 10 s", took)
		}
	})
}

// The method of gRPC's streams by which the server ends the read of a request is not in its
// public API. If it is gone, calls without a request cost their connection.
func TestStreamsTakeAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		takes := false
		inMemory(t, quiet, l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, takes = grpc.ServerTransportStreamFromContext(ctx).(interface{ WriteStatus(*status.Status) error })
			return nil
		}})
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil || !takes {
			t.Errorf("%v; the stream of gRPC %s takes a status: %t", err, grpc.Version, takes)
		}
	})
}

// Drivers call now and then, so a connection without calls must stay open.
func TestIdleClientStaysConnected(t *testing.T) {
	day := 24 * time.Hour
	if testing.Short() {
		// The timers of a whole day crash the runtime of Go's race detector now and
		// then (seen with 1.26.8), so the short test uses a shorter time.
		day = 10 * time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		l, ended := newMemory(), make(chan struct{})
		inMemory(t, quiet, watched{l, ended}, rescans())
		// Like an old client that pings as often as gRPC allows.
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.dial(), nil }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 3 {
			if _, err := diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(day)
		}
		select {
		case <-ended:
			t.Error("the server closed the connection")
		default:
		}
	})
}

// held are calls that run until release is closed.
type held struct {
	running atomic.Int32
	release chan struct{}
}

func (h *held) disk() *fakeDisk {
	return &fakeDisk{rescan: func(context.Context) error {
		h.running.Add(1)
		<-h.release
		h.running.Add(-1)
		return nil
	}}
}

// A caller that gives up does not free the thread that hangs in Windows, so its
// call keeps its slot.
func TestCallKeepsSlotAfterCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		var hanging atomic.Int32
		release := make(chan struct{})
		inMemory(t, quiet, l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, err := node.Await(ctx, func() (int, error) {
				hanging.Add(1)
				<-release
				return 0, nil
			})
			return err
		}})
		conn := l.client(t)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := diskv1.NewDiskClient(conn).Rescan(ctx, &diskv1.RescanRequest{})
			if c := status.Code(err); c != codes.DeadlineExceeded && c != codes.ResourceExhausted { // from the client or the server, whichever is first
				t.Errorf("call to a hanging node = %v, want DeadlineExceeded or ResourceExhausted", err)
			}
			cancel()
		}
		synctest.Wait()
		if n := hanging.Load(); n != 32 {
			t.Errorf("%d threads hang, want 32", n)
		}
		close(release)
		if _, err := diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
			t.Errorf("after the hanging calls finished: %v", err)
		}
	})
}

// Calls without a deadline end at their method's limit: each at its time, while its
// Windows call continues; a call that has ended is not ended again.
func TestLimitOfCallersWithoutDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		release := make(chan struct{})
		var mu sync.Mutex
		ended := map[error]int{} // what the contexts of the calls said
		inMemory(t, quiet, l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, err := node.Await(ctx, func() (int, error) {
				<-release
				mu.Lock()
				defer mu.Unlock()
				ended[ctx.Err()]++
				return 0, nil
			})
			return err
		}})
		conn := l.client(t)
		begun := time.Now()
		took, codesOf := map[time.Duration]int{}, map[codes.Code]int{}
		var group sync.WaitGroup
		for i := range 40 { // 32 run, and 8 wait
			time.Sleep(time.Second)
			group.Go(func() {
				_, err := diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{})
				if status.Code(err) == codes.ResourceExhausted && !strings.Contains(err.Error(), "this one had no turn in 5m0s") {
					t.Errorf("a call that waited: %v, want the limit of the method", err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(begun)-time.Duration(i+1)*time.Second]++
				codesOf[status.Code(err)]++
			})
		}
		group.Wait()
		if took[5*time.Minute] != 40 || codesOf[codes.DeadlineExceeded] != 32 || codesOf[codes.ResourceExhausted] != 8 {
			t.Errorf("calls took %v and ended with %v, want 5m, 32 DeadlineExceeded and 8 ResourceExhausted", took, codesOf)
		}
		time.Sleep(time.Hour)
		close(release)
		synctest.Wait()
		mu.Lock()
		if ended[context.DeadlineExceeded] != 32 || len(ended) != 1 {
			t.Errorf("the contexts ended with %v, want %v for 32", ended, context.DeadlineExceeded)
		}
		mu.Unlock()
		if _, err := diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
			t.Errorf("after the hanging calls finished: %v", err)
		}
	})
}

// A call that was canceled before its limit stays canceled. One that succeeds after its limit has
// failed for its caller, and is counted as failed.
func TestLimitDoesNotChangeWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, release := newMemory(), make(chan struct{})
		var early, late error
		var log logBuffer
		inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(ctx context.Context) error {
			<-ctx.Done()
			early = ctx.Err()
			<-release // it ignores its context
			late = ctx.Err()
			return nil
		}})
		disks := diskv1.NewDiskClient(l.client(t))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := disks.Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.Canceled {
			t.Errorf("Rescan = %v, want Canceled", err)
		}
		time.Sleep(time.Hour)
		release <- struct{}{}
		synctest.Wait()
		if early != context.Canceled || late != context.Canceled {
			t.Errorf("the context of a canceled call ended with %v, and an hour later with %v", early, late)
		}
		if _, err := disks.Rescan(t.Context(), &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "5m0s, the limit for a caller that sets no deadline") {
			t.Errorf("Rescan = %v, want DeadlineExceeded", err)
		}
		release <- struct{}{}
		synctest.Wait()
		if early != context.DeadlineExceeded || late != context.DeadlineExceeded {
			t.Errorf("the context of a late call ended with %v, and later with %v", early, late)
		}
		if got := lines(log.String(), "Request failed"); len(got) != 1 || !strings.Contains(got[0], "code=DeadlineExceeded") {
			t.Errorf("logged %q, want the late call", got)
		}
	})
}

// The number of calls that do not send their request is limited, and they time out after seconds.
// Other callers get their places.
func TestCallsThatWaitForTheirClientAreLimited(t *testing.T) {
	for _, c := range []struct {
		path string
		call func(*testing.T, *memory) error
	}{
		{
			"/v1.Disk/Rescan",
			func(t *testing.T, l *memory) error {
				_, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{})
				return err
			},
		},
		{
			"/grpc.health.v1.Health/Check",
			func(t *testing.T, l *memory) error {
				_, err := grpc_health_v1.NewHealthClient(l.client(t)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				return err
			},
		},
	} {
		t.Run(c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newMemory()
				var log logBuffer
				inMemory(t, log.logger(slog.LevelInfo), l, rescans())
				if err := c.call(t, l); err != nil {
					t.Fatalf("below the limit: %v", err)
				}
				for range 64 {
					h := sendPreface(l.dial())
					defer h.Close()
					h.frames.WriteSettings()
					synctest.Wait()
					for i := range uint32(32) {
						h.begin(2*i+1, c.path)
						h.frames.WriteData(2*i+1, false, []byte{0, 0, 0, 100, 1})
					}
				}
				synctest.Wait()
				if err := c.call(t, l); err != nil {
					t.Errorf("another caller's call at the limit = %v", err)
				}
				synctest.Wait()
				if !strings.Contains(log.String(), "2048 are waiting") {
					t.Errorf("no call lost its place; log:\n%s", log.String())
				}
				if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
					t.Errorf("the API meanwhile: %v", err)
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if err := c.call(t, l); err != nil {
					t.Errorf("after they ended: %v", err)
				}
			})
		})
	}
}

// Many failures in a row leave a limited number of lines in the log, and their number.
func TestFailureLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		var log logBuffer
		inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(context.Context) error { return errors.New("no") }})
		c := diskv1.NewDiskClient(l.client(t))
		for range 500 {
			c.Rescan(t.Context(), &diskv1.RescanRequest{})
		}
		time.Sleep(11 * time.Second)
		c.Rescan(t.Context(), &diskv1.RescanRequest{})
		if n := strings.Count(log.String(), "Request failed"); n != 51 || strings.Count(log.String(), `msg="Left out failed requests" caller=unknown requests=450`) != 1 {
			t.Errorf("500 failures at once and one later left %d lines, want 50 and 1, and that 450 were left out:\n%s", n, log.String())
		}
	})
}

func TestCallsWaitUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newMemory(), held{release: make(chan struct{})}
		var log logBuffer
		inMemory(t, log.logger(slog.LevelInfo), l, h.disk())
		// So many open calls need several connections.
		const fit = 32 + 2048
		answers := make(chan error, fit+12)
		call := func(ctx context.Context, conn *grpc.ClientConn) {
			_, err := diskv1.NewDiskClient(conn).Rescan(ctx, &diskv1.RescanRequest{})
			answers <- err
		}
		var conn *grpc.ClientConn
		for i := range fit {
			if i%32 == 0 {
				conn = l.client(t)
			}
			go call(t.Context(), conn)
		}
		synctest.Wait()
		if n := h.running.Load(); n != 32 {
			t.Errorf("%d calls run, want 32", n)
		}
		conn = l.client(t)
		for range 12 {
			go call(t.Context(), conn)
		}
		for range 12 {
			err := <-answers
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "32 calls are running and 2048 are waiting") {
				t.Fatalf("a call beyond the limit = %v, want ResourceExhausted with the limits", err)
			}
		}
		// The health service still responds.
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Errorf("health of a busy pipe: %v", err)
		}
		close(h.release)
		for range fit {
			if err := <-answers; err != nil {
				t.Fatalf("a call that waited = %v", err)
			}
		}
		if n := strings.Count(log.String(), "Request failed"); n != 1 {
			t.Errorf("12 refusals left %d lines in the log, want one:\n%s", n, log.String())
		}
	})
}

// Connections that leave no room do not lock out other clients, and a client whose idle
// connection was closed for another one does not notice.
func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		var log logBuffer
		inMemory(t, log.logger(slog.LevelInfo), l, rescans())
		var clients []*grpc.ClientConn
		for range 20 {
			clients = append(clients, l.client(t))
		}
		call := func(when string) {
			t.Helper()
			for i, c := range clients {
				if _, err := diskv1.NewDiskClient(c).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
					t.Errorf("client %d %s: %v", i, when, err)
				}
			}
		}
		call("before the others")
		var others []net.Conn
		for range 2100 {
			others = append(others, l.dial())
		}
		call("after silent connections")
		for range 2100 {
			c := sendPreface(l.dial())
			c.frames.WriteSettings()
			others = append(others, c.Conn)
		}
		synctest.Wait()
		call("after idle connections")
		if !strings.Contains(log.String(), "too many") || !strings.Contains(log.String(), "limit=2048") {
			t.Errorf("the log does not contain the limit:\n%s", log.String())
		}
		for _, c := range others {
			c.Close()
		}
	})
}

func TestAcceptRetriesAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failingListener{memory: newMemory(), times: 10, err: errors.New("insufficient system resources")}
		inMemory(t, quiet, l, rescans())
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
			t.Errorf("after ten failures: %v", err)
		}
	})
}

func TestSizesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		inMemory(t, quiet, l, rescans())
		conn := l.client(t)
		large := &smbv1.NewSmbGlobalMappingRequest{RemotePath: strings.Repeat("x", 64<<10)}
		err := conn.Invoke(t.Context(), "/v1.Disk/Rescan", large, &diskv1.RescanResponse{})
		if want := fmt.Sprintf("(%d vs. %d)", proto.Size(large), 64<<10); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("a request of %d bytes = %v, want ResourceExhausted with the size and the limit", proto.Size(large), err)
		}
		large.RemotePath = strings.Repeat("x", 63<<10)
		if err := conn.Invoke(t.Context(), "/v1.Disk/Rescan", large, &diskv1.RescanResponse{}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "no field 1") {
			t.Errorf("a request of 63 KiB = %v, want that its field was read", err)
		}
		// The server announces the limit on headers, and the client enforces it.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 16<<10))
		if err := conn.Invoke(ctx, "/v1.Disk/Rescan", &diskv1.RescanRequest{}, &diskv1.RescanResponse{}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "header list size") {
			t.Errorf("headers of 16 KiB = %v, want that they are too large", err)
		}
	})
}

func TestUndecodableRequestReturnsInvalidArgument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemory()
		inMemory(t, quiet, l, rescans())
		request, answer := []byte{0xff}, []byte(nil)
		err := l.client(t).Invoke(t.Context(), "/v1.Disk/PartitionDisk", request, &answer, grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "read the request of /v1.Disk/PartitionDisk") {
			t.Errorf("PartitionDisk of a byte = %v, want InvalidArgument that says what cannot be read", err)
		}
	})
}

// Windows and devices may return names that are not valid UTF-8.
func TestInvalidUTF8IsReplaced(t *testing.T) {
	socketDir(t)
	const name, mended = "ok \xed\xa0\x80", "ok \uFFFD"
	begin(t, serve.Config{Log: quiet}, wire.Groups{
		Disk: &fakeDisk{ids: map[uint32]*disk.DiskIDs{1: {SerialNumber: name}, 2: {SerialNumber: "2"}}}, ISCSI: fakeISCSI{iqn: name}, System: fakeSystem{name: name},
	})
	connect := func(group, version string) *grpc.ClientConn {
		conn, err := transport.Connect(pipe.Path("csi-proxy-" + group + "-" + version))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	disks, err := diskv1.NewDiskClient(connect("disk", "v1")).ListDiskIDs(t.Context(), &diskv1.ListDiskIDsRequest{})
	if err != nil || disks.DiskIDs[1].GetSerialNumber() != mended || disks.DiskIDs[2].GetSerialNumber() != "2" {
		t.Errorf("ListDiskIDs = %v, %v, want %q", disks, err, mended)
	}
	old, err := diskv1beta2.NewDiskClient(connect("disk", "v1beta2")).ListDiskIDs(t.Context(), &diskv1beta2.ListDiskIDsRequest{})
	if err != nil || old.DiskIDs["1"].GetIdentifiers()["serialNumber"] != mended {
		t.Errorf("ListDiskIDs of v1beta2 = %v, %v, want %q", old, err, mended)
	}
	targets, err := iscsiv1.NewIscsiClient(connect("iscsi", "v1alpha2")).DiscoverTargetPortal(t.Context(), &iscsiv1.DiscoverTargetPortalRequest{})
	if err != nil || len(targets.Iqns) != 1 || targets.Iqns[0] != mended {
		t.Errorf("DiscoverTargetPortal = %v, %v, want %q", targets, err, mended)
	}
	service, err := systemv1.NewSystemClient(connect("system", "v1alpha1")).GetService(t.Context(), &systemv1.GetServiceRequest{})
	if err != nil || service.DisplayName != mended {
		t.Errorf("GetService = %v, %v, want %q", service, err, mended)
	}
}

type fakeISCSI struct {
	iscsi.Service
	iqn string
}

func (f fakeISCSI) DiscoverTargetPortal(context.Context, *iscsi.DiscoverTargetPortalRequest) (*iscsi.DiscoverTargetPortalResponse, error) {
	return &iscsi.DiscoverTargetPortalResponse{IQNs: []string{f.iqn}}, nil
}

type fakeSystem struct {
	system.Service
	name string
}

func (f fakeSystem) GetService(context.Context, *system.GetServiceRequest) (*system.GetServiceResponse, error) {
	return &system.GetServiceResponse{DisplayName: f.name}, nil
}

// rawCodec sends and receives unchanged bytes.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (rawCodec) Name() string                    { return "proto" }
