package storage

import "fmt"

// BusName returns the name that Get-Disk has for a STORAGE_BUS_TYPE of ntddstor.h.
func BusName(bus uint32) string {
	names := []string{"Unknown", "SCSI", "ATAPI", "ATA", "1394", "SSA", "Fibre Channel", "USB", "RAID", "iSCSI", "SAS", "SATA", "SD", "MMC",
		"Virtual", "File Backed Virtual", "Spaces", "NVMe", "SCM", "UFS"}
	if bus < uint32(len(names)) {
		return names[bus]
	}
	return fmt.Sprintf("bus %d", bus)
}

// OfflineReasonName returns the name that Get-Disk has for an OfflineReason of MSFT_Disk.
func OfflineReasonName(reason uint16) string {
	names := []string{"None", "Policy", "Redundant Path", "Snapshot", "Collision", "Resource Exhaustion", "Critical Write Failures", "Data Integrity Scan Required",
		"Lost Data Persistence"} // the last one is of VDS
	if int(reason) < len(names) {
		return names[reason]
	}
	return fmt.Sprintf("reason %d", reason)
}
