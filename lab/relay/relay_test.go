package relay_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"

	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/relay"
	"github.com/kubernetes-csi/csi-proxy/lab/session"
)

// The example driver, a Windows program under Wine, stages a volume through its pipes.
func TestDriver(t *testing.T) {
	s, err := session.Open(t.Context(), session.Options{Log: t.Output()})
	if errors.Is(err, session.ErrNoWine) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	driver := exampledriver.Build(t)
	exe := filepath.Join(t.TempDir(), "csi-proxy-relay.exe")
	if err := relay.Build(t.Context(), exe); err != nil {
		t.Fatal(err)
	}

	n := simnode.New(t)
	server := serve.Start(t, n)
	r, err := relay.Start(t.Context(), s, exe, server.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := s.Start(session.Program{Path: driver, Args: []string{"-endpoint=tcp://127.0.0.1:0", "-node-id=node-1"}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	address := listensOn(t, p)
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node := csi.NewNodeClient(conn)
	info, err := node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || info.GetNodeId() != "node-1" {
		t.Fatalf("NodeGetInfo = %v, %v", info, err)
	}

	if _, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "vol-1"}); err != nil {
		t.Fatal(err)
	}
	const staging = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\pv\vol-1\globalmount`
	stage := &csi.NodeStageVolumeRequest{
		VolumeId: "disk#vol-1", StagingTargetPath: staging, PublishContext: map[string]string{"serialNumber": "vol-1"},
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	}
	if _, err := node.NodeStageVolume(ctx, stage); err != nil {
		t.Fatalf("NodeStageVolume: %v", err)
	}
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Mounts) != 1 || state.Mounts[0].Path != `\var\lib\kubelet\plugins\kubernetes.io\csi\pv\vol-1\globalmount` {
		t.Errorf("mounts of the node are %+v, want the staging path", state.Mounts)
	}

	// While the proxy is stopped, the driver's calls fail; afterwards they work again.
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.NodeStageVolume(ctx, stage); status.Code(err) != codes.Unavailable {
		t.Errorf("stage without a proxy = %v, want Unavailable", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = node.NodeStageVolume(ctx, stage); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("stage after a restart: %v", err)
	}

	p.Stop(time.Minute)
	if err := p.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// listensOn waits until the driver's output has the address on which it listens.
func listensOn(t *testing.T, p *session.Process) string {
	t.Helper()
	line := regexp.MustCompile(`"Serving CSI".* address="([^"]+)"`)
	limit := time.After(time.Minute)
	for {
		if found := line.FindStringSubmatch(p.Output()); found != nil {
			return found[1]
		}
		select {
		case <-p.Ended():
			t.Fatal("the driver has ended")
		case <-limit:
			t.Fatal("the driver does not listen after a minute")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
