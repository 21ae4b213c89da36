package pipetest

import (
	"net"
	"syscall"
	"time"

	"github.com/Microsoft/go-winio"
)

func listen(path string) (net.Listener, error) {
	l, err := winio.ListenPipe(path, nil)
	if err != nil {
		return nil, err
	}
	// go-winio creates an instance of the pipe that it does not serve. Windows
	// never connects a client to it, but Wine connects the first client, which then
	// waits forever. So connect to it here. This fails if there is no such instance
	// or another client is already connected to it.
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	if h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_EXISTING, 0, 0); err == nil {
		syscall.CloseHandle(h)
	}
	return listener{l}, nil
}

// listener repeats Close until it succeeds: go-winio v0.6.2 loses the request to
// close if a client connects and disconnects at the same time. v0.6.4 fixes this, but it
// needs Go 1.26, which this module may not require.
type listener struct{ net.Listener }

func (l listener) Close() error {
	closed := make(chan error, 1)
	for {
		go func() {
			err := l.Listener.Close()
			select {
			case closed <- err:
			default:
			}
		}()
		select {
		case err := <-closed:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
