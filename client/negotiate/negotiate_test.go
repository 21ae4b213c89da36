package negotiate_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/internal/pipetest"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

func versions(names ...string) []apiversion.Version {
	var all []apiversion.Version
	for _, n := range names {
		all = append(all, apiversion.NewVersionOrPanic(n))
	}
	return all
}

// proxy is a CSI Proxy with its own pipe names. It serves nothing until serve is
// called.
type proxy struct {
	t      *testing.T
	prefix string
}

func newProxy(t *testing.T) *proxy { return &proxy{t, pipetest.Path(t)} }

func (p *proxy) path(api string) string { return p.prefix + "-" + strings.ReplaceAll(api, "/", "-") }

func (p *proxy) at() negotiate.Option {
	return negotiate.WithPipePath(func(group string, v apiversion.Version) string { return p.path(group + "/" + v.String()) })
}

// serve serves APIs such as "disk/v1". It creates all pipes before it serves one.
func (p *proxy) serve(apis ...string) []*pipetest.Listener {
	p.t.Helper()
	var all []*pipetest.Listener
	for _, api := range apis {
		all = append(all, pipetest.Listen(p.t, p.path(api)))
	}
	for _, l := range all {
		p.answer(l)
	}
	return all
}

// answer starts a gRPC server on l.
func (p *proxy) answer(l net.Listener) {
	s := grpc.NewServer()
	go s.Serve(l)
	p.t.Cleanup(s.Stop)
}

// stops serves an API of a proxy that is stopping, and has removed its other pipes.
func (p *proxy) stops(api string) *pipetest.Listener {
	h := health.NewServer()
	h.Shutdown()
	return p.withHealth(api, h)
}

// withHealth serves an API and a health service.
func (p *proxy) withHealth(api string, h grpc_health_v1.HealthServer) *pipetest.Listener {
	p.t.Helper()
	s, l := grpc.NewServer(), pipetest.Listen(p.t, p.path(api))
	grpc_health_v1.RegisterHealthServer(s, h)
	go s.Serve(l)
	p.t.Cleanup(s.Stop)
	return l
}

// slowHealth is a health service that does not respond.
type slowHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	calls atomic.Int32
}

func (h *slowHealth) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.calls.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestConnectFindsNewestVersion(t *testing.T) {
	for _, tt := range []struct {
		about          string
		served, wanted []string
		want           string
	}{
		{"all", []string{"v1alpha1", "v1beta3", "v1"}, []string{"v1alpha1", "v1beta3", "v1"}, "v1"},
		{"wanted in another order", []string{"v1", "v1beta3"}, []string{"v1", "v1beta1", "v1beta3"}, "v1"},
		{"newest not served", []string{"v1beta1", "v1beta2"}, []string{"v1", "v1beta2", "v1beta1"}, "v1beta2"},
		{"only the oldest", []string{"v1alpha1"}, []string{"v1", "v1beta2", "v1alpha1"}, "v1alpha1"},
		{"newer version served but not wanted", []string{"v1", "v2alpha1"}, []string{"v1", "v1beta2"}, "v1"},
		{"next alpha is newer", []string{"v1", "v2alpha1"}, []string{"v1", "v2alpha1"}, "v2alpha1"},
	} {
		t.Run(tt.about, func(t *testing.T) {
			p := newProxy(t)
			var apis []string
			for _, v := range tt.served {
				apis = append(apis, "disk/"+v)
			}
			p.serve(apis...)
			c, err := negotiate.Connect(t.Context(), "disk", versions(tt.wanted...), p.at())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.String() != "disk/"+tt.want || c.PipePath != p.path("disk/"+tt.want) {
				t.Errorf("connected to %s at %q, want disk/%s", c, c.PipePath, tt.want)
			}
			// The server has no services, so it returns Unimplemented.
			if err := c.Invoke(t.Context(), "/v1.Disk/Rescan", &empty{}, &empty{}, grpc.ForceCodec(codec{})); err == nil || !strings.Contains(err.Error(), "Unimplemented") {
				t.Errorf("a call: %v, want Unimplemented", err)
			}
		})
	}
}

// codec is for calls without a message.
type (
	codec struct{}
	empty struct{}
)

func (codec) Marshal(any) ([]byte, error) { return nil, nil }
func (codec) Unmarshal([]byte, any) error { return nil }
func (codec) Name() string                { return "none" }

// TestSearchClosesConnections counts the connections of searches that do and do not
// find a version.
func TestSearchClosesConnections(t *testing.T) {
	p := newProxy(t)
	all := p.serve("disk/v1alpha1", "disk/v1beta2", "volume/v1")
	c, err := negotiate.Connect(t.Context(), "disk", versions("v1", "v1beta2", "v1alpha1"), p.at())
	if err != nil {
		t.Fatal(err)
	}
	all[1].WaitOpen(t, 1)
	if got := []int{all[0].Accepted(), all[1].Accepted(), all[2].Accepted()}; !slices.Equal(got, []int{0, 1, 0}) {
		t.Errorf("connections accepted by v1alpha1, v1beta2, volume: %d, want only the used one", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := negotiate.Find(t.Context(), "disk", versions("v1", "v1beta2"), p.at())
	if err != nil || found.String() != "disk/v1beta2" || found.PipePath != p.path("disk/v1beta2") {
		t.Errorf("Find: %s at %q, %v, want disk/v1beta2", found, found.PipePath, err)
	}
	if _, err := negotiate.Connect(t.Context(), "disk", versions("v1"), p.at()); !errors.Is(err, negotiate.ErrTooOld) {
		t.Errorf("error %v, want %v", err, negotiate.ErrTooOld)
	}
	if _, err := negotiate.Connect(t.Context(), "smb", versions("v1"), p.at()); !errors.Is(err, negotiate.ErrNotServed) {
		t.Errorf("error %v, want %v", err, negotiate.ErrNotServed)
	}
	for _, l := range all {
		l.WaitOpen(t, 0)
	}
}

func TestTooOld(t *testing.T) {
	p := newProxy(t)
	p.serve("disk/v1alpha1", "disk/v1beta1", "volume/v1")
	start := time.Now()
	c, err := negotiate.Connect(within(t, 2*time.Minute), "disk", versions("v1", "v1beta3"), p.at())
	var e *negotiate.Error
	if c != nil || !errors.As(err, &e) || !errors.Is(err, negotiate.ErrTooOld) || !slices.Equal(e.Serves, versions("v1alpha1", "v1beta1")) {
		t.Fatalf("Connect: %v, %v, want ErrTooOld", c, err)
	}
	if want := "CSI Proxy: disk v1, v1beta3: too old: serves v1alpha1, v1beta1"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v, want no waiting for a proxy that responds", took)
	}
}

func TestDriverTooOld(t *testing.T) {
	p := newProxy(t)
	p.serve("disk/v1beta3", "disk/v1")
	_, err := negotiate.Connect(t.Context(), "disk", versions("v1beta1"), p.at())
	if want := "CSI Proxy: disk v1beta1: no version in common: serves v1beta3, v1"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestGroupNotServed(t *testing.T) {
	p := newProxy(t)
	p.serve("filesystem/v1", "filesystem/v1beta2", "volume/v1")
	_, err := negotiate.Connect(within(t, time.Minute), "disk", versions("v1"), p.at())
	if want := "disk v1: the group is not served, or its pipes are not mounted here: found filesystem, volume"; !errors.Is(err, negotiate.ErrNotServed) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A driver that starts while the proxy is upgraded waits for the new proxy. It does not take the
// pipes that the old one has not removed yet for all that is served.
func TestProxyThatStops(t *testing.T) {
	for _, last := range []string{"iscsi/v1alpha2", "disk/v1beta1", "disk/v1beta2"} {
		p := newProxy(t)
		p.stops(last)
		wanted := versions("v1", "v1beta2")
		_, err := negotiate.Connect(t.Context(), "disk", wanted, p.at())
		if !errors.Is(err, negotiate.ErrStopping) || !strings.Contains(err.Error(), "disk v1, v1beta2: is stopping") {
			t.Errorf("%s, without a deadline: %v, want ErrStopping", last, err)
		}
		found := make(chan error, 1)
		go func() {
			c, err := negotiate.Connect(within(t, time.Minute), "disk", wanted, p.at())
			if err == nil {
				if c.String() != "disk/v1" {
					err = fmt.Errorf("connected to %s, want disk/v1", c)
				}
				c.Close()
			}
			found <- err
		}()
		select {
		case err := <-found:
			t.Fatalf("%s: Connect returned %v while the proxy was stopping", last, err)
		case <-time.After(200 * time.Millisecond):
		}
		p.serve("disk/v1")
		if err := <-found; err != nil {
			t.Errorf("%s: %v", last, err)
		}
	}
}

// A proxy whose health service does not respond is asked once, and counts as running.
func TestProxyWithoutHealth(t *testing.T) {
	p := newProxy(t)
	h := &slowHealth{}
	for _, api := range []string{"disk/v1alpha1", "disk/v1beta1", "disk/v1beta2"} {
		p.withHealth(api, h)
	}
	if _, err := negotiate.Connect(within(t, time.Minute), "disk", versions("v1"), p.at()); !errors.Is(err, negotiate.ErrTooOld) {
		t.Errorf("Connect: %v, want ErrTooOld", err)
	}
	if n := h.calls.Load(); n != 1 {
		t.Errorf("asked %d times for the health, want once", n)
	}
	// It is not known whether there is a newer version when the time is over.
	wait := negotiate.WithDialOptions(grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	c, err := negotiate.Connect(within(t, 300*time.Millisecond), "disk", versions("v1", "v1beta2"), p.at(), wait)
	if !errors.Is(err, negotiate.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect: %v, %v, want ErrBusy and DeadlineExceeded", c, err)
	}
}

// A search of a proxy that is stopping closes its connections.
func TestSearchOfStoppingProxyClosesConnections(t *testing.T) {
	p := newProxy(t)
	all := []*pipetest.Listener{p.stops("disk/v1beta2"), p.stops("volume/v1")}
	for _, wanted := range [][]apiversion.Version{versions("v1", "v1beta2"), versions("v1")} {
		if _, err := negotiate.Connect(t.Context(), "disk", wanted, p.at()); !errors.Is(err, negotiate.ErrStopping) {
			t.Errorf("Connect: %v, want ErrStopping", err)
		}
	}
	for _, l := range all {
		l.WaitOpen(t, 0)
	}
}

func TestNotRunning(t *testing.T) {
	p := newProxy(t)
	// Fake time advances only while all goroutines wait.
	synctest.Test(t, func(t *testing.T) { testNotRunning(t, p) })
}

func testNotRunning(t *testing.T, p *proxy) {
	start := time.Now()
	c, err := negotiate.Connect(t.Context(), "disk", versions("v1", "v1beta2"), p.at())
	if c != nil || !errors.Is(err, negotiate.ErrNotRunning) || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Connect: %v, %v, want ErrNotRunning", c, err)
	}
	if name, _ := pipe.Name(p.path("disk/v1")); !strings.HasPrefix(err.Error(), `CSI Proxy: disk v1, v1beta2: not running`) || !strings.Contains(err.Error(), `\\.\pipe\`+name) {
		t.Errorf("error %q does not contain the reason and the pipe %q", err, name)
	}
	if took := time.Since(start); took > 0 {
		t.Errorf("waited %v without a deadline", took)
	}

	const limit = 300 * time.Millisecond
	start = time.Now()
	_, err = negotiate.Connect(within(t, limit), "disk", versions("v1"), p.at())
	if !errors.Is(err, negotiate.ErrNotRunning) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want ErrNotRunning and DeadlineExceeded", err)
	}
	if took := time.Since(start); took != limit {
		t.Errorf("waited %v, want %v", took, limit)
	}
}

// late is a context that has not ended yet when its deadline is over.
type late struct {
	context.Context
	deadline time.Time
	ended    chan struct{}
}

func (c *late) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *late) Done() <-chan struct{}       { return c.ended }

func (c *late) Err() error {
	select {
	case <-c.ended:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// An attempt that fails at the deadline does not hide the reason of an earlier one.
func TestDeadlineDuringAttempt(t *testing.T) {
	p := newProxy(t)
	synctest.Test(t, func(t *testing.T) {
		// Attempts begin after 0, 25 and 75 ms.
		ctx := &late{t.Context(), time.Now().Add(20 * time.Millisecond), make(chan struct{})}
		time.AfterFunc(60*time.Millisecond, func() { close(ctx.ended) })
		if _, err := negotiate.Connect(ctx, "disk", versions("v1"), p.at()); !errors.Is(err, negotiate.ErrNotRunning) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrNotRunning and DeadlineExceeded", err)
		}
	})
}

func TestConnectWithEndedContext(t *testing.T) {
	p := newProxy(t)
	p.serve("disk/v1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *negotiate.Error
	if _, err := negotiate.Connect(ctx, "disk", versions("v1"), p.at()); !errors.Is(err, context.Canceled) || errors.As(err, &e) {
		t.Errorf("error %v, want the error of the context and no *Error", err)
	}
}

// The proxy creates its pipes one after the other, oldest first, while a driver
// searches for them.
func TestConnectWhileProxyStarts(t *testing.T) {
	p := newProxy(t)
	started := make(chan struct{})
	defer func() { <-started }()
	go func() {
		defer close(started)
		time.Sleep(100 * time.Millisecond)
		var all []net.Listener
		for _, api := range []string{"disk/v1alpha1", "disk/v1beta2", "disk/v1"} {
			all = append(all, pipetest.Listen(p.t, p.path(api)))
			time.Sleep(100 * time.Millisecond)
		}
		for _, l := range all {
			p.answer(l)
		}
	}()
	c, err := negotiate.Connect(within(t, 2*time.Minute), "disk", versions("v1", "v1beta2"), p.at())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.String() != "disk/v1" {
		t.Errorf("connected to %s, want disk/v1", c)
	}
}

// The proxy creates the wanted pipe while the search tries another one, and does not
// respond on it yet. The search must neither return the other version nor fail with
// ErrTooOld.
func TestPipeCreatedDuringSearch(t *testing.T) {
	for about, served := range map[string]string{
		"older wanted version": "v1beta2",
		"version not wanted":   "v1alpha1",
	} {
		t.Run(about, func(t *testing.T) {
			p := newProxy(t)
			p.serve("disk/" + served)
			var silent *pipetest.Listener
			at := negotiate.WithPipePath(func(group string, v apiversion.Version) string {
				if silent == nil && v.String() == served {
					silent = pipetest.Listen(t, p.path("disk/v1"))
				}
				return p.path(group + "/" + v.String())
			})
			wanted := versions("v1", "v1beta2")
			if c, err := negotiate.Connect(t.Context(), "disk", wanted, at); !errors.Is(err, negotiate.ErrBusy) {
				t.Fatalf("connected to %v, %v, want ErrBusy", c, err)
			}
			p.answer(silent)
			c, err := negotiate.Connect(within(t, 2*time.Minute), "disk", wanted, at)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.String() != "disk/v1" {
				t.Errorf("connected to %s, want disk/v1", c)
			}
		})
	}
}

// The pipe exists but is not served: a named pipe is busy then, and a socket accepts
// connections without responding.
func TestPipeWithoutServer(t *testing.T) {
	p := newProxy(t)
	older := p.serve("disk/v1beta2")[0]
	silent := pipetest.Listen(t, p.path("disk/v1"))
	// Enough for one complete attempt and half of another.
	_, err := negotiate.Connect(within(t, 3*time.Second), "disk", versions("v1", "v1beta2"), p.at())
	if !errors.Is(err, negotiate.ErrBusy) || !strings.Contains(err.Error(), "busy, or still starting") {
		t.Errorf("error %v, want ErrBusy and not the older version", err)
	}
	if n := older.Accepted(); n > 0 {
		t.Errorf("%d connections to the older version, which would wait, too", n)
	}
	// Now it is served, and the driver tries again.
	p.answer(silent)
	c, err := negotiate.Connect(within(t, 2*time.Minute), "disk", versions("v1", "v1beta2"), p.at())
	if err != nil || c.String() != "disk/v1" {
		t.Fatalf("connected to %v, %v, want disk/v1", c, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	silent.WaitOpen(t, 0)
}

// The server of the pipe closes every connection.
func TestServerThatDisconnects(t *testing.T) {
	p := newProxy(t)
	l := pipetest.Listen(t, p.path("disk/v1"))
	go l.Handle(func(net.Conn) {})
	_, err := negotiate.Connect(t.Context(), "disk", versions("v1"), p.at())
	if !errors.Is(err, negotiate.ErrBusy) {
		t.Errorf("error %v, want ErrBusy", err)
	}
	l.WaitOpen(t, 0)
}

func TestStaleSocket(t *testing.T) {
	p := newProxy(t)
	pipetest.Stale(t, p.path("disk/v1"))
	_, err := negotiate.Connect(t.Context(), "disk", versions("v1"), p.at())
	if !errors.Is(err, negotiate.ErrNotRunning) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want ErrNotRunning", err)
	}
	p.serve("disk/v1beta2")
	if found, err := negotiate.Find(t.Context(), "disk", versions("v1", "v1beta2"), p.at()); err != nil || found.String() != "disk/v1beta2" {
		t.Errorf("found %s, %v, want disk/v1beta2 in spite of the stale socket of v1", found, err)
	}
}

func TestInvalidArguments(t *testing.T) {
	none := func(string, apiversion.Version) string { return `disk\v1` }
	for _, tt := range []struct {
		versions []apiversion.Version
		path     func(string, apiversion.Version) string
		want     string
	}{
		{nil, nil, "disk: want at least one version"},
		{[]apiversion.Version{{}, apiversion.NewVersionOrPanic("v1")}, nil, "disk: one of the versions is the zero Version"},
		{versions("v1"), none, `disk\v1`},
	} {
		var opts []negotiate.Option
		if tt.path != nil {
			if runtime.GOOS == "windows" {
				continue // Windows treats the path as a file that does not exist
			}
			opts = append(opts, negotiate.WithPipePath(tt.path))
		}
		_, err := negotiate.Connect(within(t, time.Minute), "disk", tt.versions, opts...)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, negotiate.ErrNotRunning) {
			t.Errorf("Connect(%v): error %v, want %q", tt.versions, err, tt.want)
		}
	}
}
