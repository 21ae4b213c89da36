package driver_test

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"

	"example.com/csi-driver/driver"
)

// A disk that is detached by force before its volume is unstaged leaves nothing that keeps the
// path from being removed or used again. Where DeleteVolumeMountPoint refuses the mount point of
// a volume that is gone, UnmountVolume removes it like a link, and Windows' mount manager keeps
// its record: no other step leaves one. The record ends when the volume is unstaged again.
func TestUnstageWithoutDisk(t *testing.T) {
	for world, records := range map[string]int{nodespec.WorldKind: 0, nodespec.WorldStrict: 1} {
		for _, inProcess := range []bool{false, true} {
			s := setup{kind: driver.KindDisk, findBy: driver.SerialNumber, inProcess: inProcess, world: world}
			t.Run(s.String()+", "+world, func(t *testing.T) { unstageWithoutDisk(t, s, records) })
		}
	}
}

func unstageWithoutDisk(t *testing.T, s setup, records int) {
	const staging = pluginDir + `\a`
	e := start(t, s, klog.Logger{})
	node := csi.NewNodeClient(e.connect())
	state := func() simnode.State {
		t.Helper()
		state, err := e.show()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	stage := func() {
		t.Helper()
		if err := e.mkdir(staging); err != nil {
			t.Fatal(err)
		}
		if _, err := node.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
			VolumeId: driver.DiskID("a"), StagingTargetPath: staging, VolumeCapability: capability(), PublishContext: map[string]string{driver.SerialNumber: "a"},
		}); err != nil {
			t.Fatalf("stage: %v", err)
		}
	}
	unstage := func() {
		t.Helper()
		for range 2 {
			if _, err := node.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: driver.DiskID("a"), StagingTargetPath: staging}); err != nil {
				t.Errorf("unstage: %v", err)
			}
		}
	}

	d, err := e.node.AttachDisk(simnode.Disk{Size: gib, Serial: "a"})
	if err != nil {
		t.Fatal(err)
	}
	stage()
	if err := e.node.DetachDisk(d.Number); err != nil {
		t.Fatal(err)
	}
	unstage()
	now := state()
	if len(now.Mounts) != records {
		t.Errorf("after unstage without the disk the mount manager has the records %+v, want %d", now.Mounts, records)
	}
	for _, m := range now.Mounts {
		if slices.ContainsFunc(now.Volumes, func(v simnode.VolumeInfo) bool { return v.ID == m.Volume }) {
			t.Errorf("the record %+v is of a volume that is there", m)
		}
	}
	if err := e.rmdir(staging); err != nil {
		t.Errorf("remove the staging path: %v", err)
	}

	back, err := e.node.AttachDisk(simnode.Disk{ID: d.ID})
	if err != nil {
		t.Fatal(err)
	}
	stage()
	unstage()
	if now := state(); len(now.Mounts) > 0 {
		t.Errorf("after the volume was staged and unstaged again the mount manager has the records %+v", now.Mounts)
	}
	if err := e.rmdir(staging); err != nil {
		t.Errorf("remove the staging path: %v", err)
	}
	if err := e.node.DetachDisk(back.Number); err != nil {
		t.Fatal(err)
	}
}
