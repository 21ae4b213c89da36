package translation

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

func TestWindows(t *testing.T) {
	for _, c := range []struct{ name, file, want, refused string }{
		{"the directory itself", "/n/kubelet", Dir, ""},
		{"a volume", "/n/kubelet/pods/1/volumes/kubernetes.io~csi/pv/mount", Dir + `\pods\1\volumes\kubernetes.io~csi\pv\mount`, ""},
		{"a trailing slash", "/n/kubelet/plugins/", Dir + `\plugins`, ""},
		{"another directory", "/n/other/pods", "", "not in the kubelet's directory"},
		{"a directory whose name begins like it", "/n/kubelet-2/pods", "", "not in the kubelet's directory"},
		{"a way out", "/n/kubelet/../other", "", "not in the kubelet's directory"},
		{"a name that Windows refuses", "/n/kubelet/a:b", "", "no Windows path has"},
	} {
		got, err := windows("/n/kubelet", c.file)
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: windows(%q) = %q, %v, want %q, %q", c.name, c.file, got, err, c.want, c.refused)
		}
	}
}

// fakeDriver answers every call that the test makes, and does to the node what it says.
type fakeDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	node *simnode.Node
	at   []string // paths of requests
}

func (d *fakeDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "d"}, nil
}

func (d *fakeDriver) NodeStageVolume(ctx context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	d.at = append(d.at, in.GetStagingTargetPath())
	_, err := d.node.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: in.GetStagingTargetPath()})
	return &csi.NodeStageVolumeResponse{}, err
}

func (d *fakeDriver) NodePublishVolume(ctx context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	d.at = append(d.at, in.GetStagingTargetPath(), in.GetTargetPath())
	_, err := d.node.Filesystem().CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: in.GetStagingTargetPath(), TargetPath: in.GetTargetPath()})
	return &csi.NodePublishVolumeResponse{}, err
}

func (d *fakeDriver) NodeUnpublishVolume(ctx context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	_, err := d.node.Filesystem().Rmdir(ctx, &filesystem.RmdirRequest{Path: in.GetTargetPath()})
	return &csi.NodeUnpublishVolumeResponse{}, err
}

// The calls of a volume's life: what each leaves on the node and for the kubelet.
func TestDirectories(t *testing.T) {
	base, err := os.MkdirTemp("", "tr") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	root := filepath.Join(base, "kubelet")
	n := simnode.New(t)
	d := &fakeDriver{node: n}
	l, err := net.Listen("unix", filepath.Join(base, "driver.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var calls []string
	fail := errors.New("stopped by the test")
	refuse := false
	tr, err := Start(t.Context(), Config{Root: root, Driver: "unix://" + l.Addr().String(), Files: n.Filesystem(), Called: func(c Call) error {
		if refuse {
			return fail
		}
		if c.Done && c.Err == nil {
			calls = append(calls, c.Method+" "+c.Volume)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("unix://"+filepath.Join(root, "plugins", "d", "csi.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	kubelet := csi.NewNodeClient(conn)

	staging, pod := filepath.Join(root, "plugins", "v", "globalmount"), filepath.Join(root, "pods", "1")
	target := filepath.Join(pod, "volumes", "pv", "mount")
	for _, dir := range []string{staging, filepath.Dir(target)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	onNode := func(path string, want bool) {
		t.Helper()
		got, err := n.Filesystem().PathExists(t.Context(), &filesystem.PathExistsRequest{Path: path})
		if err != nil || got.Exists != want {
			t.Errorf("on the node %s exists: %v, %v, want %v", path, got, err, want)
		}
	}
	forKubelet := func(path string, want bool) {
		t.Helper()
		info, err := os.Lstat(path)
		if want && (err != nil || !info.IsDir()) || !want && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("for the kubelet %s: %v, want a directory: %v", path, err, want)
		}
	}
	if _, err := kubelet.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: staging}); err != nil {
		t.Fatal(err)
	}
	if _, err := kubelet.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: "v", StagingTargetPath: staging, TargetPath: target}); err != nil {
		t.Fatal(err)
	}
	const onStaging, onTarget = Dir + `\plugins\v\globalmount`, Dir + `\pods\1\volumes\pv\mount`
	if want := []string{onStaging, onStaging, onTarget}; !slices.Equal(d.at, want) {
		t.Errorf("the driver got the paths %q, want %q", d.at, want)
	}
	onNode(onTarget, true)
	forKubelet(target, true)
	if want := []string{onStaging, Dir + `\pods\1`}; !slices.Equal(tr.Volumes(), want) {
		t.Errorf("Volumes() = %q, want %q", tr.Volumes(), want)
	}

	// A link stays on the node, even if the kubelet has removed its directory.
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if err := tr.mirror.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	onNode(onTarget, true)

	if _, err := kubelet.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target}); err != nil {
		t.Fatal(err)
	}
	onNode(onTarget, false)
	forKubelet(target, false)
	if err := os.RemoveAll(pod); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(staging); err != nil {
		t.Fatal(err)
	}
	if err := tr.mirror.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	onNode(Dir+`\pods\1`, false)
	onNode(onStaging, false)
	onNode(Dir+`\pods`, true) // the kubelet has it
	if left := tr.Volumes(); len(left) > 0 {
		t.Errorf("Volumes() = %q at the end, want none", left)
	}

	if want := []string{"NodeStageVolume v", "NodePublishVolume v", "NodeUnpublishVolume v"}; !slices.Equal(calls, want) {
		t.Errorf("Called saw %q, want %q", calls, want)
	}
	if _, err := kubelet.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: "/etc"}); err == nil {
		t.Error("a path outside of the kubelet's directory was passed on")
	}
	refuse = true
	before := len(d.at)
	if _, err := kubelet.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "v", StagingTargetPath: staging}); err == nil || len(d.at) != before {
		t.Errorf("NodeStageVolume that Called refuses = %v, and the driver got %d calls, want %d", err, len(d.at), before)
	}
}
