package wmi

import (
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// StorageNamespace is the namespace of MSFT_Volume and MSFT_Disk.
const StorageNamespace = `root\Microsoft\Windows\Storage`

const volumeClass = "MSFT_Volume"

// volumeQuery finds a volume by its name. UniqueId is the name, with its final
// backslash; the key, ObjectId, is the storage provider's own.
func volumeQuery(vol string) query {
	return query{class: volumeClass, where: []condition{{"UniqueId", vol}}}
}

// unknownVolume is the error about a volume that the storage provider does not list. It may
// just have arrived. The provider lists no volumes at all if its service, smphost, is
// disabled (AutomatedLab issue 1067); no query fails then. others says whether it lists any.
func unknownVolume(vol string, others bool) error {
	if !others {
		return fmt.Errorf("WMI lists no volumes, as if the service smphost was disabled: %w", win32.ERROR_SERVICE_DISABLED)
	}
	return fmt.Errorf("WMI has no volume %q: %w", vol, win32.ERROR_NOT_READY)
}

// checkVolume refuses a result that is not exactly the volume in question.
func checkVolume(rows []row, vol string) error {
	if len(rows) > 1 {
		return fmt.Errorf("WMI has %d volumes %q: %w", len(rows), vol, win32.ERROR_GEN_FAILURE)
	}
	id, err := rows[0].text("UniqueId")
	if err == nil && !strings.EqualFold(id, vol) {
		err = fmt.Errorf("WMI returned the volume %[2]q instead of %[1]q: %[3]w", vol, id, win32.ERROR_GEN_FAILURE)
	}
	return err
}

// parameter is an argument of a method: a string, bool or uint32.
type parameter struct {
	name  string
	value any
}

// formatParameters returns the arguments of MSFT_Volume.Format. Those left out
// are null, for which Windows chooses.
// https://learn.microsoft.com/windows-hardware/drivers/storage/format-msft-volume
func formatParameters(o win32.FormatOptions) []parameter {
	p := []parameter{{"FileSystem", "NTFS"}, {"FileSystemLabel", ""}, {"Full", false}, {"Force", true}}
	if o.ClusterSize != 0 {
		p = append(p, parameter{"AllocationUnitSize", o.ClusterSize})
	}
	return p
}

// storageReturns has the meaning of return values of the Storage Management API: those from the
// page of MSFT_Volume.Format, and those that all its methods share.
var storageReturns = []struct {
	code  uint32
	says  string
	errno win32.Errno
}{
	{1, "not supported", win32.ERROR_NOT_SUPPORTED},
	{2, "unspecified error", win32.ERROR_GEN_FAILURE},
	{3, "timeout", win32.ERROR_TIMEOUT},
	{4, "failed", win32.ERROR_GEN_FAILURE},
	{5, "invalid parameter", win32.ERROR_INVALID_PARAMETER},
	{6, "in use", win32.ERROR_BUSY},
	{7, "not supported for a 32-bit program", win32.ERROR_NOT_SUPPORTED},
	{40001, "access denied", win32.ERROR_ACCESS_DENIED},
	{40002, "not enough resources", win32.ERROR_NO_SYSTEM_RESOURCES},
	{40003, "the provider's cache is out of date", win32.ERROR_NOT_READY},
	{40004, "unexpected I/O error", win32.ERROR_IO_DEVICE},
	{40018, "managed by failover clustering", win32.ERROR_NOT_SUPPORTED},
	{42010, "system or critical partition", win32.ERROR_ACCESS_DENIED},
	{43000, "invalid cluster size", win32.ERROR_INVALID_PARAMETER},
	{43001, "file system not supported", win32.ERROR_NOT_SUPPORTED},
	{43002, "cannot be quick formatted", win32.ERROR_NOT_SUPPORTED},
	{43003, "too many clusters for 32 bits", win32.ERROR_INVALID_PARAMETER},
	{43004, "UDF version not supported", win32.ERROR_NOT_SUPPORTED},
	{43005, "cluster size is not a multiple of the physical sector size", win32.ERROR_INVALID_PARAMETER},
	{43006, "read-only", win32.ERROR_WRITE_PROTECT},
}

// storageResult returns the error of a method of the Storage Management API.
func storageResult(out row) error {
	code, err := out.uint32("ReturnValue")
	if err != nil || code == 0 {
		return err
	}
	says, errno := "an undocumented value", win32.ERROR_GEN_FAILURE
	for _, row := range storageReturns {
		if row.code == code {
			says, errno = row.says, row.errno
		}
	}
	return fmt.Errorf("%s returned %d (%s): %w", out.of, code, says, errno)
}
