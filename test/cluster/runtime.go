package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
	"k8s.io/cri-client/pkg/util"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// runtime is the container runtime of a node. A container with the image of CSI Proxy is a
// csi-proxy-sim: it is started, stopped and found ended as the runtime of a real node does it
// for a HostProcess container. Every other container is an entry in a table.
type runtime struct {
	fake *fake.RemoteRuntime
	// start starts the program of a pod's image, and returns when it serves.
	start starter

	server *grpc.Server
	mu     sync.Mutex
	run    map[string]*programs.Process // by the container's ID
}

type starter = func(ctx context.Context, build, pod string) (*programs.Process, error)

func startRuntime(endpoint string, start starter) (*runtime, error) {
	r := &runtime{fake: fake.NewFakeRemoteRuntime(), start: start, run: map[string]*programs.Process{}}
	r.fake.RuntimeService.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}
	r.fake.ImageService.SetFakeImageSize(1) // the kubelet refuses an image of no size
	l, err := util.CreateListener(endpoint)
	if err != nil {
		return nil, err
	}
	r.server = grpc.NewServer(grpc.UnaryInterceptor(r.intercept))
	cri.RegisterRuntimeServiceServer(r.server, r.fake)
	cri.RegisterImageServiceServer(r.server, r.fake)
	go func() { _ = r.server.Serve(l) }() // ends with stop
	return r, nil
}

// stop ends the runtime, and forgets its containers. Their programs go on.
func (r *runtime) stop() { r.server.Stop() }

func (r *runtime) intercept(ctx context.Context, in any, _ *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	switch in := in.(type) {
	case *cri.StartContainerRequest:
		if err := r.startProgram(ctx, in.GetContainerId()); err != nil {
			return nil, err
		}
	case *cri.StopContainerRequest:
		if err := r.stopProgram(in.GetContainerId()); err != nil {
			return nil, err
		}
	case *cri.RemoveContainerRequest:
		if err := r.stopProgram(in.GetContainerId()); err != nil {
			return nil, err
		}
	}
	return call(ctx, in)
}

// startProgram starts the program of a container, if it has one.
func (r *runtime) startProgram(ctx context.Context, id string) error {
	build, pod := r.program(id)
	if build == "" {
		return nil
	}
	p, err := r.start(ctx, build, pod)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.run[id] = p
	r.mu.Unlock()
	go func() {
		<-p.Done()
		r.mu.Lock()
		crashed := r.run[id] == p
		delete(r.run, id)
		r.mu.Unlock()
		if crashed { // the kubelet finds the container ended, and starts another
			_ = r.fake.RuntimeService.StopContainer(context.Background(), id, 0) // fails if it is removed
		}
	}()
	return nil
}

// program returns which build of csi-proxy-sim a container is, or "", and the name of its pod.
func (r *runtime) program(id string) (build, pod string) {
	r.fake.RuntimeService.Lock()
	defer r.fake.RuntimeService.Unlock()
	c := r.fake.RuntimeService.Containers[id]
	if c == nil {
		return "", ""
	}
	build, ok := strings.CutPrefix(c.Image.GetUserSpecifiedImage(), image+":")
	if !ok {
		return "", ""
	}
	return build, c.Labels[kubelettypes.KubernetesPodNameLabel]
}

// stopProgram asks the program of a container to end, and waits for that.
func (r *runtime) stopProgram(id string) error {
	r.mu.Lock()
	p := r.run[id]
	delete(r.run, id)
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.Stop(); err != nil {
		return fmt.Errorf("stop the program of container %q: %w", id, err)
	}
	return nil
}
