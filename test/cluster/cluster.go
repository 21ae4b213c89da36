package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"example.com/csi-driver/driver"
	"example.com/csi-driver/simstorage"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// Config describes a cluster.
type Config struct {
	Dir      string // for all files, at most 40 characters, because sockets are below
	Nodes    int
	Programs *programs.Set
	Proxy    string   // the build of CSI Proxy; empty for programs.New
	Driver   []string // the driver's command line; nil for the example driver. See Arguments
}

// Cluster is a running cluster.
type Cluster struct {
	Servers *Servers
	Client  kubernetes.Interface
	Nodes   []*Node
	Storage *simstorage.Storage

	config Config
	stop   context.CancelFunc
	wait   sync.WaitGroup
}

// The names of the classes of volumes.
const (
	StorageClass      = "simulated-disks"  // disks of the storage system
	ShareStorageClass = "simulated-shares" // directories of an SMB share, for several nodes at once
)

// The share of the SMB server that every simulated node has, and the name and password of its
// account (nodespec.Config).
const (
	smbShare   = "data"
	smbAccount = "csi"
)

// Start starts a cluster. It returns when all nodes are ready.
func Start(ctx context.Context, config Config) (_ *Cluster, err error) {
	c := &Cluster{config: config, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if len(config.Dir) > 40 {
		return nil, fmt.Errorf("directory %q has %d characters, want at most 40: paths of sockets are limited", config.Dir, len(config.Dir))
	}
	config.Proxy = cmp.Or(config.Proxy, programs.New)
	c.config = config
	disks := filepath.Join(config.Dir, "disks")
	if err := os.MkdirAll(disks, 0o700); err != nil {
		return nil, err
	}
	c.Storage = simstorage.New(simstorage.Config{FindBy: driver.SerialNumber, Dir: disks, Share: smbShare})
	// Without the admission of service accounts pods start at once: no token is mounted.
	if c.Servers, err = StartServers(ctx, config.Dir, config.Programs.Kubernetes, "--disable-admission-plugins=ServiceAccount"); err != nil {
		return nil, err
	}
	if c.Client, err = kubernetes.NewForConfig(c.Servers.Config); err != nil {
		return nil, err
	}
	if err := c.Servers.startControllers(ctx); err != nil {
		return nil, err
	}
	if err := c.makeDaemonSet(ctx); err != nil {
		return nil, err
	}
	started := make(chan error)
	for i := range config.Nodes {
		n := &Node{Name: fmt.Sprintf("node-%d", i+1), cluster: c}
		n.dir = filepath.Join(config.Dir, n.Name)
		c.Nodes = append(c.Nodes, n)
		go func() { started <- n.start(ctx) }()
	}
	var errs []error
	for range c.Nodes {
		errs = append(errs, <-started)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := c.makeObjects(ctx); err != nil {
		return nil, err
	}
	if err := c.startSidecars(ctx); err != nil {
		return nil, err
	}
	return c, c.alive()
}

// alive returns an error if a program has ended.
func (c *Cluster) alive() error {
	all := c.Servers.Processes()
	for _, n := range c.Nodes {
		all = append(all, n.Processes()...)
	}
	for _, p := range all {
		if p.Ended() {
			return fmt.Errorf("%s has ended; the end of its output:\n%s", p.Name, p.End())
		}
	}
	return nil
}

// Node returns the node of a name.
func (c *Cluster) Node(name string) (*Node, error) {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q; the nodes are node-1 to node-%d", name, len(c.Nodes))
}

// Close ends all programs.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.close())
	}
	if c.Servers != nil {
		errs = append(errs, c.Servers.Close())
	}
	c.stop()
	c.wait.Wait()
	return errors.Join(errs...)
}

// listens returns what succeeds when a program listens on a port of loopback.
func listens(port string) func() error {
	return func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// startSidecars serves the Controller service of the example driver over the storage system,
// under the name of the driver of the nodes, and starts the sidecars that call it.
func (c *Cluster) startSidecars(ctx context.Context) error {
	var serving context.Context
	serving, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	d := driver.New(driver.Config{Name: c.driverName(), Version: "simulated", Storage: c.Storage, Log: klog.Background()})
	p := c.config.Programs
	for _, sidecar := range []struct {
		exe  string
		args []string
	}{
		{p.Provisioner, []string{"--retry-interval-start=500ms", "--retry-interval-max=10s"}},
		{p.Attacher, []string{"--retry-interval-start=500ms", "--retry-interval-max=10s"}},
		{p.Resizer, []string{"--retry-interval-start=500ms", "--retry-interval-max=10s", "--handle-volume-inuse-error=false"}},
	} {
		// Each has a socket of its own, so that it is known which of them has connected.
		name := filepath.Base(sidecar.exe)
		socket := filepath.Join(c.config.Dir, name+".sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		calls := &connections{Listener: l}
		c.wait.Go(func() { _ = d.Serve(serving, calls) }) // ends with the cluster
		args := append([]string{"--csi-address=" + socket, "--kubeconfig=" + c.Servers.Kubeconfig(), "--kube-api-qps=100", "--kube-api-burst=200"}, sidecar.args...)
		if err := c.Servers.startExe(ctx, sidecar.exe, name, calls.any, args...); err != nil {
			return err
		}
	}
	return nil
}

// connections counts the connections to a listener.
type connections struct {
	net.Listener
	accepted atomic.Int32
}

// Accept implements [net.Listener].
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// any returns an error while no connection was made.
func (c *connections) any() error {
	if c.accepted.Load() == 0 {
		return errors.New("it has not connected to the driver")
	}
	return nil
}

// driverName is the name of the driver on the nodes. All have the same.
func (c *Cluster) driverName() string {
	for _, n := range c.Nodes {
		return cmp.Or(n.translation.Name(), driver.Name)
	}
	return driver.Name
}
