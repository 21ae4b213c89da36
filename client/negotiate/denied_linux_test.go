package negotiate_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// TestAccessDenied asks as somebody whom the modes of files concern: root is not
// refused.
func TestAccessDenied(t *testing.T) {
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
		// A thread of its own, which ends with the goroutine: it stays nobody's.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				result <- err
				return
			}
		}
		_, err := negotiate.Connect(within(t, time.Minute), "disk", versions("v1"), p.at())
		result <- err
	}()
	if err := <-result; !errors.Is(err, negotiate.ErrAccessDenied) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want one that access is denied", err)
	}
}
