package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
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
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// withSource is a logger whose lines have the source.
func (l *logBuffer) withSource() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{AddSource: true}))
}

func TestFailureNamesCallerTargetAndSource(t *testing.T) {
	socketDir(t)
	var log logBuffer
	begin(t, serve.Config{Log: log.withSource(), Audit: true}, wire.Groups{SMB: fakeSMB{}})
	c, err := smbclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.NewSmbGlobalMapping(t.Context(), &smbv1.NewSmbGlobalMappingRequest{RemotePath: `\\server\share`, Username: "user", Password: "not-in-the-log"}); err == nil {
			t.Fatal("the call succeeded")
		}
	}
	failed, audited := lines(log.String(), `msg="Request failed"`), lines(log.String(), "msg=Audit")
	if len(failed) != 2 || len(audited) != 2 {
		t.Fatalf("%d failures and %d audited, want 2:\n%s", len(failed), len(audited), log.String())
	}
	ids := map[string]bool{}
	for i, line := range failed {
		m := regexp.MustCompile(` source=\S*internal/apiserver/serve/server_test.go:\d+ msg="Request failed" id=(\d+) pipe=csi-proxy-smb-v1 method=/v1.Smb/NewSmbGlobalMapping target="remote_path=\\\\\\\\server\\\\share username=user" caller=(\d+) program=\S+ took=\S+ code=PermissionDenied err=`).FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("the line of a failure is %s", line)
		}
		if ids[m[1]] || !strings.Contains(audited[i], " id="+m[1]+" caller="+m[2]+" ") {
			t.Errorf("the request %s is audited as %s", m[1], audited[i])
		}
		ids[m[1]] = true
	}
	if strings.Contains(log.String(), "not-in-the-log") {
		t.Error("the log has the password")
	}
}

// Whether the client's end of a call or the server's deadline comes first is chance.
func TestTimeoutsAreAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		const calls = 30
		l := newMemory()
		stop := inMemoryWith(t, serve.Config{Log: log.logger(slog.LevelInfo), Audit: true}, l, &fakeDisk{rescan: func(ctx context.Context) error {
			<-ctx.Done()
			return hosterr.Wrap("rescan", "", ctx.Err())
		}})
		defer stop()
		var group sync.WaitGroup
		for range calls {
			c := diskv1.NewDiskClient(l.client(t))
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := c.Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("Rescan = %v, want DeadlineExceeded", err)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		logged := lines(log.String(), `msg="Request failed"`)
		if len(logged) != calls {
			t.Fatalf("%d failures are logged, want %d", len(logged), calls)
		}
		for _, line := range append(logged, lines(log.String(), "msg=Audit")...) {
			if !strings.Contains(line, "=DeadlineExceeded") || strings.Contains(line, "context canceled") || strings.Contains(line, "failed") && !strings.Contains(line, "level=WARN") {
				t.Errorf("the line of a timeout is %s", line)
			}
		}
		// A caller that gives up early is another matter.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(time.Second, cancel)
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.Canceled {
			t.Errorf("Rescan = %v, want Canceled", err)
		}
		synctest.Wait()
		if got := lines(log.String(), "code=Canceled"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") {
			t.Errorf("the line of a call that was canceled is %q", got)
		}
	})
}

// The log says that the work of a call continues without its caller, and how it ended.
func TestWorkWithoutCallerIsLogged(t *testing.T) {
	for name, result := range map[string]error{
		`level=INFO msg="Finished without its caller" id=1 pipe=csi-proxy-disk-v1 method=/v1.Disk/Rescan caller=unknown took=25s` + "\n":                           nil,
		`level=ERROR msg="Finished without its caller" id=1 pipe=csi-proxy-disk-v1 method=/v1.Disk/Rescan caller=unknown took=25s err="rescan: the test's"` + "\n": hosterr.Wrap("rescan", "", errors.New("the test's")),
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logBuffer
			l := newMemory()
			stop := inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(ctx context.Context) error {
				_, err := node.Await(ctx, func() (int, error) { time.Sleep(25 * time.Second); return 0, result })
				return err
			}})
			defer stop()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("Rescan = %v, want DeadlineExceeded", err)
			}
			time.Sleep(time.Minute)
			for _, took := range []string{"10s", "20s"} {
				if want := `level=WARN msg="Still running without its caller" id=1 pipe=csi-proxy-disk-v1 method=/v1.Disk/Rescan caller=unknown took=` + took + "\n"; strings.Count(log.String(), want) != 1 {
					t.Errorf("the log lacks %q", want)
				}
			}
			if !strings.Contains(log.String(), name) || strings.Count(log.String(), "without its caller") != 3 {
				t.Errorf("the log lacks %q, or has too much:\n%s", name, log.String())
			}
		})
	}
}

// A client whose time is over cancels the call, perhaps a moment before the deadline that the
// server knows. The work that stops because of that has exceeded its deadline as well.
func TestWorkOfATimeoutIsNotCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		l := newMemory()
		stop := inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, err := node.Await(ctx, func() (int, error) { time.Sleep(25 * time.Second); return 0, ctx.Err() })
			return err
		}})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		time.AfterFunc(3900*time.Millisecond, cancel)
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.Canceled {
			t.Errorf("Rescan = %v, want Canceled, as its client did", err)
		}
		time.Sleep(time.Minute)
		if text := log.String(); strings.Contains(strings.ToLower(text), "canceled") || !strings.Contains(text, `msg="Finished without its caller"`) || strings.Count(text, "deadline exceeded") != 2 {
			t.Errorf("the log of a timeout:\n%s", text)
		}
	})
}

// The level says whose fault a failure is.
func TestLevelsOfFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{hosterr.Text(hosterr.ErrInvalid, "x"), "WARN"},
		{hosterr.Text(hosterr.ErrNotFound, "x"), "WARN"},
		{hosterr.Text(hosterr.ErrFailedPrecondition, "x"), "WARN"},
		{hosterr.Text(hosterr.ErrPermissionDenied, "a rule"), "WARN"},
		{node.Typed(win32.ERROR_ACCESS_DENIED), "ERROR"},
		{win32.ERROR_DISK_FULL, "ERROR"},
		{win32.ERROR_IO_DEVICE, "ERROR"},
		{hosterr.Text(hosterr.ErrUnavailable, "x"), "ERROR"},
		{errors.New("x"), "ERROR"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logBuffer
			l := newMemory()
			stop := inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(context.Context) error { return c.err }})
			defer stop()
			if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); err == nil {
				t.Error("the call succeeded")
			}
			if got := lines(log.String(), "Request failed"); len(got) != 1 || !strings.Contains(got[0], "level="+c.want+" ") {
				t.Errorf("%v: logged %q, want the level %s", c.err, got, c.want)
			}
		})
	}
	// Without a deadline of the caller, the node was too slow.
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		l := newMemory()
		stop := inMemory(t, log.logger(slog.LevelInfo), l, &fakeDisk{rescan: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		defer stop()
		begun := time.Now()
		if _, err := diskv1.NewDiskClient(l.client(t)).Rescan(t.Context(), &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded || time.Since(begun) != 5*time.Minute {
			t.Errorf("Rescan = %v after %v, want DeadlineExceeded after 5m", err, time.Since(begun))
		}
		synctest.Wait()
		if got := lines(log.String(), "Request failed"); len(got) != 1 || !strings.Contains(got[0], "level=ERROR ") || !strings.Contains(got[0], "code=DeadlineExceeded") {
			t.Errorf("the server's deadline is logged as %q", got)
		}
	})
}

func TestHealthChecksAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		l := newMemory()
		stop := inMemory(t, log.logger(serve.LevelRequest), l, &fakeDisk{rescan: func(context.Context) error { return os.ErrInvalid }})
		defer stop()
		conn := l.client(t)
		for _, service := range []string{"", "v1.Disk", "unknown"} {
			_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if (err != nil) != (service == "unknown") {
				t.Errorf("Check of %q = %v", service, err)
			}
		}
		if got := log.String(); got != "" {
			t.Errorf("health checks are logged: %s", got)
		}
		diskv1.NewDiskClient(conn).Rescan(t.Context(), &diskv1.RescanRequest{})
		if got := log.String(); !strings.Contains(got, "Received request") || !strings.Contains(got, "Request failed") {
			t.Errorf("another request is not logged: %s", got)
		}
	})
}

// Every call is counted, including those that are refused and those whose time is over while
// they wait.
func TestOverloadIsCounted(t *testing.T) {
	const clients, each = 11, 32
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		started, counted, seen := 0, map[codes.Code]int{}, map[codes.Code]int{}
		l, h := newMemory(), held{release: make(chan struct{})}
		calls := new(calls.Calls)
		services := wire.Disk(h.disk(), nil)
		v1 := slices.IndexFunc(services, func(s wire.Service) bool { return s.Version.String() == "v1" })
		s, err := serve.Open(t.Context(), serve.Config{
			Log: slog.New(slog.DiscardHandler), Listen: func(string) (net.Listener, error) { return l, nil }, Calls: calls,
			Count: func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				mu.Lock()
				started++
				mu.Unlock()
				out, err := handle(ctx, in)
				mu.Lock()
				counted[status.Code(err)]++
				mu.Unlock()
				return out, err
			},
		}, serve.Pipes(services[v1:v1+1])...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		var group sync.WaitGroup
		for range clients {
			c := diskv1.NewDiskClient(l.client(t))
			for range each {
				group.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err := c.Rescan(ctx, &diskv1.RescanRequest{})
					mu.Lock()
					seen[status.Code(err)]++
					mu.Unlock()
				})
			}
		}
		group.Wait()
		synctest.Wait() // the server has also noticed that their time is over
		close(h.release)
		synctest.Wait()
		mu.Lock()
		total := 0
		for _, n := range counted {
			total += n
		}
		t.Logf("%d calls: the clients saw %v, the server counted %v", clients*each, seen, counted)
		if started != clients*each || total != clients*each || counted[codes.OK] != 32 || counted[codes.ResourceExhausted] != clients*each-32 {
			t.Errorf("%d calls: %d are counted as started, and %v by code", clients*each, started, counted)
		}
		mu.Unlock()
		if kept := calls.Failed(); len(kept) > 0 {
			t.Errorf("refused calls displace those that failed: %d are kept", len(kept))
		}
		stop()
		<-done
	})
}

// A field that the called version does not have is never dropped in silence: the request is
// refused, or logged.
func TestFieldsOfOtherVersions(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprintf("ignored %t", ignore), func(t *testing.T) {
			socketDir(t)
			var log logBuffer
			rescans := 0
			begin(t, serve.Config{Log: log.logger(slog.LevelInfo), IgnoreFields: ignore}, wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error { rescans++; return nil }}})
			request := &diskv1.RescanRequest{}
			request.ProtoReflect().SetUnknown([]byte{7 << 3, 1})
			_, err := dialDisk(t).Rescan(t.Context(), request)
			if ignore {
				if err != nil || rescans != 1 || len(lines(log.String(), "Ignoring fields of a request")) != 1 {
					t.Errorf("Rescan = %v after %d rescans, want it done and logged:\n%s", err, rescans, log.String())
				}
				return
			}
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "v1.RescanRequest: this version of the API has no field 7 in it") || rescans != 0 {
				t.Errorf("Rescan = %v after %d rescans, want InvalidArgument with the message and the field", err, rescans)
			}
		})
	}
}
