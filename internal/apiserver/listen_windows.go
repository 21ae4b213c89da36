package apiserver

import (
	"errors"
	"fmt"
	"net"
	"syscall"

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
	return l, nil
}
