package pipes_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

func TestOpen(t *testing.T) {
	n := simnode.New(t)
	s := serve.Start(t, n, func(c *serve.Config) { c.APIs = []string{"disk/v1", "volume/v1"} })
	path := remote.WithPipePath(s.PipePath)
	c, err := pipes.Open(t.Context(), []string{"disk", "volume", "disk"}, path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Disk == nil || c.Volume == nil || c.Files != nil || c.SMB != nil {
		t.Errorf("the node has %+v, want disk and volume", c.Node)
	}
	_, can, err := c.Can(t.Context())
	if err != nil || can.Versions["disk"] != "v1" || can.Builds["disk"] == "" || len(can.Lacks()) != 1 || can.ChecksDisks {
		t.Errorf("abilities %+v, %v", can, err)
	}
	// Of a connection of the driver's own it is not known which proxy gets the next call.
	v1 := apiversion.NewVersionOrPanic("v1")
	conn, err := transport.Connect(s.PipePath("disk", v1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own, err := pipes.Open(t.Context(), []string{"disk"}, remote.WithConn(conn), remote.WithVersions(v1))
	if err != nil {
		t.Fatal(err)
	}
	if _, can, err := own.Can(t.Context()); err != nil || can.GuardsDisks || can.Builds["disk"] != "" {
		t.Errorf("abilities of a connection of the driver's own: %+v, %v", can, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// What the proxy was does not count any more.
	if _, can, err := c.Can(t.Context()); !errors.Is(err, hosterr.ErrUnavailable) {
		t.Errorf("without a proxy: %+v, %v", can, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenFails(t *testing.T) {
	s := serve.Start(t, simnode.New(t), func(c *serve.Config) { c.APIs = []string{"disk/v1"} })
	for _, c := range []struct {
		groups []string
		kind   error
	}{
		{nil, hosterr.ErrInvalid},
		{[]string{"disk", "discs"}, hosterr.ErrInvalid},
		{[]string{"disk", "smb"}, hosterr.ErrUnimplemented},
	} {
		if conn, err := pipes.Open(t.Context(), c.groups, remote.WithPipePath(s.PipePath)); !errors.Is(err, c.kind) {
			t.Errorf("Open(%q) = %v, %v, want %v", c.groups, conn, err, c.kind)
		}
	}
}
