//go:build !windows

package apiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// Listen makes the unix socket that stands in for the named pipe of this name.
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// ListenAt makes the unix socket that stands in for the named pipe at a path, or
// the one whose own path that is, for the owner alone. The socket of a server that
// was killed is replaced; one on which somebody answers is an error. Closing the
// listener removes it.
func ListenAt(path string) (net.Listener, error) {
	socket, err := pipe.SocketPath(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Two servers that start at once must not both find the socket stale and
	// each remove the other's.
	turn := flock.New(filepath.Join(dir, "csi-proxy.lock"), flock.SetPermissions(0o600))
	if err := turn.Lock(); err != nil {
		return nil, err
	}
	defer turn.Close()

	if err := removeStale(socket); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket on which nobody answers. A server that ends may
// remove its own at any moment.
func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way and no socket", socket)
	}
	conn, err := net.Dial("unix", socket)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%s: another CSI Proxy answers there", socket)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = os.Remove(socket)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Else a socket of another user, or a server too busy to accept.
	return err
}
