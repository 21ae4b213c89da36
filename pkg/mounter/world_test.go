package mounter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

const (
	gib     = 1 << 30
	kubelet = `C:\var\lib\kubelet`
	staging = kubelet + `\plugins\kubernetes.io\csi\example\vol\globalmount`
	target  = kubelet + `\pods\1\volumes\kubernetes.io~csi\vol\mount`
	iqn     = "iqn.2025-01.com.example:vol"
)

// way is how a driver reaches the node.
type way struct {
	name     string
	pipes    bool
	apis     []string // that are served; empty means all
	existing bool     // the proxy is the existing one
}

// The existing proxies: v1.3.0 serves v1, and v0.2 the betas. The older versions that they serve, too,
// are not used.
var (
	v13   = []string{"disk/v1", "filesystem/v1", "smb/v1", "volume/v1", "iscsi/v1alpha2", "system/v1alpha1"}
	betas = []string{"disk/v1beta3", "filesystem/v1beta2", "smb/v1beta2", "volume/v1beta3", "iscsi/v1alpha2", "system/v1alpha1"}

	inProcess = way{name: "in process"}
	allPipes  = way{name: "pipes", pipes: true}
	betaPipes = way{name: "beta pipes", pipes: true, apis: betas}
	existing  = way{name: "existing proxy", pipes: true, apis: v13, existing: true}
)

func ways() []way { return []way{inProcess, allPipes, betaPipes, existing} }

// world is a node, and a driver with its Mounter.
type world struct {
	t    *testing.T
	node *simnode.Node
	way  way
	m    *mounter.Mounter
	log  strings.Builder

	mu     sync.Mutex
	calls  int
	before func(call int, method string) error // an error: the call is not made
	after  func(call int, method string) error // an error: its answer is lost
	made   []string                            // methods that were called
	proxy  *oldProxy
	server *serve.Server
	older  atomic.Bool  // the proxy is the existing one now
	conn   mounter.Node // through the pipes
}

func newWorld(t *testing.T, w way, change ...func(*simnode.Config)) *world {
	t.Helper()
	describe := func(c *simnode.Config) {
		c.Log = slog.New(slog.DiscardHandler)
		c.SMBServers = []simnode.SMBServer{{Name: "files", Shares: []string{"data", "logs"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "ann-1"}}}}
	}
	n := simnode.New(t, append([]func(*simnode.Config){describe}, change...)...)
	x := &world{t: t, node: n, way: w, proxy: &oldProxy{links: map[string]bool{}}}
	if err := n.AddShareDirectory("files", "data", "vol"); err != nil {
		t.Fatal(err)
	}
	if err := n.SetISCSITarget(simnode.ISCSITarget{
		IQN: iqn, Portals: []simnode.ISCSIPortal{{Address: "192.0.2.20", Port: 3260}}, LUNs: []simnode.LUN{{Disk: simnode.Disk{Size: gib}}}, CHAP: &simnode.CHAP{User: "csi", Secret: "csi-secret-1234"},
	}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{kubelet + `\plugins\kubernetes.io\csi\example\vol`, path.Dir(strings.ReplaceAll(target, `\`, "/"))} {
		if _, err := n.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: dir}); err != nil {
			t.Fatal(err)
		}
	}
	x.m = x.mounter(x.open(), mounter.Options{})
	return x
}

// mounter returns a Mounter with the local view of the simulated node.
func (x *world) mounter(n mounter.Node, o mounter.Options) *mounter.Mounter {
	x.t.Helper()
	o.Log = slog.New(slog.NewTextHandler(&x.log, nil))
	if o.Local.FreeSpace == nil {
		o.Local.FreeSpace = func(string) (int64, int64, error) { return 100, 40, nil }
	}
	if o.Local.Dirs == nil {
		o.Local.Dirs, o.Local.Readlink = x.dirs, x.readlink
	}
	m, err := mounter.New(n, o)
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

// open opens the node, as a new process of the driver.
func (x *world) open() mounter.Node {
	x.t.Helper()
	if !x.way.pipes {
		p, err := x.node.NewProcess(rules.Rules{})
		if err != nil {
			x.t.Fatal(err)
		}
		can := func(ctx context.Context) (context.Context, mounter.Abilities, error) {
			return ctx, mounter.AllAbilities(), nil
		}
		return mounter.Node{Disk: p.Disk(), Volume: p.Volume(), Files: p.Filesystem(), SMB: p.SMB(), ISCSI: p.ISCSI(), System: p.System(), Can: can}
	}
	s := serve.Start(noEnv{x.t}, x.node, func(c *serve.Config) {
		c.APIs = x.way.apis
		if x.way.existing {
			c.FormatExisting, c.DiskContent = true, rules.DiskContentUnknown // D32
		}
	})
	x.server = s
	x.older.Store(x.way.existing)
	x.conn = x.dial()
	return x.conn
}

// replace lets another proxy take the pipes.
func (x *world) replace(by func(*serve.Config), older bool) {
	x.t.Helper()
	if err := x.server.Replace(by); err != nil {
		x.t.Fatal(err)
	}
	x.older.Store(older)
}

func (x *world) dial() mounter.Node {
	x.t.Helper()
	s := x.server
	c, err := pipes.Open(x.t.Context(), pipes.Groups(), remote.WithPipePath(s.PipePath), remote.WithDialOptions(grpc.WithChainUnaryInterceptor(x.intercept, x.old)))
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			x.t.Error(err)
		}
	})
	return c.Node
}

// noEnv lets parallel tests start servers: none uses the standard pipes.
type noEnv struct{ *testing.T }

func (noEnv) Setenv(string, string) { panic("the standard pipes are not used") }

// intercept counts the calls, and loses some.
func (x *world) intercept(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	x.mu.Lock()
	x.calls++
	n, before, after := x.calls, x.before, x.after
	x.made = append(x.made, path.Base(method))
	x.mu.Unlock()
	if before != nil {
		if err := before(n, method); err != nil {
			return err
		}
	}
	err := call(ctx, method, in, out, cc, opts...)
	if after != nil {
		if lost := after(n, method); lost != nil {
			return lost
		}
	}
	return err
}

// countOf returns how often a method was called.
func (x *world) countOf(method string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.made {
		if m == method {
			n++
		}
	}
	return n
}

// oldProxy is what the existing proxy does otherwise than ours. Each difference has its number in
// docs/drivers/compared.md.
type oldProxy struct {
	mu         sync.Mutex
	links      map[string]bool
	skipGrowth bool // D32, for a growth of less than 100 MiB
	unmapped   int  // how often it removed a mapping
}

func (x *world) old(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !x.older.Load() {
		return call(ctx, method, in, out, cc, opts...)
	}
	x.proxy.mu.Lock()
	defer x.proxy.mu.Unlock()
	unknown := func(format string, args ...any) error { return status.Errorf(codes.Unknown, format, args...) }
	if method == grpc_health_v1.Health_Check_FullMethodName {
		return status.Error(codes.Unimplemented, "unknown service")
	}
	link := ""
	switch path.Base(method) {
	case "ResizeVolume":
		if x.proxy.skipGrowth {
			return call(ctx, grpc_health_v1.Health_Check_FullMethodName, &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{}, cc, opts...) // D32
		}
	case "UnmountVolume":
		id := in.(interface{ GetVolumeId() string }).GetVolumeId()
		if !slices.ContainsFunc(x.state().Volumes, func(v simnode.VolumeInfo) bool { return strings.EqualFold(v.ID, id) }) {
			return unknown("no volume has this ID") // D17
		}
	case "CreateSymlink":
		link = in.(interface{ GetTargetPath() string }).GetTargetPath()
	case "NewSmbGlobalMapping":
		link = in.(interface{ GetLocalPath() string }).GetLocalPath()
	case "Rmdir":
		defer delete(x.proxy.links, in.(interface{ GetPath() string }).GetPath())
	}
	if link != "" && x.proxy.links[link] {
		return unknown("cannot create a file when that file already exists") // D15
	}
	err := call(ctx, method, in, out, cc, opts...)
	if path.Base(method) == "IsVolumeFormatted" && status.Code(err) == codes.FailedPrecondition {
		return nil // D2: false
	}
	if err == nil && path.Base(method) == "RemoveSmbGlobalMapping" {
		x.proxy.unmapped++ // D16
	}
	if err == nil && link != "" {
		x.proxy.links[link] = true
	}
	switch status.Code(err) {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Unimplemented:
		return err
	}
	return unknown("%s", status.Convert(err).Message()) // D44
}

// dirs and readlink are the node's files, as a container that mounts them sees them.
func (x *world) dirs(dir string) (names []string, err error) {
	files, err := x.node.Files(dir)
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	for _, f := range files {
		if name, ok := strings.CutPrefix(f.Path, dir+`\`); ok && f.Dir && f.Link == nil && !strings.Contains(name, `\`) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (x *world) readlink(p string) (string, error) {
	files, err := x.node.Files(p[:strings.LastIndexByte(p, '\\')])
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.Path == p && f.Link != nil {
			return strings.Replace(f.Link.Target, `\??\UNC\`, `\\`, 1), nil
		}
		if f.Path == p {
			return "", nil
		}
	}
	return "", fs.ErrNotExist
}

func (x *world) state() simnode.State {
	x.t.Helper()
	s, err := x.node.Show()
	if err != nil {
		x.t.Fatal(err)
	}
	return s
}

// left returns what volumes have left on the node.
func (x *world) left() []string {
	x.t.Helper()
	s := x.state()
	var left []string
	for _, m := range s.Mounts {
		left = append(left, "mount "+m.Path)
	}
	for _, m := range s.SMBMappings {
		left = append(left, "mapping "+m.Remote)
	}
	for _, i := range s.ISCSITargets {
		if i.Session != "" {
			left = append(left, "session "+i.IQN)
		}
	}
	for _, h := range s.OpenHandles {
		left = append(left, "handle "+h)
	}
	for _, p := range []string{staging, target} {
		if there, err := x.node.Filesystem().PathExists(x.t.Context(), &filesystem.PathExistsRequest{Path: p}); err != nil || there.Exists {
			left = append(left, fmt.Sprint("path ", p, err))
		}
	}
	return left
}

// soon is a context for what should be there at once.
func (x *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	x.t.Cleanup(cancel)
	return ctx
}

// step is a call of a driver.
type step struct {
	name string
	do   func(context.Context) error
}

// lives are the lives of a volume of each kind.
func (x *world) lives() map[string][]step {
	vol := mounter.EBS("vol-02190fee5da4d75e3")
	share := mounter.Share{Remote: `\\files\data\vol`, User: "ann", Password: "ann-1"}
	lun := mounter.Target{Address: "192.0.2.20", IQN: iqn, User: "csi", Secret: "csi-secret-1234"}
	format := mounter.IfBlank
	if x.way.existing {
		format = mounter.IfProxySaysUnformatted
	}
	stage := func(find func(context.Context) (mounter.Disk, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			d, err := find(ctx)
			if err == nil {
				_, err = x.m.StageDisk(ctx, d, staging, mounter.StageOptions{Format: format})
			}
			return err
		}
	}
	publish := step{"publish", func(ctx context.Context) error { return x.m.Publish(ctx, staging, target) }}
	unpublish := step{"unpublish", func(ctx context.Context) error { return x.m.Unpublish(ctx, target) }}
	stats := step{"stats", func(ctx context.Context) error {
		total, used, free, err := x.m.Stats(ctx, target)
		if err == nil && (total <= 0 || used+free != total) {
			err = fmt.Errorf("stats %d, %d, %d", total, used, free)
		}
		return err
	}}
	expand := step{"expand", func(ctx context.Context) error {
		size, err := x.m.Expand(ctx, target, 2*gib)
		if err == nil && size != 2*gib {
			err = fmt.Errorf("expanded to %d bytes", size)
		}
		return err
	}}
	lives := map[string][]step{
		"disk": {
			{"stage", stage(func(ctx context.Context) (mounter.Disk, error) { return x.m.FindDisk(ctx, vol) })},
			publish, stats,
			{"grow", func(context.Context) error { return x.grow("vol02190fee5da4d75e3") }},
			expand, unpublish,
			{"unstage", func(ctx context.Context) error {
				return x.m.UnstageDisk(ctx, staging, mounter.UnstageOptions{Offline: &vol})
			}},
		},
		"share": {
			{"stage", func(ctx context.Context) error { return x.m.StageShare(ctx, share, staging) }},
			publish, stats, unpublish,
			{"unstage", func(ctx context.Context) error { return x.m.UnstageShare(ctx, staging, share.Remote) }},
		},
		"iscsi": {
			{"stage", stage(func(ctx context.Context) (mounter.Disk, error) { return x.m.Login(ctx, lun) })},
			publish, stats, unpublish,
			{"unstage", func(ctx context.Context) error {
				if err := x.m.UnstageDisk(ctx, staging, mounter.UnstageOptions{}); err != nil {
					return err
				}
				return x.m.Logout(ctx, lun)
			}},
		},
	}
	return lives
}

// grow gives the disk with a serial number 2 GiB.
func (x *world) grow(serial string) error {
	for _, d := range x.state().Disks {
		if strings.HasPrefix(d.Serial, serial) && d.Size < 2*gib {
			return x.node.GrowDisk(d.Number, 2*gib)
		}
	}
	return nil
}

// attach attaches the disk of the lives.
func (x *world) attach() simnode.DiskInfo {
	x.t.Helper()
	d, err := x.node.AttachDisk(simnode.Disk{Size: gib, Bus: "nvme", Serial: "vol02190fee5da4d75e3_00000001."})
	if err == nil {
		_, err = x.node.Disk().Rescan(x.t.Context(), &disk.RescanRequest{})
	}
	if err == nil {
		err = x.node.AwaitDisk(d.Number) // so that each life has the same calls
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}
