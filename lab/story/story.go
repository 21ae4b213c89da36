// Package story makes the CSI calls of a volume's life, in the order of Kubernetes, on a
// driver's node service and a controller. Each node call is made twice, as the kubelet
// does when it lost an answer: the second must succeed, too.
package story

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Pod is what a pod does with its volume: it writes a file, and finds it again.
type Pod interface {
	Write(path string) error
	Exists(path string) (bool, error)
}

// nodePod is a pod on a simulated node.
type nodePod struct{ node *simnode.Node }

// NewPod returns a pod on a simulated node. What it writes is a file of the node, and not
// one of a Windows program.
func NewPod(n *simnode.Node) Pod { return nodePod{n} }

// Write implements [Pod].
func (p nodePod) Write(path string) error { return p.node.MakeFile(path) }

// Exists implements [Pod].
func (p nodePod) Exists(path string) (bool, error) {
	out, err := p.node.Filesystem().PathExists(context.Background(), &filesystem.PathExistsRequest{Path: path})
	if err != nil {
		return false, err
	}
	return out.Exists, nil
}

// Config is the configuration of a story.
type Config struct {
	Endpoint   string // of the driver: host:port, or unix: and the path of a socket
	Controller string // of the controller, in the same way
	// Files makes the kubelet's directories.
	Files filesystem.Interface
	// Pod uses the volume. If it is nil, nothing is written.
	Pod Pod
	// Name is the name of the volume. It must be new for this controller and node.
	Name string
	// Size and Larger are the sizes of the volume, in bytes, before and after its
	// expansion; 0 means 10 and 15 GiB.
	Size, Larger int64
	// Parameters are the parameters of CreateVolume.
	Parameters map[string]string
	// Secrets are the secrets of NodeStageVolume.
	Secrets map[string]string
	// Limit is how long a CSI call may take; 0 means two minutes, as for the kubelet.
	Limit time.Duration
	// Staged is called after the first NodeStageVolume of the story, if it is not nil.
	Staged func() error
}

// Step is a call of the story, or what the pod did.
type Step struct {
	Name string // such as "NodeStageVolume, again"
	Took time.Duration
	Says string // what it returned, if that is of interest
	Err  error
}

// String returns the step as a line.
func (s Step) String() string {
	line := fmt.Sprintf("%-34s %6.2fs", s.Name, s.Took.Seconds())
	switch {
	case s.Err != nil:
		line += "  " + s.Err.Error()
	case s.Says != "":
		line += "  " + s.Says
	}
	return line
}

const gib = 1 << 30

// Run plays the story and returns its steps. It stops at the first that fails, and returns
// its error too.
func Run(ctx context.Context, c Config) ([]Step, error) {
	if c.Size == 0 {
		c.Size = 10 * gib
	}
	if c.Larger == 0 {
		c.Larger = c.Size + 5*gib
	}
	if c.Limit == 0 {
		c.Limit = 2 * time.Minute
	}
	driver, err := connect(c.Endpoint, c.Limit)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	controller, err := connect(c.Controller, c.Limit)
	if err != nil {
		return nil, err
	}
	defer controller.Close()
	t := &teller{
		Config: c, ctx: ctx, node: csi.NewNodeClient(driver), controller: csi.NewControllerClient(controller),
		staging: `\var\lib\kubelet\plugins\kubernetes.io\csi\lab\` + c.Name + `\globalmount`,
		pod:     `c:\var\lib\kubelet\pods\` + c.Name + `\volumes\kubernetes.io~csi\pv`,
	}
	t.target = t.pod + `\mount`
	err = t.tell()
	return t.steps, err
}

func connect(address string, limit time.Duration) (*grpc.ClientConn, error) {
	if !strings.HasPrefix(address, "unix:") {
		address = "passthrough:///" + address
	}
	limited := func(ctx context.Context, method string, in, out any, c *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return call(ctx, method, in, out, c, options...)
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithUnaryInterceptor(limited))
}

// teller makes the calls of the story.
type teller struct {
	Config
	ctx        context.Context
	node       csi.NodeClient
	controller csi.ControllerClient

	staging, pod, target string
	steps                []Step

	nodeID     string
	volume     *csi.Volume
	context    map[string]string // of ControllerPublishVolume
	attaches   bool
	expands    bool
	stages     bool
	nodeGrows  bool
	statistics bool
}

// do makes a step.
func (t *teller) do(name string, call func() (says string, err error)) error {
	start := time.Now()
	says, err := call()
	t.steps = append(t.steps, Step{Name: name, Took: time.Since(start), Says: says, Err: err})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// twice makes a step twice.
func (t *teller) twice(name string, call func() error) error {
	quiet := func() (string, error) { return "", call() }
	if err := t.do(name, quiet); err != nil {
		return err
	}
	return t.do(name+", again", quiet)
}

// all makes steps until one fails.
func all(steps ...func() error) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

func (t *teller) tell() error {
	return all(
		t.capabilities, t.create,
		t.attach, t.stage, t.publish, t.write, t.stats(t.Size), t.expand, t.stats(t.Larger), t.read,
		t.unpublish, t.unstage, t.detach,
		// The pod moves away and comes back: nothing is formatted.
		t.attach, t.stage, t.publish, t.read, t.stats(t.Larger),
		t.unpublish, t.unstage, t.detach,
		t.delete,
	)
}

func (t *teller) capabilities() error {
	return t.do("capabilities", func() (string, error) {
		info, err := t.node.NodeGetInfo(t.ctx, &csi.NodeGetInfoRequest{})
		if err != nil {
			return "", err
		}
		t.nodeID = info.GetNodeId()
		node, err := t.node.NodeGetCapabilities(t.ctx, &csi.NodeGetCapabilitiesRequest{})
		if err != nil {
			return "", err
		}
		for _, c := range node.GetCapabilities() {
			switch c.GetRpc().GetType() {
			case csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
				t.stages = true
			case csi.NodeServiceCapability_RPC_EXPAND_VOLUME:
				t.nodeGrows = true
			case csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:
				t.statistics = true
			}
		}
		controller, err := t.controller.ControllerGetCapabilities(t.ctx, &csi.ControllerGetCapabilitiesRequest{})
		if err != nil {
			return "", err
		}
		for _, c := range controller.GetCapabilities() {
			switch c.GetRpc().GetType() {
			case csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:
				t.attaches = true
			case csi.ControllerServiceCapability_RPC_EXPAND_VOLUME:
				t.expands = true
			}
		}
		return "node " + t.nodeID, nil
	})
}

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (t *teller) create() error {
	return t.do("CreateVolume", func() (string, error) {
		out, err := t.controller.CreateVolume(t.ctx, &csi.CreateVolumeRequest{
			Name: t.Name, CapacityRange: &csi.CapacityRange{RequiredBytes: t.Size},
			VolumeCapabilities: []*csi.VolumeCapability{capability()}, Parameters: t.Parameters,
		})
		if err != nil {
			return "", err
		}
		t.volume = out.GetVolume()
		return t.volume.GetVolumeId(), nil
	})
}

func (t *teller) attach() error {
	if !t.attaches {
		return nil
	}
	return t.twice("ControllerPublishVolume", func() error {
		out, err := t.controller.ControllerPublishVolume(t.ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: t.volume.GetVolumeId(), NodeId: t.nodeID, VolumeCapability: capability(), VolumeContext: t.volume.GetVolumeContext(),
		})
		t.context = out.GetPublishContext()
		return err
	})
}

func (t *teller) stage() error {
	if !t.stages {
		return nil
	}
	// The kubelet makes the directory.
	if err := t.mkdir(t.staging); err != nil {
		return err
	}
	call := func() error {
		_, err := t.node.NodeStageVolume(t.ctx, &csi.NodeStageVolumeRequest{
			VolumeId: t.volume.GetVolumeId(), StagingTargetPath: t.staging, VolumeCapability: capability(),
			VolumeContext: t.volume.GetVolumeContext(), PublishContext: t.context, Secrets: t.Secrets,
		})
		return err
	}
	if t.Staged == nil {
		return t.twice("NodeStageVolume", call)
	}
	once := t.Staged
	t.Staged = nil
	return all(
		func() error { return t.do("NodeStageVolume", func() (string, error) { return "", call() }) },
		once,
		func() error { return t.do("NodeStageVolume, again", func() (string, error) { return "", call() }) },
	)
}

func (t *teller) mkdir(path string) error {
	_, err := t.Files.Mkdir(t.ctx, &filesystem.MkdirRequest{Path: path})
	return err
}

func (t *teller) publish() error {
	if err := t.mkdir(t.pod); err != nil {
		return err
	}
	return t.twice("NodePublishVolume", func() error {
		in := &csi.NodePublishVolumeRequest{
			VolumeId: t.volume.GetVolumeId(), TargetPath: t.target, VolumeCapability: capability(),
			VolumeContext: t.volume.GetVolumeContext(), PublishContext: t.context, Secrets: t.Secrets,
		}
		if t.stages {
			in.StagingTargetPath = t.staging
		}
		_, err := t.node.NodePublishVolume(t.ctx, in)
		return err
	})
}

func (t *teller) file() string { return t.target + `\written.txt` }

func (t *teller) write() error {
	if t.Pod == nil {
		return nil
	}
	return t.do("the pod writes", func() (string, error) { return "", t.Pod.Write(t.file()) })
}

func (t *teller) read() error {
	if t.Pod == nil {
		return nil
	}
	return t.do("the pod reads", func() (string, error) {
		there, err := t.Pod.Exists(t.file())
		if err == nil && !there {
			err = fmt.Errorf("the file %s is gone", t.file())
		}
		return "", err
	})
}

// stats returns a step that wants a volume of that size, less what a file system keeps.
func (t *teller) stats(size int64) func() error {
	return func() error {
		if !t.statistics {
			return nil
		}
		return t.do("NodeGetVolumeStats", func() (string, error) {
			out, err := t.node.NodeGetVolumeStats(t.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: t.volume.GetVolumeId(), VolumePath: t.target})
			if err != nil {
				return "", err
			}
			for _, u := range out.GetUsage() {
				if u.GetUnit() != csi.VolumeUsage_BYTES {
					continue
				}
				says := fmt.Sprintf("%d bytes, %d available", u.GetTotal(), u.GetAvailable())
				if total := u.GetTotal(); t.attaches && (total > size || total < size-size/20) {
					return says, fmt.Errorf("the volume has %d bytes, want at most %d and no more than 5%% less", total, size)
				}
				return says, nil
			}
			return "", errors.New("no usage in bytes")
		})
	}
}

func (t *teller) expand() error {
	if !t.expands {
		return nil
	}
	capacity := &csi.CapacityRange{RequiredBytes: t.Larger}
	var nodeToo bool
	err := t.twice("ControllerExpandVolume", func() error {
		out, err := t.controller.ControllerExpandVolume(t.ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: t.volume.GetVolumeId(), CapacityRange: capacity, VolumeCapability: capability(),
		})
		nodeToo = out.GetNodeExpansionRequired()
		return err
	})
	if err != nil || !nodeToo || !t.nodeGrows {
		return err
	}
	return t.twice("NodeExpandVolume", func() error {
		_, err := t.node.NodeExpandVolume(t.ctx, &csi.NodeExpandVolumeRequest{
			VolumeId: t.volume.GetVolumeId(), VolumePath: t.target, StagingTargetPath: t.staging, CapacityRange: capacity, VolumeCapability: capability(),
		})
		return err
	})
}

func (t *teller) unpublish() error {
	err := t.twice("NodeUnpublishVolume", func() error {
		_, err := t.node.NodeUnpublishVolume(t.ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: t.volume.GetVolumeId(), TargetPath: t.target})
		return err
	})
	if err != nil {
		return err
	}
	return t.gone(t.target)
}

// gone checks that a driver has removed what it made, as the specification demands.
func (t *teller) gone(path string) error {
	out, err := t.Files.PathExists(t.ctx, &filesystem.PathExistsRequest{Path: path})
	if err == nil && out.Exists {
		err = fmt.Errorf("%s exists after NodeUnpublishVolume", path)
	}
	return err
}

func (t *teller) unstage() error {
	if !t.stages {
		return nil
	}
	return t.twice("NodeUnstageVolume", func() error {
		_, err := t.node.NodeUnstageVolume(t.ctx, &csi.NodeUnstageVolumeRequest{VolumeId: t.volume.GetVolumeId(), StagingTargetPath: t.staging})
		return err
	})
}

func (t *teller) detach() error {
	if !t.attaches {
		return nil
	}
	return t.twice("ControllerUnpublishVolume", func() error {
		_, err := t.controller.ControllerUnpublishVolume(t.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: t.volume.GetVolumeId(), NodeId: t.nodeID})
		return err
	})
}

func (t *teller) delete() error {
	return t.twice("DeleteVolume", func() error {
		_, err := t.controller.DeleteVolume(t.ctx, &csi.DeleteVolumeRequest{VolumeId: t.volume.GetVolumeId()})
		return err
	})
}

// String returns steps as lines.
func String(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}
