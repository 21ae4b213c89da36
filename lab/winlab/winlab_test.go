package winlab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"

	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/winlab"
)

const (
	staging = `C:\var\lib\kubelet\plugins\kubernetes.io\csi\vol-1\globalmount`
	pod     = `C:\var\lib\kubelet\pods\pod`
	target  = pod + `\mount`
	limit   = time.Minute
)

// driver is the example driver in a lab.
type driver struct {
	t *testing.T
	*winlab.Lab
	node csi.NodeClient
}

func connect(t *testing.T, lab *winlab.Lab) *driver {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+lab.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &driver{t, lab, csi.NewNodeClient(conn)}
}

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (d *driver) stage() error {
	ctx, cancel := context.WithTimeout(d.t.Context(), limit)
	defer cancel()
	_, err := d.node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: "disk#vol-1", StagingTargetPath: staging, PublishContext: map[string]string{"serialNumber": "vol-1"}, VolumeCapability: capability(),
	})
	return err
}

func (d *driver) publish() error {
	ctx, cancel := context.WithTimeout(d.t.Context(), limit)
	defer cancel()
	_, err := d.node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: "disk#vol-1", StagingTargetPath: staging, TargetPath: target, VolumeCapability: capability(),
	})
	return err
}

// A driver meets faults, the loss of its disk, a proxy that is stopped, and its own death.
func TestDriver(t *testing.T) {
	n := simnode.New(t)
	lab := winlab.Start(t, n, exampledriver.Build(t), "-node-id=node-1")
	d := connect(t, lab)
	info, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "vol-1"})
	if err != nil {
		t.Fatal(err)
	}
	fault, err := n.Fail(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE", Times: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.stage(); err == nil || fault.Hits() != 1 {
		t.Errorf("stage with a format that fails = %v, after %d hits", err, fault.Hits())
	}
	if err := d.stage(); err != nil {
		t.Errorf("stage, again: %v", err)
	}
	// The kubelet makes the directory above the target path.
	if err := n.PutFile(pod, true, 0); err != nil {
		t.Fatal(err)
	}
	lab.Kill()
	if err := lab.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = connect(t, lab)
	if err := d.publish(); err != nil {
		t.Errorf("publish after the driver was killed: %v", err)
	}
	if files, err := n.Files(target); err != nil || len(files) != 1 || files[0].Link == nil {
		t.Errorf("at the target path are %+v, %v, want a link", files, err)
	}

	if err := lab.Proxy.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.stage(); status.Code(err) != codes.Unavailable {
		t.Errorf("stage without a proxy = %v, want Unavailable", err)
	}
	if err := lab.Proxy.Restart(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		if err = d.stage(); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Errorf("stage with the proxy back: %v", err)
	}
	if err := n.DetachDisk(info.Number); err != nil {
		t.Fatal(err)
	}
	if err := d.stage(); status.Code(err) != codes.Unavailable {
		t.Errorf("stage without the disk = %v, want Unavailable", err)
	}
	lab.Stop()
	if out := lab.Output(); !strings.Contains(out, "Stopped") {
		t.Errorf("the driver does not stop as on Ctrl+C; its output is %q", out)
	}
}

// BeforeV1 has all versions before v1 that CSI Proxy serves.
func TestBeforeV1(t *testing.T) {
	var want []string
	sockets, err := os.ReadDir(serve.Start(t, simnode.New(t)).Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, socket := range sockets {
		name, _ := strings.CutPrefix(strings.TrimSuffix(socket.Name(), ".sock"), "csi-proxy-")
		group, text, _ := strings.Cut(name, "-")
		version, err := apiversion.NewVersion(text)
		if err != nil {
			continue // another file
		}
		if version.Compare(apiversion.NewVersionOrPanic("v1")) == apiversion.Lesser {
			want = append(want, group+"/"+text)
		}
	}
	if have := winlab.BeforeV1(); !slices.Equal(have, want) {
		t.Errorf("BeforeV1 is %q, want %q", have, want)
	}
}

// A driver serves on the endpoints that it ships with.
func TestEndpoints(t *testing.T) {
	lab := winlab.New(t, simnode.New(t))
	exe := exampledriver.Build(t)
	node := func(name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		info, err := connect(t, lab).node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		if err != nil || info.GetNodeId() != name {
			t.Errorf("NodeGetInfo = %v, %v, want %q", info, err, name)
		}
	}
	for i, endpoint := range []string{`unix://C:\csi\csi.sock`, `unix:///csi/csi.sock`, `unix://C:/var/lib/kubelet/plugins/a/csi.sock`} {
		name := fmt.Sprintf("node-%d", i)
		if err := lab.Run(t.Context(), exe, "-endpoint="+endpoint, "-node-id="+name); err != nil {
			t.Fatalf("%s: %v", endpoint, err)
		}
		node(name)
	}
	// The socket that a driver left when it was killed.
	lab.Kill()
	if err := lab.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	node("node-2")
	// Files, as from a ConfigMap.
	const config = `C:\var\lib\kubelet\own\driver.json`
	if err := lab.RunWith(t.Context(), winlab.Driver{Exe: exe, Args: []string{"-node-id=node-4"}, Files: map[string]string{config: "{}"}}); err != nil {
		t.Fatal(err)
	}
	if content, err := lab.ReadFile(config); err != nil || content != "{}" {
		t.Errorf("the driver's file has %q, %v, want {}", content, err)
	}
	for _, path := range []string{`D:\driver.json`, `own\driver.json`, `C:\`, ""} {
		if err := lab.RunWith(t.Context(), winlab.Driver{Exe: exe, Files: map[string]string{path: ""}}); err == nil || !strings.Contains(err.Error(), "want a path of drive C:") {
			t.Errorf("a driver with a file %q = %v, want an error with what is allowed", path, err)
		}
	}
	// A program that ends, such as a test.
	if err := lab.Run(t.Context(), exe, "-h"); !errors.Is(err, winlab.ErrEnded) {
		t.Errorf("a program that ends: %v, want ErrEnded", err)
	}
}

// While a driver does not listen, the lab's other methods work. The end of the context, and
// Kill, end the wait and the driver.
func TestSilentDriver(t *testing.T) {
	lab := winlab.New(t, simnode.New(t))
	exe := exampledriver.Build(t)
	for _, c := range []struct {
		name, endpoint string
		end            func(cancel func())
		want           string
	}{
		{"canceled", "tcp://127.0.0.1:0", func(cancel func()) { cancel() }, "context canceled"},
		{"killed", "tcp://0.0.0.0:0", func(func()) { lab.Kill() }, "ended with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			result := make(chan error, 1)
			// The driver gets the address, and listens on another.
			go func() { result <- lab.Run(ctx, exe, "-endpoint="+c.endpoint, "-node-id=ADDRESS") }()
			for !strings.Contains(lab.Output(), c.endpoint) {
				select {
				case err := <-result:
					t.Fatalf("run returned early: %v", err)
				case <-time.After(20 * time.Millisecond):
				}
			}
			if endpoint := lab.Endpoint(); endpoint != "" {
				t.Errorf("the endpoint of a driver that does not listen is %q, want none", endpoint)
			}
			start := time.Now()
			c.end(cancel)
			if err := <-result; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run = %v, want %q", err, c.want)
			}
			if took := time.Since(start); took > limit/2 {
				t.Errorf("run returned after %v", took)
			}
		})
	}
}
