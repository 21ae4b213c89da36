package driver_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"

	"example.com/csi-driver/driver"
	"example.com/csi-driver/simstorage"
)

// cluster calls the driver as Kubernetes does. each makes a call, perhaps repeatedly.
type cluster struct {
	csi.ControllerClient
	csi.NodeClient
	env  *env
	conn *grpc.ClientConn
	each func(step string, call func() error) error
}

func newCluster(e *env, conn *grpc.ClientConn, each func(step string, call func() error) error) *cluster {
	return &cluster{csi.NewControllerClient(conn), csi.NewNodeClient(conn), e, conn, each}
}

const gib = 1 << 30

// life makes a volume of a kind, uses it in two pods, grows it and deletes it.
func (c *cluster) life(ctx context.Context, name, kind string) error {
	plugin := pluginDir + `\` + name
	staging := plugin + `\globalmount`
	pods := []string{podsDir + `\` + name + `-a`, podsDir + `\` + name + `-b`}
	for _, dir := range append(pods, staging) {
		if err := eventually(ctx, func() error { return c.env.mkdir(dir) }); err != nil {
			return err
		}
	}
	var id string
	var publish map[string]string
	err := c.each("create", func() error {
		out, err := c.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, Parameters: map[string]string{driver.Kind: kind},
			VolumeCapabilities: []*csi.VolumeCapability{capability()}, CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
		})
		id = out.GetVolume().GetVolumeId()
		return err
	})
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		call func() error
	}{
		{"attach", func() error {
			out, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: nodeID, VolumeCapability: capability()})
			publish = out.GetPublishContext()
			return err
		}},
		{"stage", func() error {
			_, err := c.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
				VolumeId: id, StagingTargetPath: staging, VolumeCapability: capability(), PublishContext: publish, Secrets: stageSecrets(),
			})
			return err
		}},
		{"publish to a", func() error { return c.publish(ctx, id, staging, pods[0]) }},
		{"publish to b", func() error { return c.publish(ctx, id, staging, pods[1]) }},
		{"stats", func() error { return c.hasAtLeast(ctx, id, pods[0], gib*9/10) }},
		{"grow", func() error {
			_, err := c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}})
			return err
		}},
		{"expand", func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: pods[1] + target, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}})
			return err
		}},
		{"stats after expand", func() error { return c.hasAtLeast(ctx, id, pods[0], 2*gib*9/10) }},
		{"unpublish from a", func() error { return c.unpublish(ctx, id, pods[0]) }},
		{"stats at b", func() error { return c.hasAtLeast(ctx, id, pods[1], gib) }},
		{"unpublish from b", func() error { return c.unpublish(ctx, id, pods[1]) }},
		{"unstage", func() error {
			_, err := c.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
			return err
		}},
		{"detach", func() error {
			_, err := c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: nodeID})
			return err
		}},
		{"delete", func() error {
			_, err := c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		}},
	}
	for _, s := range steps {
		if err := c.each(s.name, s.call); err != nil {
			return fmt.Errorf("%s: %s: %w", name, s.name, err)
		}
	}
	for _, dir := range append(pods, plugin) {
		if err := eventually(ctx, func() error { return c.env.rmdir(dir) }); err != nil {
			return err
		}
	}
	return nil
}

// target is the end of a target path, below the directory of a pod.
const target = `\mount`

func (c *cluster) publish(ctx context.Context, id, staging, pod string) error {
	_, err := c.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging, TargetPath: pod + target, VolumeCapability: capability()})
	return err
}

func (c *cluster) unpublish(ctx context.Context, id, pod string) error {
	_, err := c.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: pod + target})
	return err
}

// hasAtLeast fails if the volume of a pod has fewer bytes.
func (c *cluster) hasAtLeast(ctx context.Context, id, pod string, size int64) error {
	out, err := c.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: pod + target})
	if err != nil {
		return err
	}
	if u := out.GetUsage()[0]; u.Total < size || u.Available > u.Total || u.Used+u.Available != u.Total {
		return status.Errorf(codes.DataLoss, "the volume has %v, want at least %d bytes", u, size)
	}
	return nil
}

// The life of a volume: each call is made, made again as after a lost answer, and once
// more after a restart of CSI Proxy or, in process, of the driver. Nothing is left, and
// no log line has a password.
func TestStory(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.String(), func(t *testing.T) {
			var log buffer
			e := start(t, s, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(9))))
			c := newCluster(e, e.connect(), func(step string, call func() error) error {
				for _, when := range []string{"first", "again", "after a restart"} {
					if when == "after a restart" {
						if err := e.restart(); err != nil {
							return err
						}
					}
					if err := eventually(t.Context(), call); err != nil {
						return fmt.Errorf("%s: %w", when, err)
					}
				}
				return nil
			})
			if err := c.life(t.Context(), "story", s.kind); err != nil {
				t.Error(err)
			}
			if left := e.left(); len(left) > 0 {
				t.Errorf("left on the node: %q", left)
			}
			if text := log.String(); !strings.Contains(text, "NodeStageVolume") || strings.Contains(text, simstorage.CHAPSecret) || strings.Contains(text, simstorage.SMBPassword) {
				t.Errorf("the log has a secret, or no calls:\n%s", text)
			}
		})
	}
}

// buffer is a buffer that several goroutines may write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A proxy that is killed while it makes a link leaves an empty directory. Publishing the
// volume again replaces it, but never a directory with content.
func TestPublishOverDirectory(t *testing.T) {
	e := start(t, setup{kind: driver.KindDisk}, klog.Logger{})
	if _, err := e.node.AttachDisk(simnode.Disk{Size: gib, Serial: "a"}); err != nil {
		t.Fatal(err)
	}
	c := newCluster(e, e.connect(), nil)
	id, staging := driver.DiskID("a"), pluginDir+`\a`
	_, err := c.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: capability(), PublishContext: map[string]string{driver.SerialNumber: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{podsDir + `\empty` + target, podsDir + `\full` + target + `\data`} {
		if err := e.mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.publish(t.Context(), id, staging, podsDir+`\empty`); err != nil {
		t.Errorf("publish over an empty directory: %v", err)
	}
	if err := c.hasAtLeast(t.Context(), id, podsDir+`\empty`, gib*9/10); err != nil {
		t.Errorf("the volume at what was an empty directory: %v", err)
	}
	if err := c.publish(t.Context(), id, staging, podsDir+`\full`); err == nil {
		t.Error("publish over a directory with content succeeds")
	}
	if there, err := e.exists(podsDir + `\full` + target + `\data`); err != nil || !there {
		t.Errorf("the content of a directory: %t, %v, want it to be there", there, err)
	}
}

// What the driver does not support is refused with the code that CSI prescribes.
func TestRefused(t *testing.T) {
	e := start(t, setup{kind: driver.KindDisk, findBy: driver.SerialNumber, arrival: time.Millisecond}, klog.Logger{})
	conn := e.connect()
	node, controller := csi.NewNodeClient(conn), csi.NewControllerClient(conn)
	id, path := driver.DiskID("a"), kubelet+`\a`
	block := capability()
	block.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	many := capability()
	many.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	ext4 := capability()
	ext4.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}}
	stage := func(id, path string, c *csi.VolumeCapability, publish map[string]string) error {
		_, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: path, VolumeCapability: c, PublishContext: publish, Secrets: stageSecrets()})
		return err
	}
	create := func(kind string, c *csi.VolumeCapability) error {
		_, err := controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "a", Parameters: map[string]string{driver.Kind: kind}, VolumeCapabilities: []*csi.VolumeCapability{c}})
		return err
	}
	_, publish := node.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: path, TargetPath: path + "b", VolumeCapability: capability()})
	serial := map[string]string{driver.SerialNumber: "none"}
	for _, c := range []struct {
		name string
		err  error
		want codes.Code
	}{
		{"stage raw block", stage(id, path, block, serial), codes.FailedPrecondition},
		{"stage for several nodes", stage(id, path, many, serial), codes.FailedPrecondition},
		{"stage ext4", stage(id, path, ext4, serial), codes.FailedPrecondition},
		{"create raw block", create(driver.KindDisk, block), codes.InvalidArgument},
		{"create a disk for several nodes", create(driver.KindDisk, many), codes.InvalidArgument},
		{"create a directory for several nodes", create(driver.KindSMB, many), codes.OK},
		{"create an unknown kind", create("tape", capability()), codes.InvalidArgument},
		{"stage an unknown volume", stage("tape#1", path, capability(), serial), codes.NotFound},
		{"stage a disk that is not there", stage(id, path, capability(), serial), codes.Unavailable},
		{"stage without a publish context", stage(id, path, capability(), nil), codes.InvalidArgument},
		{"stage on an unknown share", stage(driver.SMBID("files.example.com", "none", "a"), path, capability(), nil), codes.Internal},
		{"publish without stage", publish, codes.FailedPrecondition},
	} {
		if got := status.Code(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
}
