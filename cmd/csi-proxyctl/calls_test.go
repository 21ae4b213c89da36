package main

import "testing"

// A check whether something exists fails after the real failure, and is expected.
func TestCauseOfFailedCall(t *testing.T) {
	device := win32Entry{Call: "DeviceIoControl", Code: "IOCTL_DISK_CREATE_DISK", Error: "I/O device error"}
	probe := win32Entry{Call: "NtCreateFile", Error: "file not found"}
	for name, c := range map[string]struct {
		error string
		win32 []win32Entry
		want  string
	}{
		"the cause is before a look":      {`partition disk 1: I/O device error`, []win32Entry{probe, device, probe}, "DeviceIoControl IOCTL_DISK_CREATE_DISK: I/O device error"},
		"no entry is in the error":        {`partition disk 1: context deadline exceeded`, []win32Entry{device, probe}, "NtCreateFile: file not found"},
		"an entry without a text":         {`partition disk 1: I/O device error`, []win32Entry{device, {Call: "Format"}}, "DeviceIoControl IOCTL_DISK_CREATE_DISK: I/O device error"},
		"nothing of Windows failed in it": {`partition disk 1: disk not found`, nil, ""},
	} {
		if got := (failedEntry{Error: c.error, Win32: c.win32}).cause(); got != c.want {
			t.Errorf("%s: cause = %q, want %q", name, got, c.want)
		}
	}
}
