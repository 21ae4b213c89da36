package driver_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/klog/v2"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"

	"example.com/csi-driver/driver"
)

// By Windows' SAN policy disks may arrive offline and read-only. The driver takes them
// online, which makes them writable as well.
func TestOfflineDisk(t *testing.T) {
	yes := true
	blank := simnode.Disk{Size: gib, Serial: "a", Offline: &yes, ReadOnly: &yes}
	data := blank
	data.Content, data.Partitions = nodespec.ContentGPTNoMSR, []simnode.Partition{{FileSystem: "NTFS"}}
	for _, c := range []struct {
		name  string
		setup setup
		disk  simnode.Disk
	}{
		{"blank, sockets", setup{kind: driver.KindDisk}, blank},
		{"blank, in process", setup{kind: driver.KindDisk, inProcess: true}, blank},
		{"data, sockets", setup{kind: driver.KindDisk}, data},
		{"data, in process", setup{kind: driver.KindDisk, inProcess: true}, data},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := start(t, c.setup, klog.Logger{})
			d, err := e.node.AttachDisk(c.disk)
			if err != nil {
				t.Fatal(err)
			}
			_, err = csi.NewNodeClient(e.connect()).NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
				VolumeId: driver.DiskID("a"), StagingTargetPath: kubelet + `\a`, VolumeCapability: capability(),
				PublishContext: map[string]string{driver.SerialNumber: "a"},
			})
			if err != nil {
				t.Fatalf("stage: %v", err)
			}
			state, err := e.node.Show()
			if err != nil {
				t.Fatal(err)
			}
			if got := state.Disks[d.Number]; !got.Online || got.ReadOnly {
				t.Errorf("after stage the disk is online: %t, read-only: %t, want true, false", got.Online, got.ReadOnly)
			}
		})
	}
}
