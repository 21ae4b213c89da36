package wmi

import (
	"fmt"
	"math"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

const (
	diskClass         = "MSFT_Disk"
	diskOfflineReason = "OfflineReason"
)

// offlineReasonQuery finds why a disk is offline.
// https://learn.microsoft.com/windows-hardware/drivers/storage/msft-disk
func offlineReasonQuery(number uint32) query {
	return query{class: diskClass, only: []string{diskOfflineReason}, where: []condition{{"Number", number}}}
}

// offlineReasonOf returns the reason from the disks that have a number. It is null for a disk
// that is online (Get-Disk prints nothing then), which is the number 0 of VDS.
func offlineReasonOf(rows []row, number uint32) (uint16, error) {
	switch {
	case len(rows) == 0:
		return 0, fmt.Errorf("WMI has no disk %d: %w", number, win32.ERROR_NOT_FOUND)
	case len(rows) > 1:
		return 0, fmt.Errorf("WMI has %d disks %d: %w", len(rows), number, win32.ERROR_GEN_FAILURE)
	case rows[0].null(diskOfflineReason):
		return win32.VDSDiskOfflineReasonNone, nil
	}
	reason, err := rows[0].uint32(diskOfflineReason)
	if err == nil && reason > math.MaxUint16 {
		err = rows[0].wrong(diskOfflineReason, "is %d, which is not a 16-bit number", reason)
	}
	return uint16(reason), err
}
