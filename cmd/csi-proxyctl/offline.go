package main

import (
	"fmt"
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/admin"
)

// offlineReason returns why a disk is offline, if it is known.
func offlineReason(d *admin.Disk, all []*admin.Disk) string {
	if d.Online {
		return ""
	}
	return whyOffline(d, all).reason
}

// redundantPath is the reason for a second path to a device, so both disks have one identity.
const redundantPath = "Redundant Path"

// offline is why a disk is offline, and what to do.
type offline struct{ reason, more, remedy string }

// whyOffline explains a disk that is offline.
func whyOffline(d *admin.Disk, all []*admin.Disk) offline {
	if d.Clustered {
		return offline{"a failover cluster manages it", "", "let the cluster bring it online on this node"}
	}
	online := fmt.Sprintf("csi-proxyctl call disk/v1 SetDiskState disk_number=%d is_online=true", d.Number)
	switch d.OfflineReason {
	case "", "None", "Policy", "Snapshot", "Collision": // which do not say of which disk it is a copy
		twin := slices.IndexFunc(all, func(o *admin.Disk) bool {
			return o.Number != d.Number && o.Online && d.Identity != "" && o.Identity == d.Identity
		})
		if twin >= 0 && d.OfflineReason == "" { // it may be another path to the same device
			return offline{fmt.Sprintf("it has the same identity as disk %d", all[twin].Number), ", so it is a copy of that disk, or another path to it",
				fmt.Sprintf("run on the node: Get-Disk -Number %d | Select-Object OfflineReason; if that is Redundant Path, do not bring it online; otherwise detach this disk if no pod needs it, or run: ", d.Number) + online}
		}
		if twin >= 0 {
			return isCopy(d, fmt.Sprintf("it has the same identity as disk %d", all[twin].Number), online)
		}
	}
	return whyByWindows(d, online)
}

// whyByWindows explains the reason that Windows reports, by its name (docs/develop/contract/disks.md,
// why a disk is offline). online is the command that brings the disk online.
func whyByWindows(d *admin.Disk, online string) offline {
	look := fmt.Sprintf("; csi-proxyctl disk clear %d --dry-run shows what is on it, if a driver refuses it", d.Number)
	switch d.OfflineReason {
	case "": // WMI did not answer, csi-proxy is an older one, or its pipe of administrators is not served
		return offline{"unknown", "; often it is the SAN policy of the node, or an administrator took it offline",
			online + look + fmt.Sprintf("; Get-Disk -Number %d | Select-Object OfflineReason on the node shows what Windows reports", d.Number)}
	case "None":
		return offline{"Windows reports no reason", "", online + look}
	case "Policy":
		return offline{"by the SAN policy of the node, or because an administrator took it offline", "; Windows reports Policy for both",
			online + look + "; Get-StorageSetting on the node shows the SAN policy"}
	case "Snapshot":
		return isCopy(d, "it is a snapshot of another disk", online)
	case "Collision":
		return isCopy(d, "it has the identity of another disk", online)
	case redundantPath:
		return offline{"it is another path to a device that is online, and MPIO does not manage it", "",
			"do not bring it online; mpclaim.exe -s -d on the node shows the disks of MPIO: let it manage this device, or detach one path"}
	case "Resource Exhaustion":
		return offline{"Windows had not enough resources to bring it online", "", "free space in the pool or array that it comes from; then run: " + online}
	case "Critical Write Failures":
		return offline{"there were critical write failures on it", "",
			"check the storage and its errors, with Get-WinEvent -MaxEvents 50 -FilterHashtable @{LogName='System'; Level=1,2,3} on the node; then run: " + online}
	case "Data Integrity Scan Required":
		return offline{"it requires a data integrity scan", "",
			"run on the node: Get-ScheduledTask -TaskName 'Data Integrity Scan for Crash Recovery' | Start-ScheduledTask; when it is done, run: " + online}
	}
	return offline{"Windows reports " + printable(d.OfflineReason), "", "check the storage and the System event log; then run: " + online}
}

// isCopy explains a disk that is a copy of another one.
func isCopy(d *admin.Disk, reason, online string) offline {
	if d.ReadOnly { // Windows cannot write the new identity
		online = fmt.Sprintf("Set-Disk -Number %d -IsReadOnly $false; ", d.Number) + online
	}
	return offline{reason, ", so one is a copy of the other", "detach this disk if no pod needs it; or run: " + online + "; Windows then gives it an identity of its own"}
}
