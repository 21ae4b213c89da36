package story_test

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/lab/cloud"
	"github.com/kubernetes-csi/csi-proxy/lab/internal/exampledriver"
	"github.com/kubernetes-csi/csi-proxy/lab/story"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
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

// pod notes what is mounted while it writes.
type pod struct {
	story.Pod
	node   *simnode.Node
	mounts []nodespec.MountInfo
}

func (p *pod) WriteFile(path, content string) error {
	state, err := p.node.Show()
	p.mounts = state.Mounts
	return errors.Join(err, p.Pod.WriteFile(path, content))
}

func TestRun(t *testing.T) {
	n := simnode.New(t)
	before, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, n)
	p := &pod{Pod: c.Pod, node: n}
	c.Pod = p
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
	if len(p.mounts) != 1 || !strings.Contains(p.mounts[0].Path, `\lab\story\globalmount`) {
		t.Errorf("while the pod writes these are mounted: %+v, want the staging path", p.mounts)
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

// A volume that comes back without the pod's file, as after another format, fails the story.
func TestRunFindsLoss(t *testing.T) {
	c := start(t, simnode.New(t))
	c.Pod, c.Retry = &forgetful{Pod: c.Pod}, 1
	if _, err := story.Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "the pod reads: ") || !strings.Contains(err.Error(), "lost its data") {
		t.Errorf("the story of a volume that loses its file: %v, want an error of the pod", err)
	}
}

// forgetful is a pod whose file is gone when it reads it for the second time.
type forgetful struct {
	story.Pod
	reads int
}

func (p *forgetful) ReadFile(path string) (string, error) {
	if p.reads++; p.reads > 1 {
		return "", fs.ErrNotExist
	}
	return p.Pod.ReadFile(path)
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
