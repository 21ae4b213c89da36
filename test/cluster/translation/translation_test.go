package translation

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

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

// driver makes a directory at the target path, and remembers it.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	files  filesystem.Interface
	target string
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "driver"}, nil
}

func (d *driver) NodePublishVolume(ctx context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	d.target = in.GetTargetPath()
	_, err := d.files.Mkdir(ctx, &filesystem.MkdirRequest{Path: d.target})
	return &csi.NodePublishVolumeResponse{}, err
}

// The kubelet's calls reach the driver with paths of Windows, and both have the directories.
func TestCalls(t *testing.T) {
	dir, err := os.MkdirTemp("", "t") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := simnode.New(t)
	d := &driver{files: n.Filesystem()}
	l, err := net.Listen("unix", filepath.Join(dir, "driver.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, d)
	csi.RegisterNodeServer(s, d)
	t.Cleanup(s.Stop)
	go func() { _ = s.Serve(l) }() // ends with Stop
	var calls []Call
	root := filepath.Join(dir, "kubelet")
	translation, err := Start(t.Context(), Config{Root: root, Driver: "unix://" + l.Addr().String(), Files: n.Filesystem(), Called: func(c Call) error {
		calls = append(calls, c)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer translation.Close()
	conn, err := grpc.NewClient("unix://"+filepath.Join(root, "plugins", "driver", "csi.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	node := csi.NewNodeClient(conn)
	target := filepath.Join(root, "pods", "1", "mount")
	if _, err := node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: "v", TargetPath: target}); err != nil {
		t.Fatal(err)
	}
	const want = Dir + `\pods\1\mount`
	if d.target != want {
		t.Errorf("the driver gets the target %q, want %q", d.target, want)
	}
	if info, err := os.Stat(target); err != nil || !info.IsDir() {
		t.Errorf("the kubelet has no directory at the target: %v", err)
	}
	before := Call{Method: "NodePublishVolume", Path: want}
	after := before
	after.Done = true
	if !slices.Equal(calls, []Call{before, after}) {
		t.Errorf("the calls are %+v, want %+v and %+v", calls, before, after)
	}
	if _, err := node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{TargetPath: "/other"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a target path outside of the kubelet's directory: %v, want %v", err, codes.InvalidArgument)
	}
	if _, err := node.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a call that the driver does not have: %v, want %v", err, codes.Unimplemented)
	}
}
