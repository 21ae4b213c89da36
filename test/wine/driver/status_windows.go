package driver

import (
	"slices"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// A driver returns NTSTATUS, which Windows converts to a Win32 number
// (RtlNtStatusToDosError). The model returns Win32 numbers, so this is the
// reverse conversion: of the statuses that become a number, the one that a
// storage driver would return.
var statuses = map[win32.Errno]win32.NTStatus{
	win32.ERROR_INVALID_FUNCTION:     win32.STATUS_INVALID_DEVICE_REQUEST,
	win32.ERROR_FILE_NOT_FOUND:       win32.STATUS_OBJECT_NAME_NOT_FOUND,
	win32.ERROR_PATH_NOT_FOUND:       win32.STATUS_OBJECT_PATH_NOT_FOUND,
	win32.ERROR_ACCESS_DENIED:        win32.STATUS_ACCESS_DENIED,
	win32.ERROR_INVALID_HANDLE:       win32.STATUS_INVALID_HANDLE,
	win32.ERROR_WRITE_PROTECT:        win32.STATUS_MEDIA_WRITE_PROTECTED,
	win32.ERROR_NOT_READY:            win32.STATUS_DEVICE_NOT_READY,
	win32.ERROR_CRC:                  0xC000003F, // STATUS_CRC_ERROR
	win32.ERROR_BAD_LENGTH:           win32.STATUS_INFO_LENGTH_MISMATCH,
	win32.ERROR_GEN_FAILURE:          0xC0000001, // STATUS_UNSUCCESSFUL
	win32.ERROR_SHARING_VIOLATION:    win32.STATUS_SHARING_VIOLATION,
	win32.ERROR_HANDLE_EOF:           0xC0000011, // STATUS_END_OF_FILE
	win32.ERROR_NOT_SUPPORTED:        win32.STATUS_NOT_SUPPORTED,
	win32.ERROR_INVALID_PARAMETER:    win32.STATUS_INVALID_PARAMETER,
	win32.ERROR_DISK_FULL:            win32.STATUS_DISK_FULL,
	win32.ERROR_INSUFFICIENT_BUFFER:  win32.STATUS_BUFFER_TOO_SMALL,
	win32.ERROR_BUSY:                 0x80000011, // STATUS_DEVICE_BUSY
	win32.ERROR_MORE_DATA:            win32.STATUS_BUFFER_OVERFLOW,
	win32.ERROR_UNRECOGNIZED_VOLUME:  win32.STATUS_UNRECOGNIZED_VOLUME,
	win32.ERROR_IO_DEVICE:            win32.STATUS_IO_DEVICE_ERROR,
	win32.ERROR_DEVICE_NOT_CONNECTED: 0xC000009D, // STATUS_DEVICE_NOT_CONNECTED
	win32.ERROR_FILE_CORRUPT:         0xC0000102, // STATUS_FILE_CORRUPT_ERROR
	win32.ERROR_DISK_CORRUPT:         win32.STATUS_DISK_CORRUPT_ERROR,
	win32.ERROR_NO_SYSTEM_RESOURCES:  win32.STATUS_INSUFFICIENT_RESOURCES,
}

// noStatus is the class of statuses that carry a Win32 number (FACILITY_NTWIN32).
// Windows' drivers do not return them; it is for numbers that no status becomes.
const noStatus = 0xC0010000

// statusOf returns err as a driver's status.
func statusOf(err error) win32.NTStatus {
	if err == nil {
		return 0
	}
	e, ok := win32.Code(err)
	if !ok {
		e = win32.ERROR_GEN_FAILURE
	}
	if s, ok := statuses[e]; ok {
		return s
	}
	return noStatus | win32.NTStatus(e)
}

// represented returns the Win32 numbers that a driver can return.
func represented() []win32.Errno {
	var list []win32.Errno
	for e := range statuses {
		list = append(list, e)
	}
	slices.Sort(list)
	return list
}
