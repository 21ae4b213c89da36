package gcepd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/internal/port"
	"github.com/kubernetes-csi/csi-proxy/lab/mirror"
	"github.com/kubernetes-csi/csi-proxy/lab/relay"
	"github.com/kubernetes-csi/csi-proxy/lab/session"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// lab is a Wine session in which one driver runs at a time.
type lab struct {
	t       *testing.T
	session *session.Session
	driver  string // path of the driver's .exe
	relay   string // path of the relay's .exe

	kubelet *mirror.Mirror   // nil if C: is not mirrored
	pipes   *relay.Relay     // nil if none run
	process *session.Process // of the driver; nil if it does not run
}

// open starts Wine. The test is skipped where there is none.
func open(t *testing.T) *lab {
	t.Helper()
	driver := os.Getenv("CSI_PROXY_GCEPD_BINARY")
	if driver == "" {
		t.Skip("CSI_PROXY_GCEPD_BINARY does not name the driver's .exe; make gcepd builds it")
	}
	s, err := session.Open(t.Context(), session.Options{Log: t.Output()})
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, session: s, driver: driver, relay: filepath.Join(t.TempDir(), "csi-proxy-relay.exe")}
	t.Cleanup(func() {
		err := l.stop()
		if l.kubelet != nil {
			err = errors.Join(err, l.kubelet.Close())
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := relay.Build(t.Context(), l.relay); err != nil {
		t.Fatal(err)
	}
	return l
}

// mirror makes the kubelet's directory of the node that of Wine's C:, in which the driver
// itself looks for a published volume.
func (l *lab) mirror(n *simnode.Node) {
	l.t.Helper()
	var err error
	if l.kubelet, err = mirror.Start(l.session, n, mirror.Options{}); err != nil {
		l.t.Fatal(err)
	}
}

// stop stops the driver and its pipes.
func (l *lab) stop() error {
	if l.process != nil {
		l.process.Kill()
		if l.t.Failed() {
			l.t.Logf("output of the driver:\n%s", l.process.Output())
		}
		l.process = nil
	}
	if l.pipes == nil {
		return nil
	}
	err := l.pipes.Close()
	l.pipes = nil
	return err
}

// start starts the driver on the pipes of the proxy whose sockets are in dir, instead of
// the one that runs, and returns its endpoint.
func (l *lab) start(dir, metadata string) (endpoint string, err error) {
	if err := l.stop(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	if l.pipes, err = relay.Start(ctx, l.session, l.relay, dir); err != nil {
		return "", err
	}
	endpoint, release, err := port.Reserve()
	if err != nil {
		return "", err
	}
	defer release()
	l.process, err = l.session.Start(session.Program{
		Path: l.driver, Args: []string{"--endpoint=tcp://" + endpoint, "--run-controller-service=false", "--v=4"},
		Env: cloud.Environment(metadata),
	})
	if err != nil {
		return "", err
	}
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", endpoint)
		if err == nil {
			return endpoint, c.Close()
		}
		select {
		case <-l.process.Ended():
			return "", l.process.Wait(ctx)
		case <-ctx.Done():
			return "", fmt.Errorf("the driver does not listen: %w; its output:\n%s", err, l.process.Output())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startCloud starts a cloud's controller and metadata server for a node.
func startCloud(t *testing.T, n cloud.Node, preset cloud.Cloud) (controller, metadata string) {
	t.Helper()
	c := cloud.New(n, preset)
	controller, err := c.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if metadata, err = c.StartMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	return controller, metadata
}

func named(t *testing.T, name string) cloud.Cloud {
	t.Helper()
	c, err := cloud.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
