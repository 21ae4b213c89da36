package pipe

import (
	"context"
	"errors"
	"net"

	"github.com/Microsoft/go-winio"
)

// Dial connects to a named pipe. While all instances of the pipe are busy it
// waits until ctx is done. If the pipe does not exist, the error is an
// [fs.ErrNotExist] that names the path. If no instance became free in time, it is
// [winio.ErrTimeout], which winio.DialPipe also returns.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := winio.DialPipeContext(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, winio.ErrTimeout
	}
	return conn, err
}
