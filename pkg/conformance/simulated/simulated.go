// Package simulated provides simulated nodes to the tests of package conformance.
// It uses public packages only, so it also shows how to test your own node:
//
//	func TestInProcess(t *testing.T)    { conformance.RunConcurrently(t, simulated.InProcess) }
//	func TestThroughPipes(t *testing.T) { conformance.RunConcurrently(t, simulated.ThroughPipes) }
package simulated

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

const (
	workingDir = `C:\var\lib\kubelet`
	caseDir    = workingDir + `\plugins\contract`
)

// InProcess returns a node as a driver sees it that uses the Go library.
func InProcess(t *testing.T, setup conformance.Setup) *conformance.Node {
	t.Helper()
	h := newHost(t, setup)
	n := h.node()
	n.Disk, n.Volume, n.Filesystem = h.sim.Disk(), h.sim.Volume(), h.sim.Filesystem()
	n.SMB, n.ISCSI, n.System = h.sim.SMB(), h.sim.ISCSI(), h.sim.System()
	return n
}

// ThroughPipes returns a node as a driver sees it through the daemon: pipe or
// socket, server, policy, conversion between versions, services. The client is
// package remote.
func ThroughPipes(t *testing.T, setup conformance.Setup) *conformance.Node {
	t.Helper()
	h := newHost(t, setup)
	n := h.node()
	n.Confined = true
	s := serve.Start(t, h.sim, func(c *serve.Config) {
		c.WorkingDirs = []string{`E:\`, workingDir} // the cases about drive letters use E:
		c.AllowedServices = []string{"MSiSCSI", "contract-base", "contract-left", "contract-right", "contract-top"}
	})
	at := remote.WithPipePath(s.PipePath)
	d, errDisk := remote.NewDisk(t.Context(), at)
	v, errVolume := remote.NewVolume(t.Context(), at)
	f, errFilesystem := remote.NewFilesystem(t.Context(), at)
	m, errSMB := remote.NewSMB(t.Context(), at)
	i, errISCSI := remote.NewISCSI(t.Context(), at)
	y, errSystem := remote.NewSystem(t.Context(), at)
	if err := errors.Join(errDisk, errVolume, errFilesystem, errSMB, errISCSI, errSystem); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), v.Close(), f.Close(), m.Close(), i.Close(), y.Close()); err != nil {
			t.Error(err)
		}
	})
	n.Disk, n.Volume, n.Filesystem = d, v, f
	n.SMB, n.ISCSI, n.System = m, i, y
	return n
}

// host is a simulated node under test.
type host struct{ sim *simnode.Node }

func newHost(t *testing.T, setup conformance.Setup) *host {
	t.Helper()
	return &host{sim: simnode.New(t, func(c *simnode.Config) {
		c.Disks = []simnode.Disk{{Content: "system"}}
		c.Directories = []string{caseDir}
		c.World, c.Windows = setup.World, setup.Windows
		c.VolumeArrivalDelay = simnode.Duration(setup.ArrivalDelay)
		if setup.Spanned {
			c.Disks = append(c.Disks, simnode.Disk{Size: 1 << 30, Content: "gpt"}, simnode.Disk{Size: 1 << 30, Content: "gpt"})
			c.SpannedVolumes = []simnode.SpannedVolume{{Extents: []simnode.Extent{{Disk: 1, Offset: 64 << 20, Length: 100 << 20}, {Disk: 2, Offset: 64 << 20, Length: 200 << 20}}}}
		}
	})}
}

// node returns the functions with which cases change the host.
func (h *host) node() *conformance.Node {
	n := h.sim
	return &conformance.Node{
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
		SetISCSITarget: n.SetISCSITarget,
		SetService:     n.SetService,

		Fail:        h.fail,
		Heal:        n.ClearFaults,
		OpenHandles: func() ([]string, error) { s, err := n.Show(); return s.OpenHandles, err },
	}
}

func (h *host) attach(d conformance.Disk) (uint32, error) {
	info, err := h.sim.AttachDisk(d)
	return info.Number, err
}

func (h *host) addSMBServer(s conformance.SMBServer) error {
	if err := h.sim.AddSMBServer(s); err != nil {
		return err
	}
	for _, share := range s.Shares {
		if err := h.sim.AddShareDirectory(s.Name, share, `inside\inside`); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) smbMappings() ([]conformance.SMBMapping, error) {
	state, err := h.sim.Show()
	return state.SMBMappings, err
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
	return nil, fmt.Errorf("detach disk %d: not found", number)
}

func (h *host) fail(f conformance.Fault) (hits func() uint32, err error) {
	active, err := h.sim.Fail(f)
	if err != nil {
		return nil, err
	}
	return active.Hits, nil
}
