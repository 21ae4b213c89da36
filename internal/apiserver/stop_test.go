package apiserver

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// idle is a listener that is not served; it counts calls of Close.
type idle struct {
	net.Listener
	closed *atomic.Int32
}

func (l idle) Close() error { l.closed.Add(1); return nil }

// A server may stop before gRPC serves its pipes. It must still close them, so that
// the next server can create them.
func TestStopRemovesUnservedPipes(t *testing.T) {
	var closed atomic.Int32
	pipes := Pipes(wire.Disk(nil, nil))
	s, err := Open(Config{Listen: func(string) (net.Listener, error) { return idle{closed: &closed}, nil }}, pipes...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil || int(closed.Load()) != len(pipes) {
		t.Errorf("stop = %v, and %d of %d pipes are closed", err, closed.Load(), len(pipes))
	}
}
