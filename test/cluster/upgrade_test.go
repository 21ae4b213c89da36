package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/translation"
)

// span is a time from when to when something was seen.
type span struct{ from, to time.Time }

func (s span) overlaps(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

// seen is what was seen of a node's CSI Proxy during a rollout.
type seen struct {
	mu       sync.Mutex
	versions []string  // without repetitions
	away     span      // from the first to the last health check that failed
	replaced time.Time // the first health check that the new build has answered
	answered map[string][]time.Time
}

// watch asks the node's proxy for its version until ctx ends.
func (s *seen) watch(ctx context.Context, n *Node) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		asked := time.Now()
		version, err := n.ProxyVersion(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		switch {
		case err != nil && s.away.from.IsZero():
			s.away = span{asked, time.Now()}
		case err != nil:
			s.away.to = time.Now()
		case len(s.versions) == 0 || s.versions[len(s.versions)-1] != version:
			s.versions = append(s.versions, version)
			if version == programs.New {
				s.replaced = time.Now()
			}
		}
		s.mu.Unlock()
	}
}

// call lists the node's disks by one version of the API until ctx ends, as a driver does that
// speaks only that one: it waits for a proxy that serves it, and then keeps its connection.
func (s *seen) call(ctx context.Context, n *Node, version string) {
	var d *remote.Disk
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if d == nil {
			connecting, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			found, err := remote.NewDisk(connecting, remote.WithPipePath(n.PipePath), remote.WithVersions(apiversion.NewVersionOrPanic(version)))
			cancel()
			if err != nil {
				continue
			}
			d = found
			defer d.Close()
		}
		asked := time.Now()
		if _, err := d.ListDiskLocations(ctx, &disk.ListDiskLocationsRequest{}); err == nil {
			s.mu.Lock()
			s.answered[version] = append(s.answered[version], asked)
			s.mu.Unlock()
		}
	}
}

// after returns how many calls of a version were made after a time, and have succeeded.
func (s *seen) after(version string, when time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.answered[version]), func(asked time.Time) bool { return !asked.After(when) }))
}

// upgraded is the story of a rollout: Kubernetes replaces the old build of CSI Proxy by the new
// one, on one node after the other, while volumes are staged, while clients of v1beta3 and v1
// call it, and while volumes come and go. The old build does not serve v1 of the disks.
func upgraded(t *testing.T, c *Cluster, space string) {
	const replicas = 8
	statefulSet(t, c, space, "set", replicas)
	uids := func() map[types.UID]bool {
		all := map[types.UID]bool{}
		for i := range replicas {
			_, uid := placed(t, c, space, fmt.Sprintf("set-%d", i))
			all[uid] = true
		}
		return all
	}
	var serials []string
	for i := range replicas {
		serials = append(serials, serial(t, c, space, fmt.Sprintf("data-set-%d", i)))
	}
	for _, n := range c.Nodes {
		podOn(t, c, space, "leaves", n)
	}
	allRun(t, c, space, replicas+len(c.Nodes), nil)
	pods, volumes := uids(), mounted(t, c, serials)
	if len(volumes) != 2*replicas {
		t.Fatalf("the volumes are %v, want %d disks and as many mounts", volumes, replicas)
	}

	// What the kubelets get done from now on.
	var mu sync.Mutex
	done := map[string][]time.Time{}
	for _, n := range c.Nodes {
		n.Called(func(call translation.Call) error {
			if call.Done && call.Err == nil {
				mu.Lock()
				done[call.Method] = append(done[call.Method], time.Now())
				mu.Unlock()
			}
			return nil
		})
		defer n.Called(nil)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop()
	saw := map[*Node]*seen{}
	for _, n := range c.Nodes {
		s := &seen{answered: map[string][]time.Time{}}
		saw[n] = s
		wait.Go(func() { s.watch(ctx, n) })
		for _, version := range []string{"v1beta3", "v1"} {
			wait.Go(func() { s.call(ctx, n, version) })
		}
	}
	for _, n := range c.Nodes {
		eventually(t, "clients of v1beta3 call the old build of "+n.Name, func() error {
			if saw[n].after("v1beta3", time.Time{}) == 0 {
				return fmt.Errorf("no call has succeeded")
			}
			return nil
		})
	}

	rollout := span{from: time.Now()}
	upgrade := make(chan error, 1)
	go func() { upgrade <- c.Upgrade(ctx, programs.New) }()
	for _, n := range c.Nodes { // a volume comes, and one goes
		podOn(t, c, space, "comes", n)
		deletePod(t, c, space, "leaves-"+n.Name)
	}
	if err := <-upgrade; err != nil {
		t.Fatal(err)
	}
	rollout.to = time.Now()
	allRun(t, c, space, replicas+len(c.Nodes), nil)
	for _, n := range c.Nodes {
		for _, version := range []string{"v1beta3", "v1"} {
			eventually(t, "clients of "+version+" call the new build of "+n.Name, func() error {
				saw[n].mu.Lock()
				replaced := saw[n].replaced
				saw[n].mu.Unlock()
				if replaced.IsZero() || saw[n].after(version, replaced) == 0 {
					return fmt.Errorf("no call has succeeded since %v", replaced)
				}
				return nil
			})
		}
	}
	stop()
	wait.Wait()

	measured(t, "the rollout on %d nodes took %.1f s", len(c.Nodes), rollout.to.Sub(rollout.from).Seconds())
	var away []string
	for i, n := range c.Nodes {
		s := saw[n]
		if want := []string{programs.Old, programs.New}; !slices.Equal(s.versions, want) {
			t.Errorf("%s had the versions %q of CSI Proxy, want %q", n.Name, s.versions, want)
		}
		if s.away.from.IsZero() {
			t.Errorf("%s was never seen without CSI Proxy, so this test sees nothing", n.Name)
		}
		for _, other := range c.Nodes[:i] {
			if s.away.overlaps(saw[other].away) {
				t.Errorf("%s and %s were without CSI Proxy at the same time: %v, %v", other.Name, n.Name, saw[other].away, s.away)
			}
		}
		early := len(s.answered["v1"]) - s.after("v1", s.away.from)
		if early > 0 {
			t.Errorf("%d calls of v1 have succeeded on %s, whose old build does not serve it", early, n.Name)
		}
		away = append(away, fmt.Sprintf("%.1f s", s.away.to.Sub(s.away.from).Seconds()))
		measured(t, "%s: %d calls of v1beta3 to the old build, %d to the new one, %d of v1", n.Name, len(s.answered["v1beta3"])-s.after("v1beta3", s.replaced), s.after("v1beta3", s.replaced), len(s.answered["v1"]))
	}
	measured(t, "nodes without CSI Proxy, one after the other: for %s", strings.Join(away, ", "))
	mu.Lock()
	for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		during := slices.DeleteFunc(slices.Clone(done[method]), func(at time.Time) bool { return at.After(rollout.to) })
		measured(t, "%s during the rollout: %d have succeeded", method, len(during))
		if len(during) == 0 {
			t.Errorf("no %s has succeeded during the rollout", method)
		}
	}
	mu.Unlock()
	if now := uids(); !maps.Equal(now, pods) {
		t.Errorf("the pods are %v after the upgrade, and were %v", now, pods)
	}
	if now := mounted(t, c, serials); !maps.Equal(now, volumes) {
		t.Errorf("the volumes are %v after the upgrade, and were %v", now, volumes)
	}
}

// podOn makes a claim and a pod that mounts it on one node. The pod has the node's name, too.
func podOn(t *testing.T, c *Cluster, space, prefix string, n *Node) {
	t.Helper()
	name := prefix + "-" + n.Name
	if _, err := c.Client.CoreV1().PersistentVolumeClaims(space).Create(t.Context(), claim(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: podSpec(name)}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.Name}
	if _, err := c.Client.CoreV1().Pods(space).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// mounted returns the identities of disks, and where their volumes are mounted.
func mounted(t *testing.T, c *Cluster, serials []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, n := range c.Nodes {
		state, err := n.Control.Show()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range state.Disks {
			if !slices.Contains(serials, d.Serial) {
				continue
			}
			all[n.Name+" disk "+d.Serial] = d.Identity
			for _, v := range state.Volumes {
				if !slices.Contains(v.Disks, d.Number) {
					continue
				}
				for _, m := range state.Mounts {
					if m.Volume == v.ID {
						all[n.Name+" "+m.Path] = v.ID
					}
				}
			}
		}
	}
	return all
}
