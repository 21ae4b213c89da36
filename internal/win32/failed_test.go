package win32

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
)

// Each call that fails is passed on with what it was about, whether the hook has work or not.
// The ends of lists are no failures.
func TestFailedCalls(t *testing.T) {
	for _, counts := range []*Counts{nil, NewCounts()} {
		inner := &recorder{}
		var got []string
		api := Trace(inner, slog.New(slog.DiscardHandler), counts, func(c *Call, err error) {
			got = append(got, fmt.Sprintf("%s %q %#x: %v", c.Name, c.Path, c.Code, err))
		})
		h, _ := api.CreateFile(`\\.\PhysicalDrive1`, 0, 3, OPEN_EXISTING, 0)
		_, _ = api.QueryInformation(h, 5, nil)
		if len(got) > 0 {
			t.Errorf("calls that succeeded are passed on: %q", got)
		}
		for _, err := range []error{ERROR_NO_MORE_FILES, STATUS_NO_MORE_FILES, ERROR_MORE_DATA, STATUS_BUFFER_OVERFLOW, ERROR_INSUFFICIENT_BUFFER, STATUS_BUFFER_TOO_SMALL} {
			inner.err = err
			_, _ = api.QueryInformation(h, 5, nil)
			_, _ = api.QueryDirectory(h, false, nil)
		}
		if len(got) > 0 {
			t.Errorf("the ends of lists are passed on: %q", got)
		}
		inner.err = ERROR_IO_DEVICE
		_, _ = api.DeviceIoControl(h, IOCTL_DISK_GROW_PARTITION, []byte("a secret"), nil)
		_, _ = api.QueryInformation(h, FileBasicInformation, nil)
		_, _ = api.FinalPath(h, 0)
		_, _ = api.NtCreateFile(0, `\??\C:\a`, 0, 0, 0, 0, 0)
		_, _ = api.NtCreateFile(h, "b", 0, 0, 0, 0, 0)
		_ = api.FlushFileBuffers(h)
		inner.err = nil
		_ = api.WithPrivilege("SeManageVolumePrivilege", func(api API) error {
			inner.err = ERROR_IO_DEVICE
			_, err := api.DeviceIoControl(h, IOCTL_DISK_IS_WRITABLE, nil, nil)
			return err
		})
		_ = api.CloseHandle(h)
		_ = api.FlushFileBuffers(h)
		const io = "The request could not be performed because of an I/O device error."
		const drive = `"\\\\.\\PhysicalDrive1"`
		want := []string{
			fmt.Sprintf("DeviceIoControl %s %#x: %s", drive, uint32(IOCTL_DISK_GROW_PARTITION), io),
			fmt.Sprintf("QueryInformation %s %#x: %s", drive, uint32(FileBasicInformation), io),
			fmt.Sprintf("FinalPath %s 0x0: %s", drive, io),
			fmt.Sprintf("NtCreateFile %q 0x0: %s", `\??\C:\a`, io),
			fmt.Sprintf("NtCreateFile %q 0x0: %s", `\\.\PhysicalDrive1\b`, io),
			fmt.Sprintf("FlushFileBuffers %s 0x0: %s", drive, io),
			fmt.Sprintf("DeviceIoControl %s %#x: %s", drive, uint32(IOCTL_DISK_IS_WRITABLE), io),
			fmt.Sprintf("WithPrivilege %q 0x0: %s", "SeManageVolumePrivilege", io),
			fmt.Sprintf("CloseHandle %s 0x0: %s", drive, io),
			fmt.Sprintf("FlushFileBuffers %q 0x0: %s", "", io),
		}
		if !slices.Equal(got, want) {
			t.Errorf("counted %t:\n%q\nwant\n%q", counts != nil, got, want)
		}
	}
}

// Without counts and traces, calls of which a request makes many allocate nothing.
func TestCallsWithoutFailureAllocateNothing(t *testing.T) {
	api := Trace(quick{}, slog.New(slog.DiscardHandler), nil, func(*Call, error) {})
	if n := testing.AllocsPerRun(100, func() {
		h, _ := api.NtCreateFile(0, "a", 0, 0, 0, FILE_OPEN, 0)
		_, _ = api.QueryInformation(h, 5, nil)
		_, _ = api.DeviceIoControl(h, IOCTL_DISK_IS_WRITABLE, nil, nil)
		_, _ = api.FinalPath(h, 0)
		_ = api.CloseHandle(h)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// quick has calls that succeed.
type quick struct{ API }

func (quick) NtCreateFile(Handle, string, uint32, uint32, uint32, uint32, uint32) (Handle, error) {
	return 1, nil
}
func (quick) QueryInformation(Handle, uint32, []byte) (int, error)        { return 0, nil }
func (quick) DeviceIoControl(Handle, uint32, []byte, []byte) (int, error) { return 0, nil }
func (quick) FinalPath(Handle, uint32) (string, error)                    { return "", nil }
func (quick) CloseHandle(Handle) error                                    { return nil }
