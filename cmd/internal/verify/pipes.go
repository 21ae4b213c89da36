package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// server serves a place on pipes of its own, or on sockets where there are none, with the
// daemon's server and rules.
type server struct {
	p     *place
	at    func(name string) string // path of a pipe
	pipes []serve.Pipe
	stop  context.CancelFunc
	ended chan error
}

func newServer(p *place) *server {
	p.Helper()
	s := &server{p: p}
	prefix := directoryPrefix + rand.Text() + "-"
	s.at = func(name string) string { return pipe.Path(prefix + name) }
	if runtime.GOOS != "windows" {
		dir, err := os.MkdirTemp("", "csi") // short enough for a socket
		p.need(err)
		p.Cleanup(func() { os.RemoveAll(dir) })
		s.at = func(name string) string { return filepath.Join(dir, name+".sock") }
	}
	dirs, err := policy.ParseDirs([]string{p.dir, `E:\`}) // cases about drive letters use E:
	p.need(err)
	// The host has its own rule, which does not allow the defaults without -machine-settings.
	rules := &policy.Rules{Dirs: dirs, Services: append(policy.DefaultServices(), contractServices...)}
	s.pipes = serve.Pipes(wire.Services(wire.Groups{
		Check: rules.Check,
		Disk:  p.services.Disk, Volume: p.services.Volume, Filesystem: p.services.Filesystem,
		SMB: p.services.SMB, ISCSI: p.services.ISCSI, System: p.services.System,
	}))
	return s
}

// start returns when all pipes accept connections.
func (s *server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ready := make(chan struct{})
	server, err := serve.Open(ctx, serve.Config{
		Log:    slog.New(slog.DiscardHandler),
		Listen: func(name string) (net.Listener, error) { return pipes.ListenAt(s.at(name)) },
		Ready:  func() { close(ready) },
	}, s.pipes...)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	s.stop, s.ended = stop, make(chan error, 1)
	go func() { s.ended <- server.Serve(running) }()
	select {
	case <-ready:
		return nil
	case err := <-s.ended:
		stop()
		return fmt.Errorf("stopped before it was ready: %w", err)
	}
}

// end stops the server.
func (s *server) end() error {
	s.stop()
	return <-s.ended
}

// throughPipes makes calls of n go through a server of its own, as those of a driver do.
func (p *place) throughPipes(n *conformance.Node) {
	p.Helper()
	s := newServer(p)
	p.need(s.start())
	at := remote.WithPipePath(func(group string, v apiversion.Version) string {
		return s.at("csi-proxy-" + group + "-" + v.String())
	})
	d, errDisk := remote.NewDisk(p.Context(), at)
	v, errVolume := remote.NewVolume(p.Context(), at)
	f, errFilesystem := remote.NewFilesystem(p.Context(), at)
	y, errSystem := remote.NewSystem(p.Context(), at)
	p.need(errors.Join(errDisk, errVolume, errFilesystem, errSystem))
	p.Cleanup(func() {
		if err := errors.Join(d.Close(), v.Close(), f.Close(), y.Close(), s.end()); err != nil {
			p.Error(err)
		}
	})
	n.Disk, n.Volume, n.Filesystem, n.System = d, v, f, y
	n.Confined = true
}
