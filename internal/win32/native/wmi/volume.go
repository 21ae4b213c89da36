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

// storageResult returns the error of a method of the Storage Management API.
func storageResult(out row) error {
	code, err := out.uint32("ReturnValue")
	if err != nil || code == 0 {
		return err
	}
	says, errno := storageReturn(code)
	return fmt.Errorf("%s returned %d (%s): %w", out.of, code, says, errno)
}

// storageReturn returns the meaning of a return value of the Storage Management
// API: one from the page of MSFT_Volume.Format, or one that all its methods
// share.
func storageReturn(code uint32) (says string, errno win32.Errno) {
	switch code {
	case 1:
		return "not supported", win32.ERROR_NOT_SUPPORTED
	case 2:
		return "unspecified error", win32.ERROR_GEN_FAILURE
	case 3:
		return "timeout", win32.ERROR_TIMEOUT
	case 4:
		return "failed", win32.ERROR_GEN_FAILURE
	case 5:
		return "invalid parameter", win32.ERROR_INVALID_PARAMETER
	case 6:
		return "in use", win32.ERROR_BUSY
	case 7:
		return "not supported for a 32-bit program", win32.ERROR_NOT_SUPPORTED
	case 40001:
		return "access denied", win32.ERROR_ACCESS_DENIED
	case 40002:
		return "not enough resources", win32.ERROR_NO_SYSTEM_RESOURCES
	case 40003:
		return "the provider's cache is out of date", win32.ERROR_NOT_READY
	case 40004:
		return "unexpected I/O error", win32.ERROR_IO_DEVICE
	case 40018:
		return "managed by failover clustering", win32.ERROR_NOT_SUPPORTED
	case 42010:
		return "system or critical partition", win32.ERROR_ACCESS_DENIED
	case 43000:
		return "invalid cluster size", win32.ERROR_INVALID_PARAMETER
	case 43001:
		return "file system not supported", win32.ERROR_NOT_SUPPORTED
	case 43002:
		return "cannot be quick formatted", win32.ERROR_NOT_SUPPORTED
	case 43003:
		return "too many clusters for 32 bits", win32.ERROR_INVALID_PARAMETER
	case 43004:
		return "UDF version not supported", win32.ERROR_NOT_SUPPORTED
	case 43005:
		return "cluster size is not a multiple of the physical sector size", win32.ERROR_INVALID_PARAMETER
	case 43006:
		return "read-only", win32.ERROR_WRITE_PROTECT
	}
	return "an undocumented value", win32.ERROR_GEN_FAILURE
}
