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
	// go-winio keeps an instance of the pipe that nobody serves. On Windows no
	// client gets it; on Wine the first one does, and is never answered. So
	// that one is here. The pipe is busy where there is no such instance, or another
	// client got it.
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	if h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_EXISTING, 0, 0); err == nil {
		syscall.CloseHandle(h)
	}
	return listener{l}, nil
}

// listener can be closed while a client connects and hangs up: go-winio v0.6.2 then
// forgets that it is to close, and is told again.
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
