//go:build !windows

package pipe

import (
	"context"
	"net"
)

// Dial connects to the unix socket that replaces a named pipe; see [SocketPath].
// If no server listens on it, the error names the socket and is an
// [fs.ErrNotExist] or a [syscall.ECONNREFUSED].
func Dial(ctx context.Context, path string) (net.Conn, error) {
	socket, err := SocketPath(path)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}

// DialTrusted is [Dial]: the rights of the directory decide who can make a socket in it.
func DialTrusted(ctx context.Context, path string) (net.Conn, error) { return Dial(ctx, path) }
