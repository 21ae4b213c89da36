package disk_test

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (f *fixture) setReadOnly(n uint32, readOnly bool) error {
	out, err := f.disk.SetDiskReadOnly(f.t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: n, IsReadOnly: readOnly})
	if (out == nil) != (err != nil) {
		f.t.Errorf("SetDiskReadOnly(%d, %t) = %v, %v, want one of them", n, readOnly, out, err)
	}
	return err
}

func (f *fixture) wantReadOnly(n uint32, want bool) {
	f.t.Helper()
	out, err := f.disk.GetDiskReadOnly(f.t.Context(), &disk.GetDiskReadOnlyRequest{DiskNumber: n})
	if err != nil || out.IsReadOnly != want {
		f.t.Errorf("GetDiskReadOnly(%d) = %+v, %v, want %t", n, out, err, want)
	}
}

// Windows clears its read-only attribute, but the disk itself still refuses writes.
func TestSetDiskReadOnlyReportsProtectedDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{},
		nodespec.Disk{Size: gib, WriteProtected: true, ReadOnly: yes()},
		nodespec.Disk{Size: gib, WriteProtected: true},
		nodespec.Disk{Size: gib, WriteProtected: true, Offline: yes(), ReadOnly: yes()},
		nodespec.Disk{Size: gib, ReadOnly: yes()})
	for _, n := range []uint32{1, 2} {
		f.wantReadOnly(n, true)
		err := f.setReadOnly(n, false)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "make writable disk", "it stays read-only")
		if !errors.Is(err, win32.ERROR_WRITE_PROTECT) || hosterr.HintOf(err) == "" {
			t.Errorf("disk %d: %v with hint %q, want ERROR_WRITE_PROTECT and a hint", n, err, hosterr.HintOf(err))
		}
		f.wantReadOnly(n, true)
	}

	// Windows reports this for online disks only, so the call fails after the disk is online.
	if err := f.setReadOnly(3, false); err != nil {
		t.Errorf("an offline disk: %v", err)
	}
	if err := f.setState(3, true); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.setReadOnly(3, false), hosterr.ErrFailedPrecondition, "it stays read-only")

	// A Windows driver that reports success without a change.
	f.Fail("", win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, nil)
	wantKind(t, f.setReadOnly(4, false), hosterr.ErrFailedPrecondition, "it stays read-only")
	f.Observe(nil)
	if err := f.setReadOnly(4, false); err != nil {
		t.Errorf("when Windows clears the attribute: %v", err)
	}
}

// Only ERROR_WRITE_PROTECT says that a medium is protected.
func TestGetDiskReadOnlyByDriverError(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   error
		readOnly bool
	}{
		{"a protected medium", win32.ERROR_WRITE_PROTECT, true},
		{"an unknown control code", win32.ERROR_INVALID_FUNCTION, false},
		{"an unsupported control code", win32.ERROR_NOT_SUPPORTED, false},
		{"a device without the command", win32.ERROR_IO_DEVICE, false},
		{"a device that is not ready", win32.ERROR_NOT_READY, false},
		{"an invalid parameter", win32.ERROR_INVALID_PARAMETER, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
			f.Fail("", win32.IOCTL_DISK_IS_WRITABLE, c.answer)
			out, err := f.disk.GetDiskReadOnly(t.Context(), &disk.GetDiskReadOnlyRequest{DiskNumber: 1})
			if err != nil || out.IsReadOnly != c.readOnly {
				t.Errorf("%+v, %v, want %t", out, err, c.readOnly)
			}
		})
	}
}
