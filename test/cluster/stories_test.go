package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/translation"
)

// A pod with a claim, and then what goes wrong in the field, one after the other, on the same nodes.
// After each, nothing is left on any of them.
func TestStories(t *testing.T) {
	c := start(t, Config{Nodes: 4, Proxy: programs.Old}) // until it is upgraded
	for _, story := range []struct {
		name string
		run  func(*testing.T, *Cluster, string)
	}{
		{"pod-with-a-claim", lives},
		{"kubelet-killed-while-it-stages", killed(held{
			method: "NodeStageVolume", call: simnode.Fault{Call: winapi.Format}, done: formatted, mounts: 0,
		})},
		{"kubelet-killed-while-it-publishes", killed(held{
			method: "NodePublishVolume", done: linked, mounts: 1,
			call: simnode.Fault{Call: winapi.DeviceIoControl, CodeName: "FSCTL_SET_REPARSE_POINT", Path: `\pods\`},
		})},
		{"node-rebooted", rebooted},
		{"proxy-upgraded", upgraded},
		{"volume-detached-by-force", detached},
		{"share-on-two-nodes", shared},
		{"many-pods-move", moved},
	} {
		if !t.Run(story.name, func(t *testing.T) {
			namespace(t, c, story.name)
			story.run(t, c, story.name)
			remove(t, c, story.name)
		}) {
			return // its pods are left
		}
	}
}

// lives is the story of a pod: its volume is staged and published, and nothing but loopback is
// listened on. The story's end unpublishes and unstages it.
func lives(t *testing.T, c *Cluster, space string) {
	started := time.Now()
	makePod(t, c, space)
	eventually(t, "the pod runs", func() error { return c.running(t.Context(), space, "pod") })
	measured(t, "a claim and its pod: Running after %.1f s", time.Since(started).Seconds())
	loopback(t, c)
	n, _ := placed(t, c, space, "pod")
	state, err := n.Control.Show()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Mounts) != 1 || !strings.HasPrefix(state.Mounts[0].Path, `\var\lib\kubelet\plugins\kubernetes.io\csi\csi-driver.example.com\`) {
		t.Errorf("the node has the mounts %+v, want one in the driver's directory of the kubelet", state.Mounts)
	}
	deletePod(t, c, space, "pod")
	want := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
	eventually(t, "the kubelet has unstaged the volume", func() error {
		if got := slices.Compact(methods(n)); !slices.Equal(got, want) {
			return fmt.Errorf("the kubelet called %q, want %q", got, want)
		}
		return nil
	})
}

// held is a call of the kubelet in the middle of a Win32 call.
type held struct {
	method string
	call   simnode.Fault // the Win32 call
	// done returns an error unless Windows has done it. path is that of the kubelet's call.
	done   func(ctx context.Context, n *Node, path string) error
	mounts int // how many mounted volumes the node has then
}

// killed returns the story of kubernetes#130300: the kubelet is killed while Windows works for
// it, and starts again. The driver's call ends with the kubelet, without an answer, and Windows
// finishes what it has begun.
func killed(h held) func(*testing.T, *Cluster, string) {
	return func(t *testing.T, c *Cluster, space string) {
		before := map[*Node]int{}
		for _, n := range c.Nodes {
			before[n] = len(n.Calls())
			fault := h.call
			fault.Delay, fault.Times = time.Hour, 1
			if err := n.Control.Fail(fault); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := n.Control.ClearFaults(); err != nil {
					t.Error(err)
				}
			})
		}
		makePod(t, c, space)
		var n *Node
		eventually(t, "Windows works for "+h.method, func() error {
			for _, on := range c.Nodes {
				hits, err := hits(on)
				if err != nil {
					return err
				}
				if hits == 1 {
					n = on
					return nil
				}
			}
			return errors.New("no node has come to the Win32 call")
		})
		ended := func() (calls []translation.Call) {
			for _, call := range n.Calls()[before[n]:] {
				if call.Method == h.method {
					calls = append(calls, call)
				}
			}
			return calls
		}
		if calls := ended(); len(calls) != 0 {
			t.Fatalf("%s has ended already: %+v", h.method, calls)
		}
		n.KillKubelet()
		eventually(t, "the driver's call ends with the kubelet", func() error {
			if calls := ended(); len(calls) != 1 || status.Code(calls[0].Err) != codes.Canceled {
				return fmt.Errorf("the calls of %s are %+v, want one that was canceled", h.method, calls)
			}
			return nil
		})
		path := ended()[0].Path
		if h.done(t.Context(), n, path) == nil {
			t.Error("Windows has finished the call that the test holds")
		}
		// The same fault without its delay counts further calls.
		counter := h.call
		counter.Delay = time.Millisecond
		if err := errors.Join(n.Control.ClearFaults(), n.Control.Fail(counter)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "Windows finishes", func() error { return h.done(t.Context(), n, path) })
		// Windows may be asked twice for one format: at first it does not know a new volume.
		asked, err := hits(n)
		if err != nil {
			t.Fatal(err)
		}
		name := serial(t, c, space, "data")
		identity, _, err := diskOf(n, name)
		if err != nil {
			t.Fatal(err)
		}
		// The driver does not continue: a kubelet has to call again.
		state, err := n.Control.Show()
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Mounts) != h.mounts || len(ended()) != 1 {
			t.Errorf("before the kubelet starts again the node has the mounts %+v, want %d, after %d calls of %s, want 1", state.Mounts, h.mounts, len(ended()), h.method)
		}
		mark := len(methods(n))
		started := time.Now()
		if err := n.StartKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod runs", func() error { return c.running(t.Context(), space, "pod") })
		measured(t, "the kubelet starts again: the pod is Running after %.1f s, after the calls %q", time.Since(started).Seconds(), methods(n)[mark:])
		if on, _ := placed(t, c, space, "pod"); on != n {
			t.Errorf("the pod is on %s, want %s", on.Name, n.Name)
		}
		if calls := ended(); len(calls) < 2 || calls[len(calls)-1].Err != nil {
			t.Errorf("the calls of %s are %+v, want a second one that succeeds", h.method, calls)
		}
		if again, err := hits(n); err != nil || again != asked {
			t.Errorf("Windows was asked for %s another %d times, %v, want none: it had done it", h.call.Call, again-asked, err)
		}
		oneVolume(t, n, name, identity)
	}
}

// hits returns how many calls the one fault of a node has affected.
func hits(n *Node) (uint32, error) {
	state, err := n.Control.Show()
	if err != nil {
		return 0, err
	}
	if len(state.Faults) != 1 {
		return 0, fmt.Errorf("%s has the faults %+v, want one", n.Name, state.Faults)
	}
	return state.Faults[0].Hits, nil
}

// formatted returns an error unless the only disk of a volume on the node has a file system.
func formatted(_ context.Context, n *Node, _ string) error {
	state, err := n.Control.Show()
	if err != nil {
		return err
	}
	attached := n.attached(state)
	for _, v := range state.Volumes {
		if len(v.Disks) == 1 && slices.ContainsFunc(attached, func(d nodespec.DiskInfo) bool { return d.Number == v.Disks[0] }) {
			if v.FileSystem == "" {
				return errors.New("the volume has no file system")
			}
			return nil
		}
	}
	return fmt.Errorf("no volume on a disk of the storage system: %+v", state.Volumes)
}

// linked returns an error unless there is a link at a path.
func linked(ctx context.Context, n *Node, path string) error {
	link, err := n.files.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: path})
	if err == nil && !link.IsSymlink {
		err = fmt.Errorf("%s is no link", path)
	}
	return err
}

// oneVolume checks that a disk has one volume, which is mounted once, and that it has kept its
// identity.
func oneVolume(t *testing.T, n *Node, serial, identity string) {
	t.Helper()
	state, err := n.Control.Show()
	if err != nil {
		t.Fatal(err)
	}
	var found []nodespec.VolumeInfo
	for _, d := range state.Disks {
		if d.Serial != serial {
			continue
		}
		if d.Identity != identity {
			t.Errorf("the disk is %s, and was %s", d.Identity, identity)
		}
		for _, v := range state.Volumes {
			if slices.Contains(v.Disks, d.Number) {
				found = append(found, v)
			}
		}
	}
	if len(found) != 1 || len(found[0].MountedAt) != 1 || found[0].FileSystem == "" {
		t.Errorf("disk %s has the volumes %+v, want one with a file system that is mounted once", serial, found)
	}
}

// makePod makes a claim and a pod that mounts it.
func makePod(t *testing.T, c *Cluster, space string) {
	t.Helper()
	if _, err := c.Client.CoreV1().PersistentVolumeClaims(space).Create(t.Context(), claim("data"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: podSpec("data")}
	if _, err := c.Client.CoreV1().Pods(space).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rebooted is the story of kubernetes#119401: a node restarts with a pod that has a volume,
// and the pod must run again there.
func rebooted(t *testing.T, c *Cluster, space string) {
	makePod(t, c, space)
	eventually(t, "the pod runs", func() error { return c.running(t.Context(), space, "pod") })
	n, uid := placed(t, c, space, "pod")
	before := len(methods(n))
	started := time.Now()
	if err := n.GoDown(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Kubernetes does not know how the node is", func() error {
		object, err := c.Client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod, err := c.Client.CoreV1().Pods(space).Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range object.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionUnknown {
				return fmt.Errorf("node %s is ready: %s", n.Name, condition.Status)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return errors.New("the pod is ready")
			}
		}
		return nil
	})
	measured(t, "the node is down: Kubernetes says Unknown of it, and that the pod is not ready, after %.1f s", time.Since(started).Seconds())
	if on, now := placed(t, c, space, "pod"); on != n || now != uid {
		t.Errorf("pod %s is on %s while the node is down, want %s on %s", now, on.Name, uid, n.Name)
	}
	started = time.Now()
	if err := n.ComeUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs again", func() error {
		if called := methods(n)[before:]; !slices.Contains(called, "NodePublishVolume") {
			return fmt.Errorf("the kubelet has not published the volume again, only called %q", called)
		}
		p, err := c.Client.CoreV1().Pods(space).Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := p.Status.ContainerStatuses; p.Status.Phase != corev1.PodRunning || len(s) != 1 || s[0].RestartCount == 0 || !s[0].Ready {
			return fmt.Errorf("pod is %s with the containers %+v", p.Status.Phase, s)
		}
		return nil
	})
	measured(t, "after the restart of the node: the pod is Running again after %.1f s, after the calls %q", time.Since(started).Seconds(), methods(n)[before:])
	if on, now := placed(t, c, space, "pod"); on != n || now != uid {
		t.Errorf("pod %s is on %s, want %s on %s", now, on.Name, uid, n.Name)
	}
	if state, err := n.Control.Show(); err != nil || len(state.Mounts) != 1 {
		t.Errorf("the node has the mounts %+v, %v, want one", state.Mounts, err)
	}
}

// detached is the story of a node that is gone with a staged volume: an administrator says
// so with the taint for it, Kubernetes detaches the volume by force, and the pod moves. Then
// the node comes back.
func detached(t *testing.T, c *Cluster, space string) {
	statefulSet(t, c, space, "set", 1)
	n, uid := placed(t, c, space, "set-0")
	name := serial(t, c, space, "data-set-0")
	identity, _, err := diskOf(n, name)
	if err != nil {
		t.Fatal(err)
	}
	n.KillKubelet()
	eventually(t, "Kubernetes sees that the node is gone", func() error {
		object, err := c.Client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(object.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnreachable }) {
			err = errors.New("it does not have the taint yet")
		}
		return err
	})
	taint(t, c, n, `[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]`)
	started := time.Now()
	allRun(t, c, space, 1, map[types.UID]bool{uid: true})
	measured(t, "after the taint out-of-service: the pod is Running elsewhere after %.1f s", time.Since(started).Seconds())
	to, _ := placed(t, c, space, "set-0")
	if moved, _, err := diskOf(to, name); err != nil || moved != identity {
		t.Errorf("on %s the disk is %s, %v; on %s it was %s", to.Name, moved, err, n.Name, identity)
	}
	left, err := n.Left()
	if err != nil {
		t.Fatal(err)
	}
	measured(t, "the node that is gone has %d things of the volume, before its kubelet starts again", len(left))
	taint(t, c, n, `[]`)
	started = time.Now()
	if err := n.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node that came back has nothing of the volume", func() error {
		left, err := n.Left()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	})
	measured(t, "the kubelet starts again: nothing of the volume is left there after %.1f s", time.Since(started).Seconds())
}

// shared is the story of a share that two nodes use: one of them restarts, which takes the
// mapping from it (AKS#5612), and its pod must get the share again; then the other one's pod goes.
func shared(t *testing.T, c *Cluster, space string) {
	object, class := claim("data"), ShareStorageClass
	object.Spec.AccessModes, object.Spec.StorageClassName = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, &class
	if _, err := c.Client.CoreV1().PersistentVolumeClaims(space).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	for _, n := range c.Nodes[:2] {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-" + n.Name}, Spec: podSpec("data")}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.Name}
		if _, err := c.Client.CoreV1().Pods(space).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allRun(t, c, space, 2, nil)
	measured(t, "pods on two nodes with a share: Running after %.1f s", time.Since(started).Seconds())
	works := func(n *Node) error {
		state, err := n.Control.Show()
		if err != nil {
			return err
		}
		if len(state.SMBMappings) != 1 || state.SMBMappings[0].Status != "ok" || len(state.SMBMappings[0].UsedBy) == 0 {
			return fmt.Errorf("%s has the mappings %+v, want one that works, with a link", n.Name, state.SMBMappings)
		}
		// This asks the server whether the link's directory is there.
		link, err := n.files.IsSymlink(t.Context(), &filesystem.IsSymlinkRequest{Path: state.SMBMappings[0].UsedBy[0]})
		if err == nil && !link.IsSymlink {
			err = fmt.Errorf("the link %s of %s leads nowhere", state.SMBMappings[0].UsedBy[0], n.Name)
		}
		return err
	}
	a, b := c.Nodes[0], c.Nodes[1]
	if err := errors.Join(works(a), works(b)); err != nil {
		t.Error(err)
	}
	before := len(methods(a))
	started = time.Now()
	if err := a.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the share works again", func() error {
		if called := methods(a)[before:]; !slices.Contains(called, "NodePublishVolume") {
			return fmt.Errorf("the kubelet has not published the volume again, only called %q", called)
		}
		return works(a)
	})
	measured(t, "after the restart of a node: its pod has the share again after %.1f s, after the calls %q", time.Since(started).Seconds(), methods(a)[before:])
	if err := works(b); err != nil {
		t.Error(err)
	}
	deletePod(t, c, space, "pod-"+b.Name)
	eventually(t, "the other node has nothing of the volume", func() error {
		left, err := b.Left()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	})
	if err := works(a); err != nil {
		t.Error(err)
	}
}

// taint replaces the taints of a node.
func taint(t *testing.T, c *Cluster, n *Node, taints string) {
	t.Helper()
	patch := []byte(`{"spec":{"taints":` + taints + `}}`)
	if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// identities returns the identities of the disks of volumes on nodes, by their serial numbers.
func identities(t *testing.T, nodes ...*Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, n := range nodes {
		state, err := n.Control.Show()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range n.attached(state) {
			all[d.Serial] = d.Identity
		}
	}
	return all
}

// moved is the story of many pods, each with a claim, on two nodes. All are deleted at once when
// only the two others accept pods.
func moved(t *testing.T, c *Cluster, space string) {
	const many = 200
	from, to := c.Nodes[:2], c.Nodes[2:]
	cordon(t, c, true, to...)
	started := time.Now()
	statefulSet(t, c, space, "set", many)
	measured(t, "%d pods with claims on 2 nodes: Running after %.1f s", many, time.Since(started).Seconds())
	before := map[types.UID]bool{}
	pods, err := c.Client.CoreV1().Pods(space).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		before[p.UID] = true
	}
	disks := identities(t, from...)
	if len(disks) != many || slices.Contains(slices.Collect(maps.Values(disks)), "") {
		t.Fatalf("the nodes have %d disks of volumes, want %d, each with an identity: %v", len(disks), many, disks)
	}
	cordon(t, c, true, from...)
	cordon(t, c, false, to...)
	started = time.Now()
	if err := c.Client.CoreV1().Pods(space).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	allRun(t, c, space, many, before)
	measured(t, "%d pods on the 2 other nodes: Running after %.1f s", many, time.Since(started).Seconds())
	there := identities(t, to...)
	for name, identity := range disks {
		if there[name] != identity {
			t.Errorf("disk %s is %q on the other nodes, want %q", name, there[name], identity)
		}
	}
	measured(t, "%d disks have moved, each with its identity", len(there))
	cordon(t, c, false, from...)
}
