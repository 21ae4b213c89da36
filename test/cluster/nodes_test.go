package cluster

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
