//go:build !windows

package serve_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
)

// reportingListener reports each connection that it accepts.
type reportingListener struct {
	net.Listener
	accepted chan<- struct{}
}

func (l reportingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- struct{}{}
	}
	return c, err
}

func TestReadyAfterEveryPipeAccepts(t *testing.T) {
	socketDir(t)
	accepted, ready := make(chan struct{}, 100), make(chan struct{})
	begin(t, serve.Config{
		Listen: func(name string) (net.Listener, error) {
			l, err := pipes.Listen(name)
			return reportingListener{l, accepted}, err
		},
		Ready: func() { close(ready) }, // a second call would panic
	}, wire.Groups{Disk: &fakeDisk{}})
	<-ready
	for range wire.Disk(nil, nil) {
		<-accepted // a socket connects before it is accepted
	}
}

func TestPipeThatServerCannotOpenIsServed(t *testing.T) {
	dir := socketDir(t)
	var log logBuffer
	ready := make(chan struct{})
	begin(t, serve.Config{
		Log: log.logger(slog.LevelInfo),
		Listen: func(name string) (net.Listener, error) {
			l, err := pipes.Listen(name)
			if name == "csi-proxy-disk-v1" {
				os.Rename(filepath.Join(dir, name+".sock"), filepath.Join(dir, "moved.sock"))
			}
			return l, err
		},
		Ready: func() { close(ready) },
	}, wire.Groups{Disk: &fakeDisk{}})
	<-ready
	if got := log.String(); !strings.Contains(got, "Cannot connect to own pipe") || !strings.Contains(got, "pipe=csi-proxy-disk-v1 ") {
		t.Errorf("log %q does not name the pipe", got)
	}
}
