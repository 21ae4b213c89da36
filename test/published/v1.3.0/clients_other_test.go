//go:build !windows

package published

import (
	"context"
	"net"
)

// clients are none where there are no named pipes.
var clients map[string]func() (any, error)

func dialPipe(ctx context.Context, pipe string, socket func(pipe string) string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socket(pipe))
}
