package pipetest

import (
	"net"

	"github.com/Microsoft/go-winio"
)

func listen(path string) (net.Listener, error) {
	return winio.ListenPipe(path, nil)
}
