package wmi

import (
	"math"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

const (
	diskClass         = "MSFT_Disk"
	diskNumber        = "Number"
	diskOfflineReason = "OfflineReason"
)

// offlineReasonsQuery finds why disks are offline. One query is for all of them: each makes the
// storage provider look at all disks.
// https://learn.microsoft.com/windows-hardware/drivers/storage/msft-disk
func offlineReasonsQuery() query {
	return query{class: diskClass, only: []string{diskNumber, diskOfflineReason}}
}

// offlineReasonsOf returns the reasons from the disks that WMI lists, by the number of the disk.
// A reason is null for a disk that is online (Get-Disk prints nothing then), which is the number
// 0 of VDS. A disk without a number, and disks that have the same one, are left out.
func offlineReasonsOf(rows []row) (map[uint32]uint16, error) {
	reasons, seen := map[uint32]uint16{}, map[uint32]bool{}
	for _, r := range rows {
		if r.null(diskNumber) {
			continue
		}
		number, err := r.uint32(diskNumber)
		if err != nil {
			return nil, err
		}
		if seen[number] {
			delete(reasons, number)
			continue
		}
		seen[number] = true
		reason := uint32(win32.VDSDiskOfflineReasonNone)
		if !r.null(diskOfflineReason) {
			if reason, err = r.uint32(diskOfflineReason); err != nil {
				return nil, err
			}
		}
		if reason > math.MaxUint16 {
			return nil, r.wrong(diskOfflineReason, "is %d, which is not a 16-bit number", reason)
		}
		reasons[number] = uint16(reason)
	}
	return reasons, nil
}
