package pipetest

import (
	"context"
	"net"
	"time"

	"github.com/Microsoft/go-winio"
)

func listen(path string) (net.Listener, error) {
	l, err := winio.ListenPipe(path, nil)
	if err != nil {
		return nil, err
	}
	// go-winio keeps an instance of the pipe that nobody serves. On Windows no
	// client gets it; on Wine the first one does, and is never answered. So
	// that one is here.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if c, err := winio.DialPipeContext(ctx, path); err == nil {
		c.Close()
	}
	return l, nil
}
