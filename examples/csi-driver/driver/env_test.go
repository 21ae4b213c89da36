package driver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"

	"example.com/csi-driver/driver"
	"example.com/csi-driver/simstorage"
)

const nodeID = "node-1"

// setup is a way to run the driver.
type setup struct {
	kind      string
	findBy    string // how disks are found
	inProcess bool
	beta      bool // the proxy serves the versions before v1 only

	world   string        // of the simulated node
	arrival time.Duration // how long a call waits for a disk; 0 is driver.Arrival
}

// setups are all ways to run the driver; with -short, one for each kind of volume. In process there
// are no versions.
func setups() []setup {
	var all []setup
	for _, s := range []setup{
		{kind: driver.KindDisk, findBy: driver.Page83}, {kind: driver.KindDisk, findBy: driver.SerialNumber}, {kind: driver.KindDisk, findBy: driver.LUN},
		{kind: driver.KindSMB}, {kind: driver.KindISCSI},
	} {
		every, beta, inProcess := s, s, s
		beta.beta, inProcess.inProcess = true, true
		all = append(all, every)
		if !testing.Short() {
			all = append(all, beta, inProcess)
		}
	}
	return all
}

func (s setup) volumes() string {
	if s.findBy != "" {
		return s.kind + " by " + s.findBy
	}
	return s.kind
}

func (s setup) versions() string {
	switch {
	case s.inProcess:
		return "-"
	case s.beta:
		return "beta"
	}
	return "all"
}

func (s setup) mode() string {
	if s.inProcess {
		return "in process"
	}
	return "sockets"
}

func (s setup) String() string {
	return strings.Join([]string{s.volumes(), s.versions(), s.mode()}, ", ")
}

// betas are the versions that a proxy before v1 served.
var betas = []string{
	"disk/v1beta1", "disk/v1beta2", "disk/v1beta3", "filesystem/v1beta1", "filesystem/v1beta2",
	"smb/v1beta1", "smb/v1beta2", "volume/v1beta1", "volume/v1beta2", "volume/v1beta3",
	"iscsi/v1alpha1", "iscsi/v1alpha2", "system/v1alpha1",
}

// env is a simulated node with a driver that serves CSI on a unix socket.
type env struct {
	setup   setup
	t       *testing.T
	node    *simnode.Node
	storage *simstorage.Storage
	proxy   *serve.Server // nil in process
	log     klog.Logger
	socket  string          // of the driver
	entries int             // of the node's own volumes, when it starts
	own     map[string]bool // IDs of the node's own disks

	stopDriver func() error
}

// start starts a node and a driver, which run until the test ends.
func start(t *testing.T, s setup, log klog.Logger) *env {
	t.Helper()
	e := newEnv(t, s, log)
	e.serve()
	e.begin()
	return e
}

// newEnv makes a node, which nothing serves yet.
func newEnv(t *testing.T, s setup, log klog.Logger) *env {
	t.Helper()
	windows := func(c *simnode.Config) { c.World = s.world }
	e := &env{setup: s, t: t, log: log, node: simnode.New(t, simstorage.Describe, quiet, windows)}
	e.storage = simstorage.New(simstorage.Config{FindBy: s.findBy})
	e.storage.AddNode(nodeID, e.node)
	return e
}

// serve serves the node as CSI Proxy does, unless the driver works in process.
func (e *env) serve() {
	e.t.Helper()
	if e.setup.inProcess {
		return
	}
	e.proxy = serve.Start(e.t, e.node, func(c *serve.Config) {
		if e.setup.beta {
			c.APIs = betas
		}
	})
}

// begin makes the directories that the kubelet has, and starts the driver.
func (e *env) begin() {
	e.t.Helper()
	for _, dir := range []string{pluginDir, podsDir} {
		if err := e.mkdir(dir); err != nil {
			e.t.Fatal(err)
		}
	}
	state, err := e.node.Show()
	if err != nil {
		e.t.Fatal(err)
	}
	e.entries, e.own = ownEntries(state), map[string]bool{}
	for _, d := range state.Disks {
		e.own[d.ID] = true
	}
	dir, err := os.MkdirTemp("", "csi") // short, because of the socket
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { os.RemoveAll(dir) })
	e.socket = filepath.Join(dir, "csi.sock")
	if err := e.startDriver(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := e.stopDriver(); err != nil {
			e.t.Error(err)
		}
	})
}

// quiet drops the log of a node.
func quiet(c *simnode.Config) { c.Log = slog.New(slog.DiscardHandler) }

// startDriver starts the driver, as a new process.
func (e *env) startDriver() error {
	node, disconnect, err := e.host()
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		return err
	}
	d := driver.New(driver.Config{Version: "test", NodeID: nodeID, Node: node, Storage: e.storage, Log: e.log})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	e.stopDriver = func() error {
		cancel()
		return errors.Join(<-ended, disconnect())
	}
	return nil
}

// host returns the node as a new process of the driver reaches it.
func (e *env) host() (node *mounter.Mounter, disconnect func() error, err error) {
	open := func(n mounter.Node, close func() error) (*mounter.Mounter, func() error, error) {
		m, err := mounter.New(n, mounter.Options{
			Arrival: cmp.Or(e.setup.arrival, driver.Arrival),
			Local:   mounter.Local{FreeSpace: func(string) (total, free int64, err error) { return 1 << 40, 1 << 39, nil }},
			Log:     slog.New(slog.DiscardHandler),
		})
		return m, close, err
	}
	if e.setup.inProcess {
		p, err := e.node.NewProcess(rules.Rules{})
		if err != nil {
			return nil, nil, err
		}
		can := func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		}
		return open(mounter.Node{Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), SMB: p.SMB(), ISCSI: p.ISCSI(), System: p.System(), Can: can}, func() error { return nil })
	}
	c, err := pipes.Open(context.Background(), pipes.Groups(), remote.WithPipePath(e.proxy.PipePath))
	if err != nil {
		return nil, nil, err
	}
	return open(c.Node, c.Close)
}

// restart restarts CSI Proxy, or the driver if it works in process.
func (e *env) restart() error {
	if e.proxy != nil {
		return e.proxy.Restart()
	}
	return errors.Join(e.stopDriver(), e.startDriver())
}

// connect returns a connection to the driver.
func (e *env) connect() *grpc.ClientConn {
	e.t.Helper()
	conn, err := grpc.NewClient("unix:"+e.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: 20 * time.Second, // the default, without which an attempt has as long as its delay
		}))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	return conn
}

// stageSecrets are the node stage secrets of all kinds of volumes.
func stageSecrets() map[string]string {
	return map[string]string{
		driver.Username: simstorage.SMBUser, driver.Password: simstorage.SMBPassword,
		driver.CHAPUser: simstorage.CHAPUser, driver.CHAPSecret: simstorage.CHAPSecret,
	}
}

// capability is how pods use the volumes of the tests.
func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// Directories of the kubelet.
const (
	kubelet   = `C:\var\lib\kubelet`
	pluginDir = kubelet + `\plugins\kubernetes.io\csi\example`
	podsDir   = kubelet + `\pods`
)

// mkdir makes a directory, as the kubelet does.
func (e *env) mkdir(path string) error {
	_, err := e.node.Filesystem().Mkdir(e.t.Context(), &filesystem.MkdirRequest{Path: path})
	return err
}

// rmdir removes a directory with its content, as the kubelet does.
func (e *env) rmdir(path string) error {
	_, err := e.node.Filesystem().Rmdir(e.t.Context(), &filesystem.RmdirRequest{Path: path, Force: true})
	return err
}

func (e *env) exists(path string) (bool, error) {
	out, err := e.node.Filesystem().PathExists(e.t.Context(), &filesystem.PathExistsRequest{Path: path})
	if err != nil {
		return false, err
	}
	return out.Exists, nil
}

// left returns what volumes have left on the node: disks, mounts, mappings, sessions,
// handles, files and directories. Locks of volumes and files end with their handles.
func (e *env) left() []string {
	e.t.Helper()
	state, err := e.node.Show()
	if err != nil {
		e.t.Fatal(err)
	}
	var left []string
	for _, d := range state.Disks {
		if !e.own[d.ID] {
			left = append(left, "disk "+d.ID)
		}
	}
	for _, m := range state.Mounts {
		left = append(left, "mount "+m.Path)
	}
	for _, m := range state.SMBMappings {
		left = append(left, "mapping "+m.Remote)
	}
	for _, t := range state.ISCSITargets {
		if t.Session != "" {
			left = append(left, "session "+t.IQN)
		}
	}
	for _, h := range state.OpenHandles {
		left = append(left, "handle "+h)
	}
	if n := ownEntries(state) - e.entries; n != 0 {
		left = append(left, fmt.Sprintf("%+d files and directories", n))
	}
	slices.Sort(left)
	return left
}

// ownEntries returns how many files and directories the node's own volumes have, such as
// C:.
func ownEntries(s simnode.State) (n int) {
	for _, v := range s.Volumes {
		for _, d := range s.Disks {
			if d.System && slices.Contains(v.Disks, d.Number) {
				n += v.Entries
			}
		}
	}
	return n
}
