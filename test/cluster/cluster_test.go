package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// measured records a figure, which the run of the stage prints.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Attr("measured", fmt.Sprintf(format, args...))
}

// figures writes lines as measured figures.
type figures struct{ t *testing.T }

func (f figures) Write(line []byte) (int, error) {
	measured(f.t, "%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

// start starts a cluster as config says, which ends with the test.
func start(t *testing.T, config Config) *Cluster {
	t.Helper()
	source, err := programs.Source(".")
	if err != nil {
		t.Fatal(err)
	}
	set, err := programs.Build(t.Context(), source, figures{t})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cluster") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the output of all programs is in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	config.Dir, config.Programs = dir, set
	started := time.Now()
	c, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	measured(t, "Kubernetes %s with %d nodes: ready after %.1f s", c.Servers.Version, config.Nodes, time.Since(started).Seconds())
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// eventually waits until a condition has no complaint any more.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after five minutes: %v", what, err)
}

// namespace makes a namespace, which the test removes.
func namespace(t *testing.T, c *Cluster, name string) {
	t.Helper()
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// remove deletes a namespace and waits until nothing of it is left anywhere.
func remove(t *testing.T, c *Cluster, name string) {
	t.Helper()
	if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace "+name+" is gone", func() error {
		list, err := c.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("it is %s", list.Items[0].Status.Phase)
		}
		return err
	})
	nothingLeft(t, c)
}

// nothingLeft waits until no node, and not the storage system, has anything of a volume.
func nothingLeft(t *testing.T, c *Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		eventually(t, "nothing is left on "+n.Name, func() error {
			left, err := n.Left()
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("left: %q", left)
			}
			return err
		})
	}
	eventually(t, "no volume is left", func() error {
		volumes, err := c.Client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		attachments, err := c.Client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(volumes.Items)+len(attachments.Items)+c.Storage.Volumes() > 0 {
			return fmt.Errorf("%d PersistentVolumes, %d VolumeAttachments, %d volumes of the storage system", len(volumes.Items), len(attachments.Items), c.Storage.Volumes())
		}
		return nil
	})
}

// claim returns a claim of 1 GiB.
func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// podSpec returns the specification of a pod that mounts a claim.
func podSpec(claim string) corev1.PodSpec {
	grace := int64(1)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: "main", Image: "example.com/none", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
		Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}
}

// running returns an error unless a pod runs.
func (c *Cluster) running(ctx context.Context, namespace, name string) error {
	p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && (p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil) {
		err = fmt.Errorf("pod %s is %s", name, p.Status.Phase)
	}
	return err
}

// methods returns the names of the kubelet's calls on a node that changed something.
func methods(n *Node) []string {
	var names []string
	for _, c := range n.Calls() {
		if c.Path != "" && c.Method != "NodeGetVolumeStats" {
			names = append(names, c.Method)
		}
	}
	return names
}

// A cluster does not start without one of its sidecars.
func TestSidecarEnds(t *testing.T) {
	source, err := programs.Source(".")
	if err != nil {
		t.Fatal(err)
	}
	set, err := programs.Build(t.Context(), source, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cluster") // short, because of the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ends := filepath.Join(dir, "csi-attacher")
	if err := os.WriteFile(ends, []byte("#!/bin/sh\necho the reason; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	set.Attacher = ends
	c, err := Start(t.Context(), Config{Dir: dir, Programs: set})
	if err == nil {
		_ = c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "csi-attacher has ended") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("Start with a csi-attacher that ends = %v, want an error with its name and its output", err)
	}
}
