package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/calls"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The last failed calls are kept with the Win32 calls that failed in them, equal ones once.
// Successful calls are not kept, whatever fails in them.
func TestFailedCallsAreKept(t *testing.T) {
	socketDir(t)
	calls, steps := new(calls.Calls), new(inflight.Steps)
	var result error
	d := &fakeDisk{rescan: func(ctx context.Context) error {
		for start := time.Now(); time.Since(start) == 0; runtime.Gosched() { // Windows' clock stands still for milliseconds
		}
		_, err := node.Await(ctx, func() (struct{}, error) {
			steps.Add(inflight.Step{Call: "DeviceIoControl", Code: win32.IOCTL_DISK_GROW_PARTITION, Object: `\\.\PhysicalDrive1`, Err: win32.ERROR_IO_DEVICE})
			return struct{}{}, result
		})
		return err
	}}
	stop := begin(t, serve.Config{Log: slog.New(slog.DiscardHandler), Calls: calls, Steps: steps}, wire.Groups{Disk: d})
	c := dialDisk(t)
	call := func(err error) {
		t.Helper()
		result = err
		if _, got := c.Rescan(t.Context(), &diskv1.RescanRequest{}); (got == nil) != (err == nil) {
			t.Fatalf("Rescan = %v, want %v", got, err)
		}
	}
	call(nil)
	if got := calls.Failed(); len(got) > 0 {
		t.Errorf("a call that succeeded is kept: %+v", got)
	}
	call(hosterr.Wrap("rescan", "disks", win32.ERROR_IO_DEVICE))
	call(hosterr.Wrap("find", "disk 7", hosterr.ErrNotFound))
	call(hosterr.Wrap("rescan", "disks", win32.ERROR_IO_DEVICE))
	got := calls.Failed()
	if len(got) != 2 || got[0].Times != 2 || got[0].Code != codes.Internal || got[1].Times != 1 || got[1].Code != codes.NotFound || got[0].ID <= got[1].ID {
		t.Fatalf("kept: %+v", got)
	}
	f := got[0]
	if f.Pipe != "csi-proxy-disk-v1" || f.Method != "Rescan" || !strings.Contains(f.Error, "I/O device error") || f.Process == 0 || f.Program == "" || f.Took <= 0 || f.At.IsZero() || f.Gone {
		t.Errorf("kept: %+v", f)
	}
	if len(f.Win32) != 1 {
		t.Fatalf("Win32 calls: %+v", f.Win32)
	}
	w := f.Win32[0]
	if w.Call != "DeviceIoControl" || w.Code != "IOCTL_DISK_GROW_PARTITION" || w.Object != `\\.\PhysicalDrive1` || !strings.Contains(w.Error, "I/O device error") || w.At.IsZero() {
		t.Errorf("Win32 call: %+v", w)
	}

	call(nil)
	if got := calls.Failed(); len(got) != 2 || !got[0].Overcome || !got[1].Overcome || f.Overcome {
		t.Errorf("after a call that succeeded: %+v", got)
	}
	call(hosterr.Wrap("find", "disk 7", hosterr.ErrNotFound))
	if got := calls.Failed(); len(got) != 2 || got[0].Overcome || !got[1].Overcome {
		t.Errorf("after another that failed: %+v", got)
	}

	for i := range 40 {
		call(fmt.Errorf("error %d: %s", i, strings.Repeat("x", 5000)))
	}
	got = calls.Failed()
	if len(got) != 32 || !strings.HasPrefix(got[0].Error, "error 39:") || !strings.HasPrefix(got[31].Error, "error 8:") || len(got[0].Error) > 3000 {
		t.Errorf("%d calls are kept, from %.20q to %.20q", len(got), got[0].Error, got[len(got)-1].Error)
	}
	if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Many commands that query a busy server and give up do not displace the failures that they
// look for, and do not fill the log.
func TestLookThatEndsIsNotAFailure(t *testing.T) {
	socketDir(t)
	calls := new(calls.Calls)
	begun := make(chan struct{})
	d := &fakeDisk{rescan: func(ctx context.Context) error { close(begun); <-ctx.Done(); return ctx.Err() }}
	var log logBuffer
	pipes := serve.Pipes(wire.Disk(d, nil))
	for i := range pipes {
		pipes[i].Looks, pipes[i].Changes = true, func(method string) bool { return method != "Rescan" && method != "ListDiskIDs" }
	}
	s, err := serve.Open(t.Context(), serve.Config{Log: log.logger(slog.LevelInfo), Calls: calls}, pipes...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	limited, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := dialDisk(t).Rescan(limited, &diskv1.RescanRequest{}); err == nil {
		t.Fatal("Rescan succeeded")
	}
	stop()
	<-done // all calls have ended
	if kept := calls.Failed(); len(kept) > 0 || strings.Contains(log.String(), "Rescan") {
		t.Errorf("kept: %+v, logged:\n%s", kept, log.String())
	}
}
