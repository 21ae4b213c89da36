package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

const (
	fleetNodes = 200
	fleetAway  = fleetNodes / 10 // maxUnavailable of the chart
	broken     = "broken"        // the tag of a build that does not start
	kept       = `C:\var\lib\kubelet\plugins\example\kept`
	goes       = `C:\var\lib\kubelet\plugins\example\goes`
)

// fleet is 200 stand-ins for nodes. Kubernetes' DaemonSet controller and scheduler place the pods
// of the chart on them, and each runs CSI Proxy on a simulated node when its kubelet would.
type fleet struct {
	client kubernetes.Interface
	nodes  []*standIn

	mu   sync.Mutex
	away int // nodes without CSI Proxy
	most int // at once, since the last step
}

// standIn is a node: its kubelet, its CSI Proxy, and a driver that calls it.
type standIn struct {
	fleet   *fleet
	name    string
	node    *simnode.Node
	proxy   *serve.Server
	changed chan struct{} // a pod of the node has changed
	pods    func() []*corev1.Pod

	driver *mounter.Mounter
	disks  [2]mounter.Disk
	volume string // at kept

	mu            sync.Mutex
	runs          types.UID       // the pod whose CSI Proxy serves
	calls, failed int             // of the driver, since the last step
	answered      time.Time       // the last call that did not fail
	gap           time.Duration   // the longest time between two such calls since the last step
	moved         int             // how often the other volume was staged or unstaged since the last step
	codes         map[string]bool // of the calls that failed
}

// TestRollout installs a release of the chart on 200 nodes, rolls the next one out and back by
// Helm, and one that does not start. Drivers call all the time.
func TestRollout(t *testing.T) {
	servers, _ := startServers(t)
	// The controller of nodes would miss the heartbeats of kubelets.
	if err := servers.StartControllers(t.Context(), "--controllers=daemonset-controller"); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(servers.Config)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, client)
	f := &fleet{client: client}
	f.start(t)
	h := helm(t, servers.Config)
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	given := func(tag string) values {
		return values{"image": values{"repository": "example.com/csi-proxy", "tag": tag}}
	}
	roll := func(tag string) {
		u := action.NewUpgrade(h)
		u.Namespace, u.WaitStrategy = system, kube.HookOnlyStrategy
		if _, err := u.Run(release, chart, given(tag)); err != nil {
			t.Fatal(err)
		}
	}
	back := func() {
		r := action.NewRollback(h)
		r.WaitStrategy = kube.HookOnlyStrategy
		if err := r.Run(release); err != nil {
			t.Fatal(err)
		}
	}
	install := action.NewInstall(h)
	install.ReleaseName, install.Namespace, install.WaitStrategy = release, system, kube.HookOnlyStrategy
	if _, err := install.Run(chart, given("n")); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	f.await(t, "the first release", f.rolledOut("n"))
	measured(t, "installed on %d nodes in %.0f s", fleetNodes, time.Since(started).Seconds())
	f.drive(t)

	f.step(t, "N to N+1", func() { roll("next"); f.await(t, "N+1", f.rolledOut("next")) })
	f.step(t, "back to N", func() { back(); f.await(t, "N", f.rolledOut("n")) })
	f.step(t, "to a build that does not start", func() { roll(broken); f.await(t, "the end of the roll-out", f.stuck) })
	f.step(t, "back from it", func() { back(); f.await(t, "N", f.rolledOut("n")) })
}

// await waits until a condition has no complaint.
func (f *fleet) await(t *testing.T, what string, condition func() error) {
	t.Helper()
	const limit = 15 * time.Minute
	err := condition()
	for end := time.Now().Add(limit); err != nil; err = condition() {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// rolledOut returns a condition: the pods of a tag serve on all nodes.
func (f *fleet) rolledOut(tag string) func() error {
	return func() error {
		set, err := f.client.AppsV1().DaemonSets(system).Get(context.Background(), release, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := set.Status
		if image := set.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+tag) {
			return fmt.Errorf("the image is %s", image)
		}
		if s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled != fleetNodes || s.NumberAvailable != fleetNodes {
			return fmt.Errorf("%d of %d nodes have the new pod, %d are available", s.UpdatedNumberScheduled, fleetNodes, s.NumberAvailable)
		}
		return nil
	}
}

// stuck is a condition: as many nodes as may be have a pod that does not start.
func (f *fleet) stuck() error {
	pods, err := f.client.CoreV1().Pods(system).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	crashing := 0
	for _, p := range pods.Items {
		if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil {
			crashing++
		}
	}
	if crashing != fleetAway {
		return fmt.Errorf("%d pods do not start", crashing)
	}
	return nil
}

// start makes the nodes, whose kubelets run until the test ends.
func (f *fleet) start(t *testing.T) {
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0, informers.WithNamespace(system))
	pods := factory.Core().V1().Pods().Informer()
	const byNode = "node"
	if err := pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil }}); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*standIn{}
	changed := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if n := nodes[o.(*corev1.Pod).Spec.NodeName]; n != nil {
			n.wake()
		}
	}
	f.away = fleetNodes
	quiet := slog.New(slog.DiscardHandler)
	for i := range fleetNodes {
		n := &standIn{fleet: f, codes: map[string]bool{}, name: fmt.Sprintf("node-%03d", i+1), changed: make(chan struct{}, 1)}
		n.node = simnode.New(t, func(c *simnode.Config) {
			c.Log = quiet
			c.Disks = []simnode.Disk{{Content: nodespec.ContentSystem}, {Serial: "kept"}, {Serial: "goes"}}
		})
		n.proxy = serve.Start(t, n.node, func(c *serve.Config) { c.APIs = []string{"disk/v1", "volume/v1", "filesystem/v1"} })
		if err := n.proxy.Stop(); err != nil {
			t.Fatal(err)
		}
		n.pods = func() []*corev1.Pod {
			all, _ := pods.GetIndexer().ByIndex(byNode, n.name) // the index exists
			var of []*corev1.Pod
			for _, o := range all {
				of = append(of, o.(*corev1.Pod))
			}
			return of
		}
		nodes[n.name] = n
		f.nodes = append(f.nodes, n)
		if _, err := f.client.CoreV1().Nodes().Create(t.Context(), n.object(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }, DeleteFunc: changed}); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); factory.Shutdown(); wait.Wait() })
	factory.StartWithContext(ctx)
	for _, n := range f.nodes {
		wait.Go(func() { n.kubelet(ctx, t) })
	}
}

// object is what the kubelet of a node registers.
func (n *standIn) object() *corev1.Node {
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelOSStable: "windows", corev1.LabelHostname: n.name}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}},
	}
}

func (n *standIn) wake() {
	select {
	case n.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// kubelet runs the pods of the node as they are, whenever one has changed.
func (n *standIn) kubelet(ctx context.Context, t *testing.T) {
	for {
		select {
		case <-n.changed:
		case <-ctx.Done():
			return
		}
		if err := n.sync(ctx); err != nil && ctx.Err() == nil {
			t.Logf("%s: %v", n.name, err)
			time.AfterFunc(time.Second, n.wake)
		}
	}
}

// sync stops CSI Proxy if its pod ends, and starts it for a pod that is there.
func (n *standIn) sync(ctx context.Context) error {
	pods := n.pods()
	if runs := n.serving(); runs != "" && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == runs && p.DeletionTimestamp == nil }) {
		n.serve("")
		if err := n.proxy.Stop(); err != nil { // running calls finish
			return err
		}
	}
	for _, p := range pods {
		var err error
		switch {
		case p.DeletionTimestamp != nil:
			now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
			if err = n.fleet.client.CoreV1().Pods(system).Delete(ctx, p.Name, now); apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				err = nil // it is gone
			}
		case n.serving() != "" || len(p.Status.ContainerStatuses) > 0:
		case strings.HasSuffix(p.Spec.Containers[0].Image, ":"+broken):
			err = n.say(ctx, p, "False", `{"waiting":{"reason":"CrashLoopBackOff"}}`)
		default:
			if err = n.proxy.Restart(); err == nil {
				n.serve(p.UID)
				err = n.say(ctx, p, "True", `{"running":{}}`)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serving returns the pod whose CSI Proxy serves, or "".
func (n *standIn) serving() types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runs
}

// serve says whose CSI Proxy serves from now on.
func (n *standIn) serve(pod types.UID) {
	n.mu.Lock()
	n.runs = pod
	n.mu.Unlock()
	f := n.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if pod != "" {
		f.away--
		return
	}
	f.away++
	f.most = max(f.most, f.away)
}

// say says how a pod does.
func (n *standIn) say(ctx context.Context, p *corev1.Pod, ready, state string) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}],"containerStatuses":[{"name":%q,"image":%q,"imageID":"","ready":%t,"restartCount":0,"state":%s}]}}`,
		ready, time.Now().Format(time.RFC3339), p.Spec.Containers[0].Name, p.Spec.Containers[0].Image, ready == "True", state)
	_, err := n.fleet.client.CoreV1().Pods(system).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // it was deleted, which is a change of its own
	}
	return err
}

// drive starts a driver on each node, with a volume that stays and one that comes and goes.
func (f *fleet) drive(t *testing.T) {
	var wait sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	var conns []io.Closer
	t.Cleanup(func() {
		stop()
		wait.Wait()
		for _, c := range conns {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	for i, n := range f.nodes {
		conn, err := pipes.Open(t.Context(), []string{"disk", "volume", "filesystem"}, remote.WithPipePath(n.proxy.PipePath), remote.WithDialOptions(grpc.WithChainUnaryInterceptor(n.count)))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if n.driver, err = mounter.New(conn.Node, mounter.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		for j, serial := range []string{"kept", "goes"} {
			if n.disks[j], err = n.driver.FindDisk(t.Context(), mounter.Identity{SerialNumber: serial}); err != nil {
				t.Fatal(err)
			}
		}
		if n.volume, err = n.driver.StageDisk(t.Context(), n.disks[0], kept, mounter.StageOptions{}); err != nil {
			t.Fatal(err)
		}
		wait.Go(func() { n.drive(ctx, i) })
	}
}

// count is what a driver sees of its calls.
func (n *standIn) count(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, in, out, conn, opts...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	now := time.Now()
	switch code := status.Code(err); code {
	case codes.OK, codes.NotFound, codes.FailedPrecondition: // CSI Proxy has answered
		if !n.answered.IsZero() {
			n.gap = max(n.gap, now.Sub(n.answered))
		}
		n.answered = now
	case codes.Canceled: // the end of the test
	default:
		n.failed++
		n.codes[code.String()] = true
	}
	return err
}

// drive asks for the size of the volume that stays, and moves the other one now and then. A call
// that failed is repeated soon, as the kubelet does.
func (n *standIn) drive(ctx context.Context, i int) {
	const pause, again, every = 250 * time.Millisecond, 100 * time.Millisecond, 40
	staged := false
	for turn := i % every; ctx.Err() == nil; {
		_, _, _, err := n.driver.Stats(ctx, kept)
		if err == nil && turn%every == 0 {
			err = n.move(ctx, &staged)
		}
		wait := again
		if err == nil {
			wait = pause
			turn++
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// move stages the volume that comes and goes, or unstages it.
func (n *standIn) move(ctx context.Context, staged *bool) (err error) {
	if *staged {
		err = n.driver.UnstageDisk(ctx, goes, mounter.UnstageOptions{})
	} else {
		_, err = n.driver.StageDisk(ctx, n.disks[1], goes, mounter.StageOptions{})
	}
	if err == nil {
		*staged = !*staged
		n.mu.Lock()
		n.moved++
		n.mu.Unlock()
	}
	return err
}

// step measures a step of a roll-out. A node needs a person if its CSI Proxy serves, and its
// driver gets no answer and moves no volume after the step, or if its volume is no longer mounted.
func (f *fleet) step(t *testing.T, what string, do func()) {
	t.Helper()
	f.mu.Lock()
	f.most = f.away
	f.mu.Unlock()
	reset := func() {
		for _, n := range f.nodes {
			n.mu.Lock()
			n.calls, n.failed, n.gap, n.moved, n.codes = 0, 0, 0, 0, map[string]bool{}
			n.mu.Unlock()
		}
	}
	reset()
	started := time.Now()
	do()
	took := time.Since(started)
	var calls, failed, most, moved int
	var gap time.Duration
	kinds := map[string]bool{}
	for _, n := range f.nodes {
		n.mu.Lock()
		if n.runs != "" && !n.answered.IsZero() {
			n.gap = max(n.gap, time.Since(n.answered)) // it still waits
			gap = max(gap, n.gap)
		}
		calls, failed, most, moved = calls+n.calls, failed+n.failed, max(most, n.failed), moved+n.moved
		maps.Copy(kinds, n.codes)
		n.mu.Unlock()
	}
	reset()
	limit := time.Now().Add(2 * time.Minute)
	var person []string
	for _, n := range f.nodes {
		err := n.well()
		for ; err != nil && time.Now().Before(limit); err = n.well() {
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			person = append(person, n.name+": "+err.Error())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	measured(t, "%s: %.0f s; of %d calls of the drivers failed %d (%s), %.1f on each node, %d at most; the longest time without an answer was %.1f s; %d times a volume was staged or unstaged; %d nodes were without CSI Proxy at once, and %d at the end; %d need a person",
		what, took.Seconds(), calls, failed, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), float64(failed)/fleetNodes, most, gap.Seconds(), moved, f.most, f.away, len(person))
	if f.most > fleetAway {
		t.Errorf("%s: %d nodes were without CSI Proxy at once, want at most %d", what, f.most, fleetAway)
	}
	if len(person) > 0 {
		t.Errorf("%s: these nodes need a person:\n%s", what, strings.Join(person, "\n"))
	}
}

// well returns an error until all is well on the node.
func (n *standIn) well() error {
	state, err := n.node.Show()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(state.Mounts, func(m simnode.MountInfo) bool { return m.Volume == n.volume && strings.EqualFold("C:"+m.Path, kept) }) {
		return fmt.Errorf("volume %s is not mounted at %s", n.volume, kept)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runs != "" && n.moved == 0 {
		return errors.New("the driver moves no volume")
	}
	return nil
}
