package gcepd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
)

// killLimit limits all calls of kill. Only a hang takes this long.
const killLimit = 5 * time.Minute

// kill kills csi-proxy-sim with SIGKILL in the format of a volume that the driver stages.
// After its restart the driver's repeated call must complete. It returns how many calls
// that took.
func kill(t *testing.T, l *lab) (calls int) {
	binary := os.Getenv("CSI_PROXY_SIM_BINARY")
	if binary == "" {
		t.Fatal("CSI_PROXY_SIM_BINARY does not name csi-proxy-sim; make gcepd sets it")
	}
	dir, err := os.MkdirTemp("", "csi") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	state, node := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "node.yaml")
	daemon := func(formats time.Duration) (kill func()) {
		if err := os.WriteFile(node, fmt.Appendf(nil, "attach: seen\nformatDuration: %s\n", formats), 0o644); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		cmd := exec.Command(binary, "-state-dir", state, "-node-config", node)
		cmd.Env = append(os.Environ(), pipe.DirVariable+"="+dir)
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = func() {
			_ = cmd.Process.Kill() // fails if it was killed already
			_ = cmd.Wait()         // killed
			if t.Failed() {
				t.Logf("log of csi-proxy-sim:\n%s", log.String())
			}
		}
		t.Cleanup(kill)
		return kill
	}
	end := daemon(20 * time.Second) // it goes on after the kill
	ctx, cancel := context.WithTimeout(t.Context(), killLimit)
	defer cancel()
	n := connect(ctx, t, dir)
	controller, metadata := startCloud(t, n, named(t, "gce"))
	endpoint, err := l.start(dir, metadata)
	if err != nil {
		t.Fatal(err)
	}
	client := func(address string) *grpc.ClientConn {
		c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	cloudClient, driver := csi.NewControllerClient(client(controller)), csi.NewNodeClient(client(endpoint))
	capability := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	v, err := cloudClient.CreateVolume(ctx, &csi.CreateVolumeRequest{Name: "killed", VolumeCapabilities: []*csi.VolumeCapability{capability}})
	if err != nil {
		t.Fatal(err)
	}
	id := v.GetVolume().GetVolumeId()
	if _, err := cloudClient.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n", VolumeCapability: capability}); err != nil {
		t.Fatal(err)
	}
	const staging = `\var\lib\kubelet\plugins\kubernetes.io\csi\lab\killed\globalmount`
	files, err := remote.NewFilesystem(ctx, remote.WithPipePath(func(group string, version apiversion.Version) string {
		return filepath.Join(dir, "csi-proxy-"+group+"-"+version.String()+".sock")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if _, err := files.Mkdir(ctx, &filesystem.MkdirRequest{Path: staging}); err != nil {
		t.Fatal(err)
	}
	stage := func() error {
		_, err := driver.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: capability})
		return err
	}

	// The format begins a moment later.
	if err := n.Fail(simnode.Fault{Call: winapi.Format, Times: 1, Delay: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	formats := func() bool {
		state, err := n.Show()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(state.Faults, func(f simnode.Fault) bool { return f.Hits > 0 })
	}
	answer := make(chan error, 1)
	go func() { answer <- stage() }()
	for !formats() {
		select {
		case err := <-answer:
			t.Fatalf("NodeStageVolume returned before the kill: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	end()
	if err := <-answer; err == nil {
		t.Fatal("NodeStageVolume succeeds although csi-proxy-sim was killed in its format")
	} else {
		t.Logf("NodeStageVolume during the kill: %v", err)
	}
	daemon(time.Second)
	connect(ctx, t, dir)
	for calls = 1; ; calls++ {
		if err = stage(); err == nil {
			break
		}
		t.Logf("NodeStageVolume, repeated: %v", err)
		if ctx.Err() != nil {
			t.Fatalf("NodeStageVolume fails %d times after csi-proxy-sim was killed and restarted; the last error: %v", calls, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	volume, found := volumeOf(t, n)
	if !found || volume.FileSystem != "NTFS" || len(volume.MountedAt) != 1 {
		t.Errorf("after the repeated call the volume is %+v, want NTFS, mounted once", volume)
	}
	if _, err := driver.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging}); err != nil {
		t.Errorf("NodeUnstageVolume: %v", err)
	}
	return calls
}

// connect connects to the control of a csi-proxy-sim that starts.
func connect(ctx context.Context, t *testing.T, dir string) *control.Node {
	t.Helper()
	for {
		n, err := control.Open(ctx, dir)
		if err == nil {
			t.Cleanup(func() { n.Close() })
			return n
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// volumeOf returns the volume on the newest disk, if Windows knows it.
func volumeOf(t *testing.T, n *control.Node) (simnode.VolumeInfo, bool) {
	t.Helper()
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	newest := state.Disks[len(state.Disks)-1].Number
	for _, v := range state.Volumes {
		if v.Arrived && len(v.Disks) == 1 && v.Disks[0] == newest {
			return v, true
		}
	}
	return simnode.VolumeInfo{}, false
}
