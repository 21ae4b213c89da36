package pipe

import (
	"context"
	"errors"
	"net"

	"github.com/Microsoft/go-winio"
)

// Dial connects to the server of a named pipe. While all instances of the pipe
// are busy it waits for one until ctx is done. If nobody serves the pipe, the
// error is an [fs.ErrNotExist] that names the path; if nobody became free in
// time, it is [winio.ErrTimeout], as winio.DialPipe returns it.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := winio.DialPipeContext(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, winio.ErrTimeout
	}
	return conn, err
}
