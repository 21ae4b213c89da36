package servers

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/pkg/server"
	diskserver "github.com/kubernetes-csi/csi-proxy/pkg/server/disk"
	filesystemserver "github.com/kubernetes-csi/csi-proxy/pkg/server/filesystem"
	smbserver "github.com/kubernetes-csi/csi-proxy/pkg/server/smb"
	volumeserver "github.com/kubernetes-csi/csi-proxy/pkg/server/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/mounter/pipes"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
)

const (
	mib     = 1 << 20
	gib     = 1 << 30
	kubelet = `C:\var\lib\kubelet`
	staging = kubelet + `\plugins\kubernetes.io\csi\example\vol\globalmount`
	target  = kubelet + `\pods\1\volumes\kubernetes.io~csi\vol\mount`
)

// serve serves a node with the published servers, on the pipes of the machine.
func serve(t *testing.T, h host) {
	t.Helper()
	d, err := diskserver.NewServer(disks{h})
	must(t, err)
	v, err := volumeserver.NewServer(volumes{h})
	must(t, err)
	f, err := filesystemserver.NewServer([]string{kubelet}, files{h})
	must(t, err)
	s, err := smbserver.NewServer(shares{h, new(smb.NewSMBGlobalMappingRequest)}, f)
	must(t, err)
	all := server.NewServer(false, d, v, f, s)
	listening, ended := make(chan any), make(chan []error, 1)
	go func() { ended <- all.Start(listening) }()
	select {
	case <-listening:
	case errs := <-ended:
		t.Fatalf("the published servers do not start: %v", errs)
	}
	t.Cleanup(func() {
		must(t, all.Stop())
		<-ended
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What pkg/mounter does with the published servers: each call twice, and what is refused.
func TestMounterWithPublishedServers(t *testing.T) {
	n := simnode.New(t, func(c *simnode.Config) {
		c.Log = slog.New(slog.DiscardHandler)
		c.SMBServers = []simnode.SMBServer{{Name: "files", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "ann-1"}}}}
	})
	// As the existing proxy: nothing is guarded (D32), and all disks are listed.
	p, err := n.NewProcess(rules.Rules{FormatExisting: true, DiskContent: rules.DiskContentUnknown, AllDiskLocations: true})
	must(t, err)
	serve(t, host{n, p})
	attached, err := n.AttachDisk(simnode.Disk{Size: gib, Bus: "nvme", Serial: "vol02190fee5da4d75e3_00000001."})
	must(t, err)
	for _, dir := range []string{staging, path.Dir(strings.ReplaceAll(target, `\`, "/"))} {
		_, err := n.Filesystem().Mkdir(t.Context(), &filesystem.MkdirRequest{Path: dir}) // as the kubelet does
		must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	conn, err := pipes.Open(ctx, []string{"disk", "volume", "filesystem", "smb"})
	must(t, err)
	defer conn.Close()
	var log strings.Builder
	m, err := mounter.New(conn.Node, mounter.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Local: mounter.Local{
		Dirs: func(string) ([]string, error) { return nil, errors.New("the driver does not mount it") },
	}})
	must(t, err)

	can, err := m.Abilities(ctx)
	must(t, err)
	if len(can.Lacks()) != 7 || can.Versions["disk"] != "v1" || can.Builds["disk"] != "" {
		t.Errorf("abilities %+v", can)
	}
	id := mounter.EBS("vol-02190fee5da4d75e3")
	stage := func(f mounter.Format) func() error {
		return func() error {
			d, err := m.FindDisk(ctx, id)
			if err == nil {
				_, err = m.StageDisk(ctx, d, staging, mounter.StageOptions{Format: f})
			}
			return err
		}
	}
	share := mounter.Share{Remote: `\\files\data`, User: "ann", Password: "ann-1"}
	publish := func() error { return m.Publish(ctx, staging, target) }
	expand := func(size int64) func() error {
		return func() error {
			_, err := m.Expand(ctx, target, size)
			return err
		}
	}
	grow := func(size simnode.Size) func() error {
		return func() error { return n.GrowDisk(attached.Number, size) }
	}
	for _, step := range []struct {
		name string
		do   func() error
		kind error // nil: it works, also when it is repeated
	}{
		{"find a disk by a LUN alone", func() error { _, err := m.FindDisk(ctx, mounter.AzureLUN(0)); return err }, hosterr.ErrUnimplemented},
		{"stage a blank disk", stage(mounter.IfBlank), hosterr.ErrUnimplemented},
		{"publish what is not staged", publish, hosterr.ErrFailedPrecondition},
		{"stage a blank disk, by name", stage(mounter.IfProxySaysUnformatted), nil},
		{"stage a formatted disk", stage(mounter.IfBlank), nil},
		{"publish", publish, nil},
		{"stats", func() error { _, _, _, err := m.Stats(ctx, target); return err }, nil},
		{"expand what the storage system has not grown", expand(2 * gib), hosterr.ErrOutOfRange},
		{"expand by 1 GiB", func() error { return errors.Join(grow(2*gib)(), expand(2*gib)()) }, nil},
		{"expand by 64 MiB", func() error { return errors.Join(grow(2*gib+64*mib)(), expand(2*gib+64*mib)()) }, hosterr.ErrFailedPrecondition},
		{"unpublish", func() error { return m.Unpublish(ctx, target) }, nil},
		{"unstage, and take the disk offline", func() error { return m.UnstageDisk(ctx, staging, mounter.UnstageOptions{Offline: &id}) }, nil},
		{"stage a share", func() error { return m.StageShare(ctx, share, staging) }, nil},
		{"publish a share", publish, nil},
		{"unpublish a share", func() error { return m.Unpublish(ctx, target) }, nil},
		{"unstage a share", func() error { return m.UnstageShare(ctx, staging, share.Remote) }, nil},
	} {
		times := 2
		if step.kind != nil || strings.HasPrefix(step.name, "expand by 1") {
			times = 1 // a disk grows once
		}
		for range times {
			err := step.do()
			t.Logf("%s: %v", step.name, err)
			if step.kind == nil && err != nil || step.kind != nil && !errors.Is(err, step.kind) {
				t.Errorf("%s: %v, want %v", step.name, err, step.kind)
			}
		}
	}
	s, err := n.Show()
	must(t, err)
	if len(s.Mounts) > 0 || len(s.OpenHandles) > 0 {
		t.Errorf("left on the node: mounts %v, handles %v", s.Mounts, s.OpenHandles)
	}
	// The driver cannot see the links, so the mapping stays, and that is logged.
	if len(s.SMBMappings) != 1 || !strings.Contains(log.String(), "Keeping an SMB mapping") || !strings.Contains(log.String(), "Taking a link as it is") {
		t.Errorf("mappings %v, log %s", s.SMBMappings, log.String())
	}
	for _, d := range s.Disks {
		if d.Number == attached.Number && d.Online {
			t.Error("the disk is online after it was unstaged")
		}
	}
}
