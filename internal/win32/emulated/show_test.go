package emulated

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestShow(t *testing.T) {
	n := start(t, nodespec.Config{})
	ok(t, n.SetMountPoint(`C:\var\lib\kubelet\pods\`, one2(t, n)))
	info, err := n.Show()
	ok(t, err)
	b, err := json.Marshal(info)
	ok(t, err)
	var again nodespec.State
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, info) {
		t.Errorf("Show is not the same after JSON: %v\n%s", err, b)
	}
	if len(info.Disks) != 3 || !info.Disks[0].System || info.Disks[0].Style != "GPT" || len(info.Disks[0].Partitions) != 3 || info.Disks[1].Style != "RAW" {
		t.Errorf("disks %+v", info.Disks)
	}
	if len(info.Volumes) != 3 || info.Volumes[0].FileSystem != "FAT32" || info.Volumes[1].FileSystem != "NTFS" || info.Volumes[1].MountedAt[0] != `C:\` || info.Volumes[2].MountedAt[0] != `C:\var\lib\kubelet\pods\` {
		t.Errorf("volumes %+v", info.Volumes)
	}
	if len(info.Mounts) != 1 || info.Mounts[0].Host != info.Volumes[1].ID || info.Mounts[0].Volume != info.Volumes[2].ID || info.Mounts[0].Path != `\var\lib\kubelet\pods` {
		t.Errorf("mounts %+v", info.Mounts)
	}
}
