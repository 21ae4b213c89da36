//go:build !windows

package published

import (
	"context"
	"net"
)

// clients is nil on systems without named pipes.
var clients map[string]func() (any, error)

func dialPipe(ctx context.Context, pipe string, socket func(pipe string) string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socket(pipe))
}
