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

// Listen creates the named pipe with this name.
func Listen(name string) (net.Listener, error) { return ListenAt(pipe.Path(name)) }

// ListenAt creates the named pipe at a path, with the default access rights of
// Windows and without access from other machines. It fails if the pipe exists: if
// two servers had the same pipe, Windows would distribute clients over both.
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

// listener is a pipe with a reliable Close.
type listener struct{ net.Listener }

// Close closes the pipe. In go-winio v0.6.2, a client that connects and disconnects
// during Close makes Close wait forever: listenerRoutine gets ERROR_NO_DATA, loses
// the request to close and connects the instance again. Published clients connect
// and disconnect to see whether a server exists. So Close repeats the request until
// it succeeds. Observed under Wine.
//
// go-winio v0.6.4 fixes this, and our programs link it. It needs Go 1.26, which this
// module may not require, so a driver that links this package can still have v0.6.2.
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
