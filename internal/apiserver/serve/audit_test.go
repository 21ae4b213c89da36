package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	smbv1 "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	smbclient "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// lines returns the lines of a log that match a pattern.
func lines(log, pattern string) []string {
	matches := regexp.MustCompile(pattern).MatchString
	var found []string
	for line := range strings.Lines(log) {
		if matches(line) {
			found = append(found, line)
		}
	}
	return found
}

func TestAuditNamesCallerMethodTargetAndResult(t *testing.T) {
	socketDir(t)
	var log logBuffer
	begin(t, serve.Config{Log: log.logger(slog.LevelInfo), Audit: true}, wire.Groups{
		Disk: &fakeDisk{rescan: func(context.Context) error { return nil }}, SMB: fakeSMB{},
	})
	c := dialDisk(t)
	for range 3 { // reads are not audited
		if _, err := c.ListDiskIDs(t.Context(), &diskv1.ListDiskIDsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	m, err := smbclient.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := &smbv1.NewSmbGlobalMappingRequest{RemotePath: `\\server\share`, Username: "alice", Password: "hunter2"}
	if _, err := m.NewSmbGlobalMapping(t.Context(), in); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	audited := lines(log.String(), "msg=Audit ")
	caller := "caller=unknown "
	if runtime.GOOS == "linux" || runtime.GOOS == "windows" {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(program, ` "=`) {
			program = fmt.Sprintf("%q", program)
		}
		caller = fmt.Sprintf("caller=%d program=%s ", os.Getpid(), program)
	}
	want := []string{
		`pipe=csi-proxy-disk-v1 method=Rescan target="" result=OK took=`,
		`pipe=csi-proxy-smb-v1 method=NewSmbGlobalMapping target="remote_path=\\\\server\\share username=alice" result=PermissionDenied took=`,
	}
	if len(audited) != len(want) {
		t.Fatalf("audited %q, want %d requests", audited, len(want))
	}
	for i, line := range audited {
		if !strings.Contains(line, caller+want[i]) {
			t.Errorf("audited %q, want %q in it", line, caller+want[i])
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has the password:\n%s", log.String())
	}
}

func TestAuditOff(t *testing.T) {
	socketDir(t)
	var log logBuffer
	begin(t, serve.Config{Log: log.logger(slog.LevelInfo)}, wire.Groups{Disk: &fakeDisk{rescan: func(context.Context) error { return nil }}})
	if _, err := dialDisk(t).Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := lines(log.String(), "Audit"); len(got) > 0 {
		t.Errorf("audited %q, want nothing", got)
	}
}

// What was done decides about the line of a request, not its answer. Requests that changed
// nothing are limited and counted, per caller; those that changed something, or may still, are not.
func TestAuditHasWhatChangedSomething(t *testing.T) {
	socketDir(t)
	var log logBuffer
	steps := new(inflight.Steps)
	var change, hang atomic.Bool
	var result atomic.Value
	release := make(chan struct{})
	stop := begin(t, serve.Config{Log: log.logger(slog.LevelInfo), Audit: true, Steps: steps}, wire.Groups{Disk: &fakeDisk{rescan: func(ctx context.Context) error {
		_, err := node.Await(ctx, func() (struct{}, error) {
			if change.Load() {
				steps.Change()
			}
			if hang.Load() {
				<-release
			}
			return struct{}{}, result.Load().(error)
		})
		return err
	}}})
	c := dialDisk(t)
	const calls = 120
	call := func(ctx context.Context, of error, changes bool) {
		change.Store(changes)
		result.Store(of)
		for range calls {
			if _, err := c.Rescan(ctx, &diskv1.RescanRequest{}); err == nil {
				t.Fatal("Rescan succeeded")
			}
		}
	}
	call(t.Context(), hosterr.Text(hosterr.ErrInvalid, "x"), false)
	for code, kind := range map[codes.Code]error{codes.PermissionDenied: hosterr.ErrPermissionDenied, codes.NotFound: hosterr.ErrNotFound} {
		call(t.Context(), hosterr.Text(kind, "x"), true)
		if n := len(lines(log.String(), "msg=Audit .*result="+code.String()+" .*changed=true")); n != calls {
			t.Errorf("audited %d of %d requests that changed something and returned %v", n, calls, code)
		}
	}
	hang.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	change.Store(false)
	if _, err := c.Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	abandoned := func() int { return len(lines(log.String(), "msg=Audit .*result=(DeadlineExceeded|Canceled)")) }
	if err := nodetest.Eventually(time.Minute, func() error { // the server notices later than the client
		if abandoned() == 0 {
			return errors.New("not audited")
		}
		return nil
	}); err != nil {
		t.Errorf("a request whose work continues: %v", err)
	}
	close(release)
	if err := stop(); err != nil { // it writes what was left out
		t.Fatal(err)
	}
	left := 0
	for _, line := range lines(log.String(), "Left out requests that changed nothing") {
		var n int
		_, after, _ := strings.Cut(line, " requests=")
		fmt.Sscan(after, &n)
		left += n
	}
	if n := len(lines(log.String(), "msg=Audit .*result=InvalidArgument")); n < 50 || n+left != calls {
		t.Errorf("audited %d requests that changed nothing, and %d were left out, want 50 and all others", n, left)
	}
}

// The line of a request whose work goes on does not say that nothing was changed. The line at its
// end says whether something was, however many there are.
func TestAuditOfWorkWithoutCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		l, steps := newMemory(), new(inflight.Steps)
		stop := inMemoryWith(t, serve.Config{Log: log.logger(slog.LevelInfo), Audit: true, Steps: steps}, l, &fakeDisk{rescan: func(ctx context.Context) error {
			_, err := node.Await(ctx, func() (struct{}, error) {
				time.Sleep(20 * time.Millisecond)
				steps.Change()
				return struct{}{}, nil
			})
			return err
		}})
		defer stop()
		c := diskv1.NewDiskClient(l.client(t))
		const calls = 120
		for range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if _, err := c.Rescan(ctx, &diskv1.RescanRequest{}); status.Code(err) != codes.DeadlineExceeded {
				t.Fatalf("Rescan = %v, want DeadlineExceeded", err)
			}
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
		synctest.Wait()
		audited, finished := lines(log.String(), "msg=Audit "), lines(log.String(), `msg="Finished without its caller" .*changed=true`)
		if len(audited) != calls || strings.Contains(strings.Join(audited, ""), "changed=") || len(finished) != calls {
			t.Errorf("want %d requests audited without \"changed\" and as many changes at the end, got %d and %d, the first %q", calls, len(audited), len(finished), audited[:min(1, len(audited))])
		}
	})
}
