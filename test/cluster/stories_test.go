package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/translation"
)

// What goes wrong in the field, one after the other, on the same nodes. After each, nothing
// is left on any of them.
func TestStories(t *testing.T) {
	c := start(t, 4)
	for _, story := range []struct {
		name string
		run  func(*testing.T, *Cluster, string)
	}{
		{"kubelet-killed-while-it-stages", killed("NodeStageVolume")},
		{"kubelet-killed-while-it-publishes", killed("NodePublishVolume")},
		{"node-rebooted", rebooted},
		{"proxy-upgraded", upgraded},
		{"volume-detached-by-force", detached},
		{"share-on-two-nodes", shared},
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

// killed returns the story of kubernetes#130300: the kubelet is killed while the driver works
// for it, and starts again. The driver finishes, and its answer is lost.
func killed(method string) func(*testing.T, *Cluster, string) {
	return func(t *testing.T, c *Cluster, space string) {
		seen, goOn := make(chan *Node, 1), make(chan struct{})
		var once sync.Once
		for _, n := range c.Nodes {
			n.Called(func(call translation.Call) error {
				if call.Method == method && !call.Done {
					once.Do(func() {
						seen <- n
						<-goOn
					})
				}
				return nil
			})
			t.Cleanup(func() { n.Called(nil) })
		}
		makePod(t, c, space)
		n := <-seen
		n.KillKubelet()
		before := len(methods(n))
		close(goOn)
		started := time.Now()
		if err := n.StartKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod runs", func() error { return c.running(t.Context(), space, "pod") })
		measured(t, "the kubelet starts again: the pod is Running after %.1f s, after the calls %q", time.Since(started).Seconds(), methods(n)[before:])
		if on, _ := placed(t, c, space, "pod"); on != n {
			t.Errorf("the pod is on %s, want %s", on.Name, n.Name)
		}
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
	if err := n.Reboot(t.Context()); err != nil {
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

// upgraded replaces CSI Proxy on each node in turn while volumes are staged, and clients of
// v1beta3 and v1 call it all the time.
func upgraded(t *testing.T, c *Cluster, space string) {
	statefulSet(t, c, space, "set", 8)
	before := map[types.UID]bool{}
	for i := range 8 {
		_, uid := placed(t, c, space, fmt.Sprintf("set-%d", i))
		before[uid] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var mu sync.Mutex
	calls, failures := map[string]int{}, map[string]int{}
	for _, n := range c.Nodes {
		for _, version := range []string{"v1beta3", "v1"} {
			d, err := remote.NewDisk(ctx, remote.WithPipePath(n.PipePath), remote.WithVersions(apiversion.NewVersionOrPanic(version)))
			if err != nil {
				stop()
				t.Fatal(err)
			}
			wait.Go(func() {
				defer d.Close()
				for ctx.Err() == nil {
					_, err := d.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{})
					mu.Lock()
					if err == nil {
						calls[version]++
					} else if ctx.Err() == nil {
						failures[version]++
					}
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Upgrade(t.Context()))
	}
	// Each version is served again on each node.
	for _, n := range c.Nodes {
		for _, version := range []string{"v1beta3", "v1"} {
			d, err := remote.NewDisk(t.Context(), remote.WithPipePath(n.PipePath), remote.WithVersions(apiversion.NewVersionOrPanic(version)))
			if err == nil {
				_, err = d.ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{})
				err = errors.Join(err, d.Close())
			}
			errs = append(errs, err)
		}
	}
	stop()
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1beta3", "v1"} {
		measured(t, "clients of %s on 4 nodes: %d calls succeeded, %d failed while a proxy was replaced", version, calls[version], failures[version])
		if calls[version] == 0 {
			t.Errorf("no call of %s succeeded", version)
		}
	}
	for i := range 8 {
		if _, uid := placed(t, c, space, fmt.Sprintf("set-%d", i)); !before[uid] {
			t.Errorf("pod set-%d was replaced during the upgrade", i)
		}
	}
	makePod(t, c, space) // the new proxies stage volumes
	eventually(t, "a new pod runs", func() error { return c.running(t.Context(), space, "pod") })
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

// Pods with a claim each run on two nodes, and all are deleted at once when only the two
// others accept pods.
func TestManyPodsMove(t *testing.T) {
	c := start(t, 4)
	const space, many = "many", 200
	namespace(t, c, space)
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
	cordon(t, c, true, from...)
	cordon(t, c, false, to...)
	started = time.Now()
	if err := c.Client.CoreV1().Pods(space).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	allRun(t, c, space, many, before)
	measured(t, "%d pods on the 2 other nodes: Running after %.1f s", many, time.Since(started).Seconds())
	cordon(t, c, false, from...)
	started = time.Now()
	remove(t, c, space)
	measured(t, "the namespace and everything on the nodes: gone after %.1f s", time.Since(started).Seconds())
}
