//go:build !windows

package pipe

import (
	"context"
	"net"
)

// Dial connects to the server of the unix socket that stands in for a named
// pipe; see [SocketPath]. If nobody serves it, the error names the socket, and
// is an [fs.ErrNotExist] or a [syscall.ECONNREFUSED].
func Dial(ctx context.Context, path string) (net.Conn, error) {
	socket, err := SocketPath(path)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}
