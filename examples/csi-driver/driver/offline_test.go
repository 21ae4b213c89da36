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
// online. No version of the API through pipes can make a disk writable, except that
// PartitionDisk does it for a disk without a table. So through pipes a volume with data
// stays read-only, as with the published proxy.
func TestOfflineDisk(t *testing.T) {
	yes := true
	blank := simnode.Disk{Size: gib, Serial: "a", Offline: &yes, ReadOnly: &yes}
	data := blank
	data.Content, data.Partitions = nodespec.ContentGPTNoMSR, []simnode.Partition{{FileSystem: "NTFS"}}
	for _, c := range []struct {
		name     string
		setup    setup
		disk     simnode.Disk
		readOnly bool // at the end
	}{
		{"blank, sockets", setup{kind: driver.KindDisk}, blank, false},
		{"blank, in process", setup{kind: driver.KindDisk, inProcess: true}, blank, false},
		{"data, sockets", setup{kind: driver.KindDisk}, data, true},
		{"data, in process", setup{kind: driver.KindDisk, inProcess: true}, data, false},
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
			if got := state.Disks[d.Number]; !got.Online || got.ReadOnly != c.readOnly {
				t.Errorf("after stage the disk is online: %t, read-only: %t, want true, %t", got.Online, got.ReadOnly, c.readOnly)
			}
		})
	}
}
