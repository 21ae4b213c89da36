package daemon_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A call that hangs in Windows stays visible when its caller is gone, with the Win32 call, and
// so do the calls that wait for it.
func TestCallsInFlight(t *testing.T) {
	sockets(t)
	p := start(t)
	p.await(t, "Serving ")
	node := control(t)
	if err := node.Fail(t.Context(), nodespec.Fault{Call: "DeviceIoControl", Code: win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, Times: 1, Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(pipe.Path(admin.Pipe))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// await returns the calls as soon as they are as wanted.
	await := func(want func([]*admin.Call) bool) []*admin.Call {
		t.Helper()
		for limit := time.Now().Add(longLimit); ; time.Sleep(5 * time.Millisecond) {
			out, err := admin.NewAdminClient(conn).ListCalls(t.Context(), &admin.ListCallsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if want(out.Calls) {
				return out.Calls
			}
			if time.Now().After(limit) {
				t.Fatalf("the calls are %v", out.Calls)
			}
		}
	}
	if got := await(func([]*admin.Call) bool { return true }); len(got) > 0 {
		t.Errorf("calls in flight before the first one: %v", got)
	}

	disks := diskClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error, 1)
	go func() {
		_, err := disks.SetDiskState(ctx, &diskv1.SetDiskStateRequest{DiskNumber: 2})
		left <- err
	}()
	await(func(calls []*admin.Call) bool { return len(calls) == 1 && calls[0].Win32 != "" })
	cancel()
	if err := <-left; status.Code(err) != codes.Canceled {
		t.Errorf("SetDiskState = %v, want Canceled", err)
	}
	hung := await(func(calls []*admin.Call) bool { return len(calls) == 1 && calls[0].CallerGone })[0]
	if hung.Pipe != "csi-proxy-disk-v1" || hung.Method != "SetDiskState" || hung.Target != "disk_number=2 is_online=false" || hung.Win32 != "DeviceIoControl" ||
		hung.Phase != "running" || hung.WaitsFor != "" || hung.Process != uint32(os.Getpid()) || hung.Program == "" {
		t.Errorf("the hung call is %v", hung)
	}

	waiting := make(chan error, 1)
	go func() {
		_, err := disks.SetDiskState(t.Context(), &diskv1.SetDiskStateRequest{DiskNumber: 2, IsOnline: true})
		waiting <- err
	}()
	waits := await(func(calls []*admin.Call) bool { return len(calls) == 2 && calls[1].WaitsFor != "" })[1]
	if waits.WaitsFor != "disk 2" || !slices.Equal(waits.HeldBy, []uint64{hung.Id}) || waits.CallerGone || waits.Id <= hung.Id || waits.Win32 != "" {
		t.Errorf("the waiting call is %v", waits)
	}
	p.await(t, `"Still running without its caller"`) // after ten seconds
	p.await(t, `win32="DeviceIoControl"`)
	if age := await(func(calls []*admin.Call) bool { return len(calls) == 2 })[0].AgeMilliseconds; age < 10_000 {
		t.Errorf("the hung call is %d ms old when it is logged, want ten seconds", age)
	}
	if err := node.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("the waiting call: %v", err)
	}
	p.await(t, `"Finished without its caller"`)
	await(func(calls []*admin.Call) bool { return len(calls) == 0 })
}
