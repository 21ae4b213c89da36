package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/control"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/translation"
)

// Node is a simulated Windows node with its kubelet, its CSI Proxy and its driver.
type Node struct {
	Name    string
	Control *control.Node // changes the node

	cluster     *Cluster
	dir         string
	runtime     *runtime
	files       *remote.Filesystem
	translation *translation.Translation
	own         []string // the IDs of disks that the node has by itself

	mu                     sync.Mutex
	kubelet, proxy, driver *programs.Process
	calls                  []translation.Call
	called                 func(translation.Call) error
}

// Pipes returns the directory of the sockets of the node's CSI Proxy.
func (n *Node) Pipes() string { return filepath.Join(n.dir, "pipes") }

// PipePath returns the socket of a version of an API group.
func (n *Node) PipePath(group string, version apiversion.Version) string {
	return filepath.Join(n.Pipes(), "csi-proxy-"+group+"-"+version.String()+".sock")
}

func (n *Node) state() string    { return filepath.Join(n.dir, "state") }
func (n *Node) root() string     { return filepath.Join(n.dir, "kubelet") }
func (n *Node) socket() string   { return "unix://" + filepath.Join(n.dir, "driver.sock") }
func (n *Node) runtimes() string { return "unix://" + filepath.Join(n.dir, "runtime.sock") }

// start starts the kubelet, waits for CSI Proxy, which the kubelet starts as a pod of the
// DaemonSet, starts the driver, and waits until Kubernetes says that the node is ready for it.
func (n *Node) start(ctx context.Context) error {
	for _, dir := range []string{n.Pipes(), n.root(), filepath.Join(n.dir, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if n.runtime, err = startRuntime(n.runtimes(), n.startProxy); err != nil {
		return err
	}
	kubelet, err := n.startKubelet(ctx)
	if err != nil {
		return err
	}
	if err := n.awaitProxy(ctx); err != nil {
		return fmt.Errorf("%w; the end of the kubelet's output:\n%s", err, kubelet.End())
	}
	if n.Control, err = control.Open(ctx, n.Pipes()); err != nil {
		return err
	}
	state, err := n.Control.Show()
	if err != nil {
		return err
	}
	for _, d := range state.Disks {
		n.own = append(n.own, d.ID)
	}
	n.cluster.Storage.AddNode(n.Name, n.Control)
	if n.files, err = remote.NewFilesystem(ctx, remote.WithPipePath(n.PipePath)); err != nil {
		return err
	}
	if err := n.StartDriver(ctx); err != nil {
		return err
	}
	return await(ctx, kubelet, func() error { return n.ready(ctx) })
}

// StartDriver starts the driver, and registers it with the kubelet.
func (n *Node) StartDriver(ctx context.Context) error {
	command := n.cluster.config.Driver
	if len(command) == 0 {
		command = []string{n.cluster.config.Programs.Driver, "-endpoint=ENDPOINT", "-node-id=NODE", "-v=2"}
	}
	command = slices.Clone(command)
	for i, arg := range command {
		command[i] = strings.NewReplacer("ENDPOINT", n.socket(), "NODE", n.Name).Replace(arg)
	}
	p, err := programs.Start(n.dir, "driver", []string{"CSI_PROXY_DIR=" + n.Pipes()}, command[0], command[1:]...)
	if err != nil {
		return err
	}
	n.set(&n.driver, p)
	if n.translation != nil {
		return nil // it connects again
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		select {
		case <-p.Done(): // no answer will come
			cancel()
		case <-ctx.Done():
		}
	}()
	n.translation, err = translation.Start(ctx, translation.Config{Root: n.root(), Driver: n.socket(), Files: n.files, Called: n.record})
	if err != nil && p.Ended() {
		err = errors.New("the driver has ended")
	}
	if err != nil {
		return fmt.Errorf("%w; the end of its output:\n%s", err, p.End())
	}
	return nil
}

// StartKubelet starts the kubelet, and waits until the node is ready.
func (n *Node) StartKubelet(ctx context.Context) error {
	p, err := n.startKubelet(ctx)
	if err != nil {
		return err
	}
	return await(ctx, p, func() error { return n.ready(ctx) })
}

// startKubelet starts the kubelet, and waits until it serves.
func (n *Node) startKubelet(ctx context.Context) (*programs.Process, error) {
	port, release, err := reservePort()
	if err != nil {
		return nil, err
	}
	defer release()
	p, err := programs.Start(n.dir, "kubelet", []string{"TMPDIR=" + filepath.Join(n.dir, "tmp")}, n.cluster.config.Programs.Kubernetes, "kubelet", "--node="+n.Name,
		"--root-dir="+n.root(), "--container-runtime-endpoint="+n.runtimes(), "--kubeconfig="+n.cluster.Servers.Kubeconfig(), "--port="+port)
	if err != nil {
		return nil, err
	}
	n.set(&n.kubelet, p)
	// The heartbeat of an earlier kubelet says nothing of this one.
	return p, await(ctx, p, listens(port))
}

// ready returns an error if Kubernetes does not say that the node is ready for the driver's
// volumes.
func (n *Node) ready(ctx context.Context) error {
	object, err := n.cluster.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("%s is not ready: %s", n.Name, c.Message)
		}
	}
	for _, taint := range object.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return fmt.Errorf("%s has the taint %s", n.Name, taint.Key)
		}
	}
	drivers, err := n.cluster.Client.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, d := range drivers.Spec.Drivers {
		if d.Name == n.translation.Name() {
			return nil
		}
	}
	return fmt.Errorf("the kubelet of %s has not registered driver %s", n.Name, n.translation.Name())
}

// KillKubelet ends the kubelet at once, as kill -9 does. What it has made stays.
func (n *Node) KillKubelet() { n.take(&n.kubelet).Kill() }

// KillDriver ends the driver at once.
func (n *Node) KillDriver() { n.take(&n.driver).Kill() }

// Reboot restarts the node, at once.
func (n *Node) Reboot(ctx context.Context) error {
	if err := n.GoDown(); err != nil {
		return err
	}
	return n.ComeUp(ctx)
}

// GoDown begins a restart of the node: its programs end, Windows restarts, and containers are
// gone. The kubelet's files stay.
func (n *Node) GoDown() error {
	n.KillKubelet()
	n.KillDriver()
	n.runtime.stop()
	if err := n.Control.Reboot(); err != nil {
		return err
	}
	return n.take(&n.proxy).Stop()
}

// ComeUp ends a restart: the kubelet starts, and CSI Proxy by it, and then the driver.
func (n *Node) ComeUp(ctx context.Context) error {
	var err error
	if n.runtime, err = startRuntime(n.runtimes(), n.startProxy); err != nil {
		return err
	}
	kubelet, err := n.startKubelet(ctx)
	if err != nil {
		return err
	}
	if err := n.awaitProxy(ctx); err != nil {
		return err
	}
	if err := n.StartDriver(ctx); err != nil {
		return err
	}
	return await(ctx, kubelet, func() error { return n.ready(ctx) })
}

// attached returns the disks of the storage system. Their numbers do not say it: they change when the
// node restarts.
func (n *Node) attached(state nodespec.State) []nodespec.DiskInfo {
	return slices.DeleteFunc(slices.Clone(state.Disks), func(d nodespec.DiskInfo) bool { return slices.Contains(n.own, d.ID) })
}

// Left returns what volumes have left on the node: disks, mounted volumes, mappings of
// shares, and the kubelet's directories for them. There is nothing when no pod of the node
// has a volume.
func (n *Node) Left() ([]string, error) {
	state, err := n.Control.Show()
	if err != nil {
		return nil, err
	}
	var left []string
	for _, d := range n.attached(state) {
		left = append(left, fmt.Sprintf("disk %d, %s", d.Number, cmp.Or(d.Serial, d.ID)))
	}
	for _, id := range state.Detached {
		left = append(left, "detached disk "+id)
	}
	for _, m := range state.Mounts {
		// UnmountVolume may leave the record of a volume whose disk is gone, which an
		// administrator removes with mountvol /R (docs/develop/contract/volumes.md#unmount).
		if slices.ContainsFunc(state.Volumes, func(v nodespec.VolumeInfo) bool { return v.ID == m.Volume }) {
			left = append(left, "volume at "+m.Path)
		}
	}
	for _, m := range state.SMBMappings {
		left = append(left, "mapping of "+m.Remote)
	}
	for _, h := range state.OpenHandles {
		left = append(left, "open handle of "+h)
	}
	for _, dir := range n.translation.Volumes() {
		left = append(left, "directory "+dir)
	}
	return left, nil
}

// Called makes f see the kubelet's calls from now on, before and after each. An error of f
// before a call fails it, and the driver does not see it.
func (n *Node) Called(f func(translation.Call) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.called = f
}

// Calls returns the kubelet's calls that are done.
func (n *Node) Calls() []translation.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

func (n *Node) record(c translation.Call) error {
	n.mu.Lock()
	called := n.called
	if c.Done {
		n.calls = append(n.calls, c)
	}
	n.mu.Unlock()
	if called == nil {
		return nil
	}
	return called(c)
}

// Processes returns the programs of the node that were started last.
func (n *Node) Processes() []*programs.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*programs.Process
	for _, p := range []*programs.Process{n.kubelet, n.proxy, n.driver} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

func (n *Node) set(to **programs.Process, p *programs.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*to = p
}

func (n *Node) take(from **programs.Process) *programs.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return *from
}

// close ends the programs of the node.
func (n *Node) close() error {
	var errs []error
	if n.runtime != nil {
		n.runtime.stop() // the kubelet must not start CSI Proxy again
	}
	for _, p := range n.Processes() {
		p.Kill() // nothing of the node is kept
	}
	if n.translation != nil {
		errs = append(errs, n.translation.Close())
	}
	if n.files != nil {
		errs = append(errs, n.files.Close())
	}
	if n.Control != nil {
		errs = append(errs, n.Control.Close())
	}
	return errors.Join(errs...)
}
