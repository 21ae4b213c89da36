package negotiate_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// TestAccessDenied connects as another user, because file modes do not restrict root.
func TestAccessDenied(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp") // a directory that the other user reaches
	p := newProxy(t)
	p.serve("disk/v1beta2", "disk/v1")
	socket, err := pipe.SocketPath(p.path("disk/v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(os.Getenv(pipe.DirVariable), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o000); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		// The thread keeps the other user, so it must end with this goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				result <- err
				return
			}
		}
		for _, v := range []string{"v1", "v1alpha1"} {
			_, err := negotiate.Connect(within(t, time.Minute), "disk", versions(v), p.at())
			result <- err
		}
	}()
	if err := <-result; !errors.Is(err, negotiate.ErrAccessDenied) || !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("error %v, want ErrAccessDenied", err)
	}
	// A pipe that may not be opened exists.
	var e *negotiate.Error
	if err := <-result; !errors.As(err, &e) || e.Reason != negotiate.ErrTooOld || !slices.Equal(e.Serves, versions("v1beta2", "v1")) {
		t.Errorf("error %v, want ErrTooOld and both versions", err)
	}
}
