// Package pipetest provides pipes for tests: named pipes on Windows, and the unix
// sockets that replace them on other systems.
package pipetest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

var serial atomic.Int64

// Path returns the path of a pipe that does not exist. On systems other than
// Windows it sets CSI_PROXY_DIR to a directory of the test, so the test must not be
// parallel.
func Path(t testing.TB) string {
	t.Helper()
	// t.TempDir contains the name of the test, which could make the path too long.
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv(pipe.DirVariable, dir)
	return pipe.Path(fmt.Sprintf("csi-proxy-test-%d-%d", os.Getpid(), serial.Add(1)))
}

// Listener counts accepted and open connections.
type Listener struct {
	net.Listener

	mu       sync.Mutex
	accepted int
	open     int
	changed  chan struct{} // closed and replaced with each change
}

// Listen listens on the pipe at path until the test ends or the listener is
// closed.
func Listen(t testing.TB, path string) *Listener {
	t.Helper()
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Listener{Listener: l, changed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.change(func() { l.accepted++; l.open++ })
	return &conn{Conn: c, l: l}, nil
}

// Handle accepts connections until the listener is closed, calls handle with each and
// closes it.
func (l *Listener) Handle(handle func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		handle(c)
		c.Close()
	}
}

// Stale leaves the socket of the pipe at path behind, as a killed server does, and
// returns the socket's path. Windows removes the pipe of a killed server, so the test
// is skipped there.
func Stale(t testing.TB, path string) (socket string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes the pipe of a killed server: run it on Linux")
	}
	socket, err := pipe.SocketPath(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal(err)
	}
	return socket
}

func (l *Listener) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Accepted returns the number of accepted connections.
func (l *Listener) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// WaitOpen waits until exactly want of the accepted connections are open. It fails
// the test after a minute.
func (l *Listener) WaitOpen(t testing.TB, want int) {
	t.Helper()
	l.wait(t, func() (bool, string) {
		return l.open == want, fmt.Sprintf("%d connections are open, want %d", l.open, want)
	})
}

// wait waits until done returns true. done is called with l.mu held.
func (l *Listener) wait(t testing.TB, done func() (bool, string)) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		l.mu.Lock()
		ok, state := done()
		changed := l.changed
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal(state)
		}
	}
}

type conn struct {
	net.Conn
	l    *Listener
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.l.change(func() { c.l.open-- }) })
	return c.Conn.Close()
}
