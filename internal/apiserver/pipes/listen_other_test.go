//go:build !windows

package pipes_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

func TestListenReplacesStaleSocket(t *testing.T) {
	dir := socketDir(t)
	socket := filepath.Join(dir, "csi-proxy-disk-v1.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()

	l, err := pipes.Listen("csi-proxy-disk-v1")
	if err != nil {
		t.Fatalf("Listen over a stale socket: %v", err)
	}
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v, want mode 0600", info.Mode(), err)
	}
	l.Close()
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket outlived its listener")
	}
}

// Another user must not be able to connect in the moment before a mode is set.
func TestSocketIsNeverOpenToOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux makes the file of a socket with the mode of the socket: run it there")
	}
	dir := socketDir(t)
	socket := filepath.Join(dir, "csi-proxy-disk-v1.sock")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	stop := make(chan struct{})
	looks := make(chan int, 1)
	var wider atomic.Uint32
	go func() {
		n := 0
		defer func() { looks <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := os.Lstat(socket); err == nil {
				n++
				if mode := info.Mode().Perm(); mode != 0o600 {
					wider.Store(uint32(mode))
				}
			}
		}
	}()
	for range 2000 {
		l, err := pipes.Listen("csi-proxy-disk-v1")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	close(stop)
	n := <-looks
	if mode := wider.Load(); mode != 0 {
		t.Errorf("the socket had the mode %o for a moment, want 600 from the start", mode)
	}
	if n == 0 {
		t.Error("the socket was never seen")
	}
	t.Logf("%d looks at 2000 sockets", n)
}

// A stopping server may remove its socket while the next server checks whether the
// socket is in use.
func TestListenWhileServerStops(t *testing.T) {
	socketDir(t)
	for range 100 {
		first, err := pipes.Listen("csi-proxy-disk-v1")
		if err != nil {
			t.Fatal(err)
		}
		go first.Close()
		for {
			second, err := pipes.Listen("csi-proxy-disk-v1")
			if err == nil {
				second.Close()
				break
			}
			if !strings.Contains(err.Error(), "another CSI Proxy") {
				t.Fatalf("Listen = %v, want success, or an error that names another CSI Proxy", err)
			}
			runtime.Gosched()
		}
	}
}

func TestListenCreatesPrivateDirectory(t *testing.T) {
	dir := filepath.Join(socketDir(t), "a", "b")
	t.Setenv(pipe.DirVariable, dir)
	l, err := pipes.Listen("csi-proxy-disk-v1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v, want mode 0700", info.Mode(), err)
	}
}

func TestListenRefuses(t *testing.T) {
	t.Run("a file in the way", func(t *testing.T) {
		dir := socketDir(t)
		file := filepath.Join(dir, "csi-proxy-disk-v1.sock")
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pipes.Listen("csi-proxy-disk-v1"); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("Listen = %v, want an error because the file is not a socket", err)
		}
		if got, _ := os.ReadFile(file); string(got) != "precious" {
			t.Errorf("the file now holds %q", got)
		}
	})
	t.Run("a socket in use", func(t *testing.T) {
		socketDir(t)
		l, err := pipes.Listen("csi-proxy-disk-v1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := pipes.Listen("csi-proxy-disk-v1"); err == nil || !strings.Contains(err.Error(), "another CSI Proxy") {
			t.Errorf("second Listen = %v, want an error that names another CSI Proxy", err)
		}
	})
	t.Run("a path too long for a socket", func(t *testing.T) {
		t.Setenv(pipe.DirVariable, "/tmp/"+strings.Repeat("d", 100))
		if _, err := pipes.Listen("csi-proxy-disk-v1"); err == nil || !strings.Contains(err.Error(), "108") && !strings.Contains(err.Error(), "107") {
			t.Errorf("Listen = %v, want an error with the limit", err)
		}
	})
}

func TestSocketsHaveNoSecurityDescriptor(t *testing.T) {
	_, err := pipes.ListenWith("D:P(A;;GA;;;SY)")
	if !errors.Is(err, hosterr.ErrInvalid) || !strings.Contains(err.Error(), "D:P(A;;GA;;;SY)") || !strings.Contains(err.Error(), "no named pipes") {
		t.Errorf("ListenWith = %v, want an error with the descriptor and the reason", err)
	}
}

// socketDir creates a directory with a short path for the sockets of this test.
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
