//go:build !windows

package pipetest

import (
	"net"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

func listen(path string) (net.Listener, error) {
	socket, err := pipe.SocketPath(path)
	if err != nil {
		return nil, err
	}
	return net.Listen("unix", socket)
}
