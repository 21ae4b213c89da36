package story_test

import (
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

func TestRun(t *testing.T) {
	n := simnode.New(t)
	before, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, n)
	var staged []string // what is mounted after the first NodeStageVolume
	c.Staged = func() error {
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

// A step that fails is the last one, and its error is returned.
func TestRunStops(t *testing.T) {
	n := simnode.New(t)
	c := start(t, n)
	if _, err := n.Fail(simnode.Fault{Call: winapi.Format, Error: winapi.ERROR_IO_DEVICE}); err != nil {
		t.Fatal(err)
	}
	steps, err := story.Run(t.Context(), c)
	if err == nil || !strings.HasPrefix(err.Error(), "NodeStageVolume: ") {
		t.Errorf("a story whose format fails: %v, want an error of NodeStageVolume", err)
	}
	if last := steps[len(steps)-1]; last.Name != "NodeStageVolume" || last.Err == nil {
		t.Errorf("the last step is %v, want the NodeStageVolume that failed", last)
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
	steps, err := story.Run(t.Context(), story.Config{Endpoint: silent, Controller: silent, Name: "story", Limit: 100 * time.Millisecond})
	if status.Code(err) != codes.DeadlineExceeded || len(steps) != 1 {
		t.Errorf("a story with a driver that does not answer: %v, steps\n%s", err, story.String(steps))
	}
}
