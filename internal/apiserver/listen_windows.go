package apiserver

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/Microsoft/go-winio"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// Listen makes the named pipe of this name.
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// ListenAt makes the named pipe at a path, with the access rights that Windows
// gives a pipe by default, and not for clients on other machines. The pipe must
// not exist: with a second server on it, Windows would hand half of the
// connections to each.
func ListenAt(path string) (net.Listener, error) {
	name, err := pipe.Name(path)
	if err != nil {
		return nil, err
	}
	l, err := winio.ListenPipe(`\\.\pipe\`+name, nil)
	if errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
		return nil, fmt.Errorf("%w (is another CSI Proxy running?)", err)
	}
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

// listener is a pipe that can be closed at any moment.
type listener struct{ net.Listener }

// Close closes the pipe. go-winio forgets that it was told to if a client connects
// and hangs up, as published clients do to look whether there is a server, at that
// very moment: it tries again to connect the instance, and Close waits for ever
// (ERROR_NO_DATA in listenerRoutine of v0.6.2). So it is told again. Seen under Wine.
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
