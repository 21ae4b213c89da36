package story_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// start starts the example driver and a controller on a node.
func start(t *testing.T, n *simnode.Node) story.Config {
	t.Helper()
	preset, err := cloud.Named("example")
	if err != nil {
		t.Fatal(err)
	}
	controller, err := cloud.New(n, preset).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return story.Config{Endpoint: exampledriver.Start(t, n), Controller: controller, Files: n.Filesystem(), Pod: story.NewPod(n), Name: "story"}
}

func TestRun(t *testing.T) {
	n := simnode.New(t)
	before, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, n)
	var staged []string // what is mounted after the first NodeStageVolume
	c.Before = func(step string) error {
		if step != "NodeStageVolume, again" || staged != nil {
			return nil
		}
		state, err := n.Show()
		for _, m := range state.Mounts {
			staged = append(staged, m.Path)
		}
		return err
	}
	steps, err := story.Run(t.Context(), c)
	t.Logf("steps:\n%s", story.String(steps))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, s := range steps {
		seen[s.Name]++
	}
	for _, want := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "the pod reads"} {
		if seen[want] != 2 {
			t.Errorf("step %q was made %d times, want 2", want, seen[want])
		}
		if again := want + ", again"; strings.HasPrefix(want, "Node") && seen[again] != 2 {
			t.Errorf("step %q was made %d times, want 2", again, seen[again])
		}
	}
	if len(staged) != 1 || !strings.Contains(staged[0], `\lab\story\globalmount`) {
		t.Errorf("after NodeStageVolume these are mounted: %q, want the staging path", staged)
	}
	after, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Mounts) > 0 || len(after.Disks) != len(before.Disks) {
		t.Errorf("after the story the node has mounts %v and %d disks, want none and %d", after.Mounts, len(after.Disks), len(before.Disks))
	}
}

// The error of a step that fails is returned, and the volume is removed.
func TestRunStops(t *testing.T) {
	n := simnode.New(t)
	c := start(t, n)
	c.Retry = 1
	if _, err := n.Fail(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE"}); err != nil {
		t.Fatal(err)
	}
	steps, err := story.Run(t.Context(), c)
	if err == nil || !strings.HasPrefix(err.Error(), "NodeStageVolume: ") {
		t.Errorf("a story whose format fails: %v, want an error of NodeStageVolume", err)
	}
	if last := steps[len(steps)-1]; last.Name != "DeleteVolume, again" || last.Err != nil {
		t.Errorf("the last step is %v, want the end of the volume", last)
	}
}

// A call that fails is repeated with the kubelet's back-off.
func TestRunRepeats(t *testing.T) {
	n := simnode.New(t)
	c := start(t, n)
	if _, err := n.Fail(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE", Times: 1}); err != nil {
		t.Fatal(err)
	}
	c.Retry = time.Hour
	steps, err := story.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v; steps:\n%s", err, story.String(steps))
	}
	failed := 0
	for i, s := range steps {
		if s.Err != nil {
			failed++
			if s.Name != "NodeStageVolume" || steps[i+1].Name != s.Name {
				t.Errorf("step %q failed and %q is the next, want NodeStageVolume and its repetition", s, steps[i+1])
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d steps failed, want 1:\n%s", failed, story.String(steps))
	}
}

// formatter is the node service of a driver that formats a volume whenever it stages it.
type formatter struct {
	csi.UnimplementedNodeServer
	driver csi.NodeClient
	proxy  *simnode.Process
}

func (f formatter) NodeStageVolume(ctx context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	out, err := f.driver.NodeStageVolume(ctx, in)
	if err != nil {
		return nil, err
	}
	at, err := f.proxy.Volume().GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: in.GetStagingTargetPath()})
	if err != nil {
		return nil, err
	}
	_, err = f.proxy.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: at.VolumeID})
	return out, err
}

func (f formatter) NodeGetInfo(ctx context.Context, in *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return f.driver.NodeGetInfo(ctx, in)
}

func (f formatter) NodeGetCapabilities(ctx context.Context, in *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return f.driver.NodeGetCapabilities(ctx, in)
}

func (f formatter) NodePublishVolume(ctx context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	return f.driver.NodePublishVolume(ctx, in)
}

func (f formatter) NodeUnpublishVolume(ctx context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return f.driver.NodeUnpublishVolume(ctx, in)
}

func (f formatter) NodeUnstageVolume(ctx context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return f.driver.NodeUnstageVolume(ctx, in)
}

func (f formatter) NodeGetVolumeStats(ctx context.Context, in *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return f.driver.NodeGetVolumeStats(ctx, in)
}

func (f formatter) NodeExpandVolume(ctx context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	return f.driver.NodeExpandVolume(ctx, in)
}

// A driver that formats again is refused by CSI Proxy, or loses the file of the pod.
func TestRunFindsFormat(t *testing.T) {
	for _, c := range []struct {
		proxy rules.Rules
		want  string
	}{
		{rules.Rules{}, "NodeStageVolume: "},
		{rules.Rules{FormatExisting: true}, "the pod reads: "},
	} {
		n := simnode.New(t)
		config := start(t, n)
		config.Retry = 1
		p, err := n.NewProcess(c.proxy)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(config.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		csi.RegisterNodeServer(s, formatter{driver: csi.NewNodeClient(conn), proxy: p})
		t.Cleanup(s.Stop)
		go func() { _ = s.Serve(l) }() // ends with Stop
		config.Endpoint = l.Addr().String()
		steps, err := story.Run(t.Context(), config)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("the story of a driver that formats again: %v, want an error of %q; steps:\n%s", err, c.want, story.String(steps))
		}
		s.Stop()
	}
}

// A driver that does not answer does not block the story.
func TestRunLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := l.Addr().String()
	steps, err := story.Run(t.Context(), story.Config{Endpoint: silent, Controller: silent, Name: "story", Limit: 100 * time.Millisecond, Retry: 1})
	if status.Code(err) != codes.DeadlineExceeded || len(steps) != 1 {
		t.Errorf("a story with a driver that does not answer: %v, steps\n%s", err, story.String(steps))
	}
}
