package hosttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/policy"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosttest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

const (
	workingDir = `C:\var\lib\kubelet`
	caseDir    = workingDir + `\plugins\contract`
)

// allowedServices are those that callers may start and stop through the pipes.
func allowedServices() []string {
	return append(policy.DefaultServices(), "contract-base", "contract-left", "contract-right", "contract-top")
}

// The services over a simulated node, as a driver in process has them.
func TestInProcess(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, setup hosttest.Setup) *hosttest.Node {
		return newHost(t, setup, nil).node()
	})
}

// The same cases through the road of the daemon: socket, server, policy, rows,
// services, the simulated node.
func TestThroughPipes(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv(pipe.DirVariable, dir)
	// E: is for the cases of drive letters.
	workingDirs := []string{`E:\`, workingDir}
	hosttest.Run(t, func(t *testing.T, setup hosttest.Setup) *hosttest.Node {
		h := newHost(t, setup, workingDirs)
		n := h.node()
		h.serve(t, n, workingDirs, filepath.Base(dir)+"-")
		n.Confined = true
		return n
	})
}

// host is a simulated node under test.
type host struct {
	sim *simnode.Node
	mu  sync.Mutex // attaching with bytes takes several steps
}

func newHost(t *testing.T, setup hosttest.Setup, workingDirs []string) *host {
	t.Helper()
	config := simnode.Config{
		StateDir:           t.TempDir(),
		Disks:              []simnode.Disk{{Content: "system"}},
		Directories:        []string{caseDir},
		AttachNeedsRescan:  setup.AttachNeedsRescan,
		VolumeArrivalDelay: simnode.Duration(setup.ArrivalDelay),
		CreateDiskAddsMSR:  setup.TableAddsReserved,
		GrowNeedsLayout:    setup.GrowthNeedsTable,
		Rules:              simnode.Rules{WorkingDirs: workingDirs},
		Log:                slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if workingDirs != nil {
		config.AllowedServices = allowedServices()
	}
	if setup.ArriveOffline {
		config.SANPolicy = "offlineShared"
	}
	if setup.Spanned {
		config.Disks = append(config.Disks, simnode.Disk{Size: 1 << 30, Content: "gpt"}, simnode.Disk{Size: 1 << 30, Content: "gpt"})
		config.SpannedVolumes = []simnode.SpannedVolume{{Extents: []simnode.Extent{{Disk: 1, Offset: 64 << 20, Length: 100 << 20}, {Disk: 2, Offset: 64 << 20, Length: 200 << 20}}}}
	}
	n, err := simnode.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{sim: n}
}

// node is the host as the cases see it.
func (h *host) node() *hosttest.Node {
	n := h.sim
	return &hosttest.Node{
		Disk: n.Disk(), Volume: n.Volume(), Filesystem: n.Filesystem(),
		SMB: n.SMB(), ISCSI: n.ISCSI(), System: n.System(),
		Dir:      caseDir,
		Spanned:  []uint32{1, 2},
		Attach:   h.attach,
		Detach:   h.detach,
		Grow:     func(number uint32, size uint64) error { return n.GrowDisk(number, simnode.Size(size)) },
		Restart:  n.Reboot,
		MakeFile: n.MakeFile,

		AddSMBServer:   h.addSMBServer,
		SetSMBPassword: n.SetSMBPassword,
		SetSMBDown:     n.SetSMBServerDown,
		SMBMappings:    h.smbMappings,
		SetISCSITarget: h.setISCSITarget,
		SetService:     h.setService,

		Fail:        h.fail,
		Heal:        n.ClearFaults,
		OpenHandles: func() ([]string, error) { s, err := n.Show(); return s.OpenHandles, err },
	}
}

func (h *host) attach(d hosttest.Disk) (uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := simnode.Disk{
		Size: simnode.Size(d.Size), SectorSize: d.SectorSize, Content: string(d.Table), WriteProtected: d.WriteProtected,
		Bus: d.Bus, Serial: d.Serial, Location: d.Location,
	}
	// What is not said is for the SAN policy to decide.
	if d.Offline {
		c.Offline = &d.Offline
	}
	if d.ReadOnly {
		c.ReadOnly = &d.ReadOnly
	}
	for _, p := range d.Partitions {
		c.Partitions = append(c.Partitions, simnode.Partition{Size: simnode.Size(p.Size), Type: p.Type, FileSystem: p.FileSystem, Letter: p.Letter})
	}
	for _, i := range d.Identifiers {
		c.Identifiers = append(c.Identifiers, simnode.Identifier(i))
	}
	if d.Address != nil {
		c.Address = &simnode.Address{Port: d.Address.Port, Path: d.Address.Path, Target: d.Address.Target, Lun: d.Address.Lun}
	}
	info, err := h.sim.AttachDisk(c)
	if err != nil || len(d.Bytes) == 0 {
		return info.Number, err
	}
	if err := h.sim.DetachDisk(info.Number); err != nil {
		return 0, err
	}
	if err := overwrite(info.Image, d.Bytes); err != nil {
		return 0, err
	}
	info, err = h.sim.AttachDisk(simnode.Disk{ID: info.ID, Offline: c.Offline, ReadOnly: c.ReadOnly})
	return info.Number, err
}

func overwrite(image string, all []hosttest.Bytes) error {
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, b := range all {
		if _, err := f.WriteAt(b.Data, int64(b.At)); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

func (h *host) addSMBServer(s hosttest.SMBServer) error {
	c := simnode.SMBServer{Name: s.Name, Shares: s.Shares, NoEncryption: s.NoEncryption}
	for user, password := range s.Passwords {
		c.Accounts = append(c.Accounts, simnode.SMBAccount{User: user, Password: password})
	}
	if err := h.sim.AddSMBServer(c); err != nil {
		return err
	}
	for _, share := range s.Shares {
		if err := h.sim.AddShareDirectory(s.Name, share, `inside\inside`); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) smbMappings() (list []hosttest.SMBMapping, err error) {
	state, err := h.sim.Show()
	for _, m := range state.SMBMappings {
		list = append(list, hosttest.SMBMapping{Remote: m.Remote, User: m.User, Works: m.Status == "ok"})
	}
	return list, err
}

func (h *host) setISCSITarget(t hosttest.ISCSITarget) error {
	c := simnode.ISCSITarget{IQN: t.IQN, Portals: []simnode.ISCSIPortal{{Address: t.Address}}}
	for _, size := range t.LUNs {
		c.LUNs = append(c.LUNs, simnode.LUN{Disk: simnode.Disk{Size: simnode.Size(size)}})
	}
	if t.ChapUser != "" {
		c.CHAP = &simnode.CHAP{User: t.ChapUser, Secret: t.ChapSecret, MutualSecret: t.MutualSecret}
	}
	return h.sim.SetISCSITarget(c)
}

func (h *host) setService(s hosttest.Service) error {
	c := simnode.Service{Name: s.Name, DependsOn: s.DependsOn, State: "stopped"}
	if s.Running {
		c.State = "running"
	}
	return h.sim.SetService(c)
}

func (h *host) detach(number uint32) (attach func() (uint32, error), err error) {
	state, err := h.sim.Show()
	if err != nil {
		return nil, err
	}
	for _, d := range state.Disks {
		if d.Number == number {
			return func() (uint32, error) {
				info, err := h.sim.AttachDisk(simnode.Disk{ID: d.ID})
				return info.Number, err
			}, h.sim.DetachDisk(number)
		}
	}
	return nil, fmt.Errorf("no disk %d to take away", number)
}

func (h *host) fail(f hosttest.Fault) (hits func() uint32, err error) {
	active, err := h.sim.Fail(simnode.Fault{Call: f.Call, Code: f.Code, Error: f.Error, Times: f.Times, Delay: f.Delay})
	if err != nil {
		return nil, err
	}
	return active.Hits, nil
}

// serve puts a daemon before the node and pkg/remote before that.
func (h *host) serve(t *testing.T, n *hosttest.Node, workingDirs []string, prefix string) {
	t.Helper()
	dirs, err := policy.ParseDirs(workingDirs)
	if err != nil {
		t.Fatal(err)
	}
	pipes := apiserver.Pipes(wire.Services(wire.Groups{
		Disk: n.Disk, Volume: policy.Volume(n.Volume, dirs), Filesystem: policy.Filesystem(n.Filesystem, dirs),
		SMB: policy.SMB(n.SMB, dirs, policy.SMBRules{}), ISCSI: n.ISCSI, System: policy.System(n.System, allowedServices()),
	}))
	for i := range pipes {
		pipes[i].Name = prefix + pipes[i].Name
	}
	server, err := apiserver.Open(apiserver.Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, pipes...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("the server stopped with %v", err)
		}
	})

	at := remote.WithPipePath(func(group string, version apiversion.Version) string {
		return pipe.Path(prefix + "csi-proxy-" + group + "-" + version.String())
	})
	d, errDisk := remote.NewDisk(t.Context(), at)
	v, errVolume := remote.NewVolume(t.Context(), at)
	f, errFilesystem := remote.NewFilesystem(t.Context(), at)
	s, errSMB := remote.NewSMB(t.Context(), at)
	i, errISCSI := remote.NewISCSI(t.Context(), at)
	y, errSystem := remote.NewSystem(t.Context(), at)
	if err := errors.Join(errDisk, errVolume, errFilesystem, errSMB, errISCSI, errSystem); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), v.Close(), f.Close(), s.Close(), i.Close(), y.Close()); err != nil {
			t.Error(err)
		}
	})
	n.Disk, n.Volume, n.Filesystem = d, v, f
	n.SMB, n.ISCSI, n.System = s, i, y
}
