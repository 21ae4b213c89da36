package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// statefulSet makes a StatefulSet whose pods have a claim each, and waits until all run.
func statefulSet(t *testing.T, c *Cluster, space, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	spec := podSpec("data")
	spec.Volumes = nil // the claim's template gives it
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, PodManagementPolicy: appsv1.ParallelPodManagement,
		Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*claim("data")},
	}}
	if _, err := c.Client.AppsV1().StatefulSets(space).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	allRun(t, c, space, int(replicas), nil)
}

// allRun waits until so many pods of a namespace run, none of them one of those that were
// there before.
func allRun(t *testing.T, c *Cluster, space string, count int, before map[types.UID]bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods run", count), func() error {
		pods, err := c.Client.CoreV1().Pods(space).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		run := 0
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && !before[p.UID] {
				run++
			}
		}
		if run != count {
			return fmt.Errorf("%d run", run)
		}
		return nil
	})
}

// placed returns the node and the UID of a pod.
func placed(t *testing.T, c *Cluster, space, pod string) (*Node, types.UID) {
	t.Helper()
	p, err := c.Client.CoreV1().Pods(space).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.Node(p.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	return n, p.UID
}

// serial returns the serial number of the disk behind a claim.
func serial(t *testing.T, c *Cluster, space, claim string) string {
	t.Helper()
	object, err := c.Client.CoreV1().PersistentVolumeClaims(space).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Client.CoreV1().PersistentVolumes().Get(t.Context(), object.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(v.Spec.CSI.VolumeHandle, "#")
	return name
}

// diskOf returns the identity of a disk's table and the size of its volume on a node.
func diskOf(n *Node, serial string) (identity string, size int64, err error) {
	state, err := n.Control.Show()
	if err != nil {
		return "", 0, err
	}
	for _, d := range state.Disks {
		if d.Serial != serial {
			continue
		}
		for _, v := range state.Volumes {
			if len(v.Disks) == 1 && v.Disks[0] == d.Number {
				return d.Identity, int64(v.Size), nil
			}
		}
	}
	return "", 0, fmt.Errorf("%s has no volume on disk %s", n.Name, serial)
}

// cordon makes nodes accept no new pods, or accept them again.
func cordon(t *testing.T, c *Cluster, yes bool, nodes ...*Node) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)
	for _, n := range nodes {
		if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func deletePod(t *testing.T, c *Cluster, space, pod string) {
	t.Helper()
	if err := c.Client.CoreV1().Pods(space).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Ten nodes and a StatefulSet: a claim grows, a pod moves with its disk, everything goes.
func TestTenNodes(t *testing.T) {
	c := start(t, Config{Nodes: 10})
	const space = "ten"
	namespace(t, c, space)
	started := time.Now()
	statefulSet(t, c, space, "set", 10)
	measured(t, "a StatefulSet of 10 pods with claims: Running after %.1f s", time.Since(started).Seconds())

	n, uid := placed(t, c, space, "set-0")
	name := serial(t, c, space, "data-set-0")
	identity, _, err := diskOf(n, name)
	if err != nil {
		t.Fatal(err)
	}
	started = time.Now()
	grow(t, c, space, "data-set-0", "2Gi")
	eventually(t, "the volume on the node has grown", func() error {
		_, size, err := diskOf(n, name)
		if err == nil && size < 2<<30-64<<20 {
			err = fmt.Errorf("it has %d bytes", size)
		}
		return err
	})
	measured(t, "a claim grows, with its volume on the node: after %.1f s", time.Since(started).Seconds())

	cordon(t, c, true, n)
	started = time.Now()
	deletePod(t, c, space, "set-0")
	allRun(t, c, space, 10, map[types.UID]bool{uid: true})
	measured(t, "a pod moves to another node: Running after %.1f s", time.Since(started).Seconds())
	cordon(t, c, false, n)
	to, _ := placed(t, c, space, "set-0")
	if to == n {
		t.Errorf("the pod is on %s again, which was cordoned", n.Name)
	}
	if moved, size, err := diskOf(to, name); err != nil || moved != identity || size < 2<<30-64<<20 {
		t.Errorf("on %s the disk is %s with %d bytes, %v; on %s it was %s with 2 GiB", to.Name, moved, size, err, n.Name, identity)
	}
	if _, _, err := diskOf(n, name); err == nil {
		t.Errorf("%s has the disk still", n.Name)
	}

	started = time.Now()
	remove(t, c, space)
	measured(t, "the namespace and everything on the nodes: gone after %.1f s", time.Since(started).Seconds())
}

// grow asks for a larger claim, and waits until Kubernetes says that it has grown.
func grow(t *testing.T, c *Cluster, space, name, size string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	if _, err := c.Client.CoreV1().PersistentVolumeClaims(space).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want := resource.MustParse(size)
	eventually(t, "the claim has grown", func() error {
		return capacity(t.Context(), c, space, name, want)
	})
}

func capacity(ctx context.Context, c *Cluster, space, name string, want resource.Quantity) error {
	object, err := c.Client.CoreV1().PersistentVolumeClaims(space).Get(ctx, name, metav1.GetOptions{})
	if got := object.Status.Capacity[corev1.ResourceStorage]; err == nil && got.Cmp(want) != 0 {
		err = fmt.Errorf("its capacity is %s", got.String())
	}
	return err
}
