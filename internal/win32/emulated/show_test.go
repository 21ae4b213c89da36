package emulated

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

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

func TestConfigJSON(t *testing.T) {
	text := `{
		"disks": [
			{"content": "system"},
			{"number": 7, "size": "2GiB", "sectorSize": 4096, "bus": "iscsi", "serial": "s", "offline": true,
			 "identifiers": [{"codeSet": "ascii", "type": 1, "text": "MSFT x"}], "address": {"Port": 1, "Lun": 2},
			 "content": "gpt", "partitions": [{"size": "1GiB", "fileSystem": "NTFS", "letter": "E"}, {}]}
		],
		"volumeArrivalDelay": "150ms", "formatDuration": "2s"
	}`
	var c nodespec.Config
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	ok(t, d.Decode(&c))
	if c.FormatDuration != nodespec.Duration(2*time.Second) || c.Disks[1].Size != 2*gib || c.Disks[1].Address.Lun != 2 {
		t.Errorf("%+v", c)
	}
	b, err := json.Marshal(c)
	ok(t, err)
	var again nodespec.Config
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%v: %+v is not %+v", err, again, c)
	}
	c.VolumeArrivalDelay = 0
	n := start(t, c)
	if d := n.ByNumber(7); d == nil || !d.Offline() || len(d.Table.Partitions) != 3 {
		t.Errorf("disk 7 is %+v", d)
	}
	if err := json.Unmarshal([]byte(`{"formatDuration": 3}`), &c); err == nil {
		t.Error("a duration without a unit was accepted")
	}
}
