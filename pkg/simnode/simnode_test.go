package simnode_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

func open(t *testing.T, config simnode.Config) *simnode.Node {
	t.Helper()
	return simnode.New(t, func(c *simnode.Config) { *c = config })
}

func show(t *testing.T, n *simnode.Node) simnode.State {
	t.Helper()
	state, err := n.Show()
	must(t, err)
	return state
}

func TestDefaultNodeDisks(t *testing.T) {
	state := show(t, open(t, simnode.Config{}))
	if len(state.Disks) != 3 || !state.Disks[0].System || state.Disks[1].Style != "RAW" || state.Disks[2].Style != "RAW" {
		t.Errorf("disks = %+v", state.Disks)
	}
	mounted := slices.ContainsFunc(state.Volumes, func(v simnode.VolumeInfo) bool {
		return v.FileSystem == "NTFS" && slices.Contains(v.MountedAt, `C:\`)
	})
	if !mounted {
		t.Errorf("volumes = %+v, want C: among them", state.Volumes)
	}
}

func TestAttachDisk(t *testing.T) {
	n := open(t, simnode.Config{})
	d, err := n.AttachDisk(simnode.Disk{Size: 1 << 30, Serial: "VOL1", Identifiers: []simnode.Identifier{{CodeSet: "ascii", Text: "vol-1"}}})
	if err != nil || !d.Waiting {
		t.Fatalf("attached %+v, %v, want a disk that waits", d, err)
	}
	must(t, n.AwaitDisk(d.Number))
	if d = show(t, n).Disks[d.Number]; d.Serial != "VOL1" || d.Page83 != "vol-1" || d.Size != 1<<30 || d.SectorSize != 512 {
		t.Errorf("attached %+v", d)
	}
	ids, err := n.Disk().ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
	if err != nil || ids.DiskIDs[d.Number] == nil || ids.DiskIDs[d.Number].Page83 != "vol-1" {
		t.Errorf("ListDiskIDs = %v, %v, want disk %d with its identifier", ids, err, d.Number)
	}
}

func TestInvalidControls(t *testing.T) {
	n := open(t, simnode.Config{})
	_, attachSize := n.AttachDisk(simnode.Disk{Size: 1})
	_, attachSector := n.AttachDisk(simnode.Disk{Size: 1 << 30, SectorSize: 1000})
	for _, c := range []struct {
		name string
		err  error
		kind error
		want string
	}{
		{"a disk too small", attachSize, hosterr.ErrInvalid, "1 bytes"},
		{"a sector size that no disk has", attachSector, hosterr.ErrInvalid, "1000"},
		{"detach a disk that is not there", n.DetachDisk(9), hosterr.ErrNotFound, "disk 9"},
		{"detach the system disk", n.DetachDisk(0), hosterr.ErrInvalid, "disk 0"},
		{"grow a disk that is not there", n.GrowDisk(9, 1<<40), hosterr.ErrNotFound, "disk 9"},
		{"shrink", n.GrowDisk(1, 1<<20), hosterr.ErrInvalid, "disk 1"},
	} {
		if !errors.Is(c.err, c.kind) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %v with %q", c.name, c.err, c.kind, c.want)
		}
	}
}

func TestVolumeIsKeptInStateDir(t *testing.T) {
	config := simnode.Config{StateDir: t.TempDir()}
	n := open(t, config)
	id := prepare(t, n)
	if _, err := simnode.Open(config); err == nil || !strings.Contains(err.Error(), strconv.Quote(config.StateDir)) {
		t.Errorf("second Open of a state directory = %v, want that it is in use", err)
	}
	must(t, n.Close())

	again := open(t, config)
	got, err := again.Volume().GetVolumeIDFromTargetPath(t.Context(), &volume.GetVolumeIDFromTargetPathRequest{TargetPath: data})
	if err != nil || got.VolumeID != id {
		t.Errorf("after reopening, %s holds %v, %v, want %s", data, got, err, id)
	}
	must(t, again.Reboot())
	if f, err := again.Volume().IsVolumeFormatted(t.Context(), &volume.IsVolumeFormattedRequest{VolumeID: id}); err != nil || !f.Formatted {
		t.Errorf("after a reboot: formatted %v, %v, want true", f, err)
	}
}

func TestNodePrintsNoSecrets(t *testing.T) {
	const secret = "seldomSeenText"
	n := simnode.New(t, func(c *simnode.Config) {
		c.SMBServers = []simnode.SMBServer{{Name: "nas", Accounts: []simnode.SMBAccount{{User: "u", Password: secret}}}}
		c.ISCSI.Targets = []simnode.ISCSITarget{{IQN: "iqn.2000-01.com.example:t", Portals: []simnode.ISCSIPortal{{Address: "192.0.2.1"}},
			CHAP: &simnode.CHAP{User: "u", Secret: secret}}}
	})
	for _, verb := range []string{"%v", "%+v", "%s", "%q"} {
		if got := fmt.Sprintf(verb, n); strings.Contains(got, secret) {
			t.Errorf("%s prints a secret: %s", verb, got)
		}
	}
}
