package main

import (
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// What is said about an offline disk 2 for each reason that Windows reports, alone and beside
// a disk 1 with the same identity. A second path to a device also has the same identity, and
// must not go online.
func TestWhyOffline(t *testing.T) {
	const twin, online = "it has the same identity as disk 1, so one is a copy of the other", "SetDiskState disk_number=2 is_online=true"
	for _, c := range []struct{ reason, alone, beside, remedy string }{
		{"", "unknown; often it is the SAN policy of the node, or an administrator took it offline", "it has the same identity as disk 1, so it is a copy of that disk, or another path to it", online},
		{"None", "Windows reports no reason", twin, online},
		{"Policy", "by the SAN policy of the node, or because an administrator took it offline; Windows reports Policy for both", twin, "Get-StorageSetting"},
		{"Snapshot", "it is a snapshot of another disk, so one is a copy of the other", twin, online},
		{"Collision", "it has the identity of another disk, so one is a copy of the other", twin, "Set-Disk -Number 2 -IsReadOnly $false; csi-proxyctl"},
		{"Redundant Path", "it is another path to a device that is online, and MPIO does not manage it", "", "mpclaim.exe -s -d"},
		{"Resource Exhaustion", "Windows had not enough resources to bring it online", "", "free space"},
		{"Critical Write Failures", "there were critical write failures on it", "", "Get-WinEvent"},
		{"Data Integrity Scan Required", "it requires a data integrity scan", "", "Start-ScheduledTask"},
		{"Lost Data Persistence", "Windows reports Lost Data Persistence", "", online},
		{"reason\x1b9", "Windows reports reason\\x1b9", "", online},
	} {
		d := &admin.Disk{Number: 2, Identity: "0x1234", OfflineReason: c.reason, ReadOnly: c.reason == "Collision"}
		other := &admin.Disk{Number: 1, Identity: "0x1234", Online: true}
		is := diskTrouble(&admin.DescribeResponse{Disks: []*admin.Disk{d}}, d, "disk 2")
		if want := "disk 2 is offline: " + c.alone; is.cause != want || !strings.Contains("; "+is.remedy, c.remedy) {
			t.Errorf("%q: %q, remedy %q, want %q and %q", c.reason, is.cause, is.remedy, want, c.remedy)
		}
		if c.beside == "" {
			c.beside = c.alone
		}
		is = diskTrouble(&admin.DescribeResponse{Disks: []*admin.Disk{other, d}}, d, "disk 2")
		if want := "disk 2 is offline: " + c.beside; is.cause != want || is.remedy == "" {
			t.Errorf("%q beside its twin: %q, remedy %q, want %q", c.reason, is.cause, is.remedy, want)
		}
		if got := offlineReason(d, nil); !strings.HasPrefix(c.alone, got) || got == "" {
			t.Errorf("%q in the list: %q, want the beginning of %q", c.reason, got, c.alone)
		}
		if c.reason == redundantPath {
			if strings.Contains(is.remedy, "is_online=true") {
				t.Errorf("%q: the remedy brings it online: %q", c.reason, is.remedy)
			}
			expectFindings(t, examineDisks(&admin.DescribeResponse{Disks: []*admin.Disk{other, d}}, nil), "problem another path")
		}
	}
	if got := offlineReason(&admin.Disk{Online: true, OfflineReason: "Policy"}, nil); got != "" {
		t.Errorf("a disk that is online: %q", got)
	}
}
