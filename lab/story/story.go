// Package story makes the CSI calls of a volume's life, in the order of Kubernetes, on a
// driver's node service and a controller. Each node call is made twice, as the kubelet
// does when it lost an answer: the second must succeed, too. A call that fails is repeated
// as the kubelet does, with its back-off. A pod writes a file, and finds it again after the
// volume was attached again, or the driver has lost its data.
package story

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"

	"github.com/kubernetes-csi/csi-proxy/lab/storageclass"
)

// Pod is what a pod does with its volume: it writes a file, and finds it again. A
// *winlab.Lab is one.
type Pod interface {
	WriteFile(path, content string) error
	ReadFile(path string) (string, error)
}

// nodePod is a pod on a simulated node, whose files have no content.
type nodePod struct {
	node    *simnode.Node
	written map[string]string
}

// NewPod returns a pod on a simulated node. What it writes is a file of the node, and not
// one of a Windows program.
func NewPod(n *simnode.Node) Pod { return nodePod{n, map[string]string{}} }

// WriteFile implements [Pod].
func (p nodePod) WriteFile(path, content string) error {
	p.written[path] = content
	return p.node.MakeFile(path)
}

// ReadFile implements [Pod].
func (p nodePod) ReadFile(path string) (string, error) {
	out, err := p.node.Filesystem().PathExists(context.Background(), &filesystem.PathExistsRequest{Path: path})
	if err == nil && !out.Exists {
		err = fs.ErrNotExist
	}
	return p.written[path], err
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
	// Class is what the calls get in addition.
	Class storageclass.Class
	// Retry is how long a call that fails is repeated, after half a second and then after
	// twice as long each time, as by the kubelet; 0 means ten seconds.
	Retry time.Duration
	// Limit is how long a CSI call may take; 0 means two minutes, as for the kubelet.
	Limit time.Duration
}

// Step is a call, or an action of the pod.
type Step struct {
	Name string // such as "NodeStageVolume, again"
	Took time.Duration
	Note string // what it returned, if that is of interest
	Err  error
}

// String returns the step as a line.
func (s Step) String() string {
	line := fmt.Sprintf("%-34s %6.2fs", s.Name, s.Took.Seconds())
	switch {
	case s.Err != nil:
		line += "  " + s.Err.Error()
	case s.Note != "":
		line += "  " + s.Note
	}
	return line
}

// The sizes of the volume, in bytes, before and after its expansion.
const (
	small = 10 << 30
	large = 15 << 30
)

// Run makes the calls and returns the steps. If a step fails, and fails when it is repeated,
// the rest of the story is how Kubernetes removes the volume, and Run returns the error.
func Run(ctx context.Context, c Config) ([]Step, error) {
	if c.Limit == 0 {
		c.Limit = 2 * time.Minute
	}
	if c.Retry == 0 {
		c.Retry = 10 * time.Second
	}
	driver, err := connect(c.Endpoint, c)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	controller, err := connect(c.Controller, c)
	if err != nil {
		return nil, err
	}
	defer controller.Close()
	r := &runner{
		Config: c, ctx: ctx, node: csi.NewNodeClient(driver), controller: csi.NewControllerClient(controller),
		staging: `\var\lib\kubelet\plugins\kubernetes.io\csi\lab\` + c.Name + `\globalmount`,
		pod:     `c:\var\lib\kubelet\pods\` + c.Name + `\volumes\kubernetes.io~csi\pv`,
	}
	r.target = r.pod + `\mount`
	err = r.run()
	return r.steps, err
}

func connect(address string, config Config) (*grpc.ClientConn, error) {
	if !strings.HasPrefix(address, "unix:") {
		address = "passthrough:///" + address
	}
	limited := func(ctx context.Context, method string, in, out any, c *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, config.Limit)
		defer cancel()
		return call(ctx, method, in, out, c, options...)
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithUnaryInterceptor(limited), config.Class.Dial())
}

// runner makes the calls of the story.
type runner struct {
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

// do makes a step, and repeats it while it fails.
func (r *runner) do(name string, call func() (note string, err error)) error {
	begin := time.Now()
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		start := time.Now()
		note, err := call()
		r.steps = append(r.steps, Step{Name: name, Took: time.Since(start), Note: note, Err: err})
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", name, err)
		if time.Since(begin)+pause > r.Retry {
			return err
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return err
		}
	}
}

// once makes a step that is not a call, and so is not repeated.
func (r *runner) once(name string, do func() error) error {
	start := time.Now()
	err := do()
	r.steps = append(r.steps, Step{Name: name, Took: time.Since(start), Err: err})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// twice makes a step twice.
func (r *runner) twice(name string, call func() error) error {
	quiet := func() (string, error) { return "", call() }
	if err := r.do(name, quiet); err != nil {
		return err
	}
	return r.do(name+", again", quiet)
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

func (r *runner) run() error {
	if err := all(r.capabilities, r.create); err != nil {
		return err
	}
	err := all(
		r.attach, r.stage, r.publish, r.write, r.stats(small), r.expand, r.stats(large), r.read,
		r.unpublish, r.unstage, r.detach,
		// The pod moves away and comes back: nothing is formatted.
		r.attach, r.stage, r.publish, r.read, r.stats(large),
		r.unpublish, r.unstage, r.detach,
		r.delete,
	)
	if err != nil {
		// The first error counts. Kubernetes goes on only after each of these succeeded.
		_ = all(r.unpublish, r.unstage, r.detach, r.delete)
	}
	return err
}

func (r *runner) capabilities() error {
	return r.do("capabilities", func() (string, error) {
		info, err := r.node.NodeGetInfo(r.ctx, &csi.NodeGetInfoRequest{})
		if err != nil {
			return "", err
		}
		r.nodeID = info.GetNodeId()
		node, err := r.node.NodeGetCapabilities(r.ctx, &csi.NodeGetCapabilitiesRequest{})
		if err != nil {
			return "", err
		}
		for _, c := range node.GetCapabilities() {
			switch c.GetRpc().GetType() {
			case csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
				r.stages = true
			case csi.NodeServiceCapability_RPC_EXPAND_VOLUME:
				r.nodeGrows = true
			case csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:
				r.statistics = true
			}
		}
		controller, err := r.controller.ControllerGetCapabilities(r.ctx, &csi.ControllerGetCapabilitiesRequest{})
		if err != nil {
			return "", err
		}
		for _, c := range controller.GetCapabilities() {
			switch c.GetRpc().GetType() {
			case csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:
				r.attaches = true
			case csi.ControllerServiceCapability_RPC_EXPAND_VOLUME:
				r.expands = true
			}
		}
		return "node " + r.nodeID, nil
	})
}

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (r *runner) create() error {
	return r.do("CreateVolume", func() (string, error) {
		out, err := r.controller.CreateVolume(r.ctx, &csi.CreateVolumeRequest{
			Name: r.Name, CapacityRange: &csi.CapacityRange{RequiredBytes: small},
			VolumeCapabilities: []*csi.VolumeCapability{capability()},
		})
		if err != nil {
			return "", err
		}
		r.volume = out.GetVolume()
		return r.volume.GetVolumeId(), nil
	})
}

func (r *runner) attach() error {
	if !r.attaches {
		return nil
	}
	return r.twice("ControllerPublishVolume", func() error {
		out, err := r.controller.ControllerPublishVolume(r.ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: r.volume.GetVolumeId(), NodeId: r.nodeID, VolumeCapability: capability(), VolumeContext: r.volume.GetVolumeContext(),
		})
		r.context = out.GetPublishContext()
		return err
	})
}

func (r *runner) stage() error {
	if !r.stages {
		return nil
	}
	// The kubelet makes the directory.
	if err := r.mkdir(r.staging); err != nil {
		return err
	}
	return r.twice("NodeStageVolume", func() error {
		_, err := r.node.NodeStageVolume(r.ctx, &csi.NodeStageVolumeRequest{
			VolumeId: r.volume.GetVolumeId(), StagingTargetPath: r.staging, VolumeCapability: capability(),
			VolumeContext: r.volume.GetVolumeContext(), PublishContext: r.context,
		})
		return err
	})
}

func (r *runner) mkdir(path string) error {
	_, err := r.Files.Mkdir(r.ctx, &filesystem.MkdirRequest{Path: path})
	return err
}

func (r *runner) publish() error {
	if err := r.mkdir(r.pod); err != nil {
		return err
	}
	return r.twice("NodePublishVolume", func() error {
		in := &csi.NodePublishVolumeRequest{
			VolumeId: r.volume.GetVolumeId(), TargetPath: r.target, VolumeCapability: capability(),
			VolumeContext: r.volume.GetVolumeContext(), PublishContext: r.context,
		}
		if r.stages {
			in.StagingTargetPath = r.staging
		}
		_, err := r.node.NodePublishVolume(r.ctx, in)
		return err
	})
}

func (r *runner) file() string { return r.target + `\written.txt` }

func (r *runner) content() string { return "This is volume " + r.Name + ".\r\n" }

func (r *runner) write() error {
	if r.Pod == nil {
		return nil
	}
	return r.once("the pod writes", func() error { return r.Pod.WriteFile(r.file(), r.content()) })
}

func (r *runner) read() error {
	if r.Pod == nil {
		return nil
	}
	return r.once("the pod reads", func() error {
		got, err := r.Pod.ReadFile(r.file())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("the file %s is gone: the volume has lost its data, or is another", r.file())
		case err == nil && got != r.content():
			return fmt.Errorf("the file %s has %q, want %q", r.file(), got, r.content())
		}
		return err
	})
}

// stats returns a step that wants a volume of that size, less what a file system keeps.
func (r *runner) stats(size int64) func() error {
	return func() error {
		if !r.statistics {
			return nil
		}
		return r.do("NodeGetVolumeStats", func() (string, error) {
			out, err := r.node.NodeGetVolumeStats(r.ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: r.volume.GetVolumeId(), VolumePath: r.target})
			if err != nil {
				return "", err
			}
			for _, u := range out.GetUsage() {
				if u.GetUnit() != csi.VolumeUsage_BYTES {
					continue
				}
				note := fmt.Sprintf("%d bytes, %d available", u.GetTotal(), u.GetAvailable())
				if total := u.GetTotal(); r.attaches && (total > size || total < size-size/20) {
					return note, fmt.Errorf("the volume has %d bytes, want at most %d and no more than 5%% less", total, size)
				}
				return note, nil
			}
			return "", errors.New("no usage in bytes")
		})
	}
}

func (r *runner) expand() error {
	if !r.expands {
		return nil
	}
	capacity := &csi.CapacityRange{RequiredBytes: large}
	var nodeToo bool
	err := r.twice("ControllerExpandVolume", func() error {
		out, err := r.controller.ControllerExpandVolume(r.ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: r.volume.GetVolumeId(), CapacityRange: capacity, VolumeCapability: capability(),
		})
		nodeToo = out.GetNodeExpansionRequired()
		return err
	})
	if err != nil || !nodeToo || !r.nodeGrows {
		return err
	}
	return r.twice("NodeExpandVolume", func() error {
		_, err := r.node.NodeExpandVolume(r.ctx, &csi.NodeExpandVolumeRequest{
			VolumeId: r.volume.GetVolumeId(), VolumePath: r.target, StagingTargetPath: r.staging, CapacityRange: capacity, VolumeCapability: capability(),
		})
		return err
	})
}

func (r *runner) unpublish() error {
	err := r.twice("NodeUnpublishVolume", func() error {
		_, err := r.node.NodeUnpublishVolume(r.ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: r.volume.GetVolumeId(), TargetPath: r.target})
		return err
	})
	if err != nil {
		return err
	}
	return r.gone(r.target)
}

// gone checks that a driver has removed what it made, as the specification demands.
func (r *runner) gone(path string) error {
	out, err := r.Files.PathExists(r.ctx, &filesystem.PathExistsRequest{Path: path})
	if err == nil && out.Exists {
		err = fmt.Errorf("%s exists after NodeUnpublishVolume", path)
	}
	return err
}

func (r *runner) unstage() error {
	if !r.stages {
		return nil
	}
	return r.twice("NodeUnstageVolume", func() error {
		_, err := r.node.NodeUnstageVolume(r.ctx, &csi.NodeUnstageVolumeRequest{VolumeId: r.volume.GetVolumeId(), StagingTargetPath: r.staging})
		return err
	})
}

func (r *runner) detach() error {
	if !r.attaches {
		return nil
	}
	return r.twice("ControllerUnpublishVolume", func() error {
		_, err := r.controller.ControllerUnpublishVolume(r.ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: r.volume.GetVolumeId(), NodeId: r.nodeID})
		return err
	})
}

func (r *runner) delete() error {
	return r.twice("DeleteVolume", func() error {
		_, err := r.controller.DeleteVolume(r.ctx, &csi.DeleteVolumeRequest{VolumeId: r.volume.GetVolumeId()})
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
