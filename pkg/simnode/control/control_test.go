package control_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol/server"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
)

// begin serves the control service of a node, as csi-proxy-sim does: on its pipe, or on a
// socket in the directory that it returns.
func begin(t *testing.T, n *simnode.Node) (dir string) {
	t.Helper()
	path := pipe.Path(simcontrol.Pipe)
	if runtime.GOOS != "windows" {
		var err error
		if dir, err = os.MkdirTemp("", "csi"); err != nil { // short, because of the socket
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path = filepath.Join(dir, simcontrol.Pipe+".sock")
	}
	ready := make(chan struct{})
	s, err := serve.Open(t.Context(), serve.Config{
		Listen: func(string) (net.Listener, error) { return pipes.ListenAt(path) },
		Ready:  func() { close(ready) },
	}, serve.Pipe{Name: simcontrol.Pipe, Desc: &simcontrol.Node_ServiceDesc, Impl: server.New(n)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	<-ready
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestNode(t *testing.T) {
	n := simnode.New(t)
	c, err := control.Open(t.Context(), begin(t, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })

	d, err := c.AttachDisk(simnode.Disk{Size: 1 << 30, Identifiers: []simnode.Identifier{{CodeSet: "binary", Type: 3, Hex: "6000c29a98d05e38"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AwaitDisk(d.Number); err != nil {
		t.Fatal(err)
	}
	if err := c.GrowDisk(d.Number, 2<<30); err != nil {
		t.Error(err)
	}
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	last := state.Disks[len(state.Disks)-1]
	if last.Number != d.Number || last.Size != 2<<30 || last.Page83 != "6000c29a98d05e38" {
		t.Errorf("after AttachDisk and GrowDisk the node has %+v, want disk %d with 2 GiB and its identifier", last, d.Number)
	}
	if err := c.Fail(simnode.Fault{Call: "Reenumerate", Error: "ERROR_ACCESS_DENIED"}); err != nil {
		t.Error(err)
	}
	if _, err := n.Disk().Rescan(t.Context(), &disk.RescanRequest{}); err == nil {
		t.Error("Rescan succeeds after Fail, want ERROR_ACCESS_DENIED")
	}
	if err := c.ClearFaults(); err != nil {
		t.Error(err)
	}
	if _, err := n.Disk().Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Errorf("Rescan after ClearFaults: %v", err)
	}
	if err := c.Reboot(); err != nil {
		t.Error(err)
	}
	if state, err = c.Show(); err != nil {
		t.Fatal(err)
	}
	for _, now := range state.Disks { // a restart may change its number
		if now.ID == d.ID {
			d.Number = now.Number
		}
	}
	if err := c.DetachDisk(d.Number); err != nil {
		t.Error(err)
	}
	switch state, err := c.Show(); {
	case err != nil:
		t.Error(err)
	case len(state.Detached) != 1 || state.Detached[0] != d.ID:
		t.Errorf("after DetachDisk, Show reports %v as detached, want %q", state.Detached, d.ID)
	}
	if err := c.DetachDisk(d.Number); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Errorf("DetachDisk of a disk that is detached: %v, want an error that names the disk", err)
	}
}

func TestOpenWithoutProcess(t *testing.T) {
	dir := t.TempDir()
	if c, err := control.Open(t.Context(), dir); err == nil {
		c.Close()
		t.Error("Open succeeds where no csi-proxy-sim runs, want an error")
	} else if !strings.Contains(err.Error(), dir) {
		t.Errorf("Open where no csi-proxy-sim runs: %v, want an error that names %s", err, dir)
	}
}
