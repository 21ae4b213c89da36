//go:build !windows

package pipes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// Listen creates the unix socket that replaces the named pipe with this name.
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// ListenAt creates a unix socket that only its owner can open. path is the path of
// the socket, or of the named pipe that it replaces. A socket left by a server that
// was killed is replaced; if a server still listens on the socket, ListenAt fails.
// Closing the listener removes the socket.
func ListenAt(path string) (net.Listener, error) {
	socket, err := pipe.SocketPath(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Without the lock, two servers that start at the same time could both find a
	// stale socket, and one would remove the new socket of the other.
	lock := flock.New(filepath.Join(dir, "csi-proxy.lock"), flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer lock.Close()

	if err := removeStale(socket); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Linux gives the file of a socket the mode of the socket, so it is never wider.
		// Other systems ignore or refuse this.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	l, err := config.Listen(context.Background(), "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// ListenWith fails, because sockets have no security descriptor.
func ListenWith(sddl string) (func(name string) (net.Listener, error), error) {
	const hint = "leave it out: only the user of the daemon can open its sockets"
	return nil, hosterr.TextWithHint(hosterr.ErrInvalid, hint, "security descriptor %q: this system has no named pipes; %s", sddl, hint)
}

// ServerOf returns the process that listens on the socket that replaces the pipe at a path,
// and its program if that can be read.
func ServerOf(path string) (pid uint32, image string, err error) {
	socket, err := pipe.SocketPath(path)
	if err != nil {
		return 0, "", err
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	pid, ok := ClientOf(conn)
	if !ok {
		return 0, "", fmt.Errorf("%s: this system does not say which process listens: %w", socket, errors.ErrUnsupported)
	}
	return pid, ProgramOf(pid), nil
}

// remedy says what to do.
func (e *inUseError) remedy() string { return "stop that one first" }

// removeStale removes a socket on which no server listens. The socket may
// disappear at any moment, if its server stops.
func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; remove it", socket)
	}
	conn, err := net.Dial("unix", socket)
	if err == nil {
		defer conn.Close()
		owner := "" // of another namespace
		if pid, ok := ClientOf(conn); ok {
			owner = fmt.Sprintf(" (process %d, %s)", pid, ProgramOf(pid))
		}
		return &inUseError{socket, fmt.Errorf("%s: another CSI Proxy%s is listening on it", socket, owner)}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = os.Remove(socket)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The socket belongs to another user, or its server is too busy to accept.
	return err
}
