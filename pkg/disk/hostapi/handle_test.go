package api

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// identified returns a node with four data disks. Disk 1 has the identifier
// "Google  disk-1", disk 2 has none, and disks 3 and 4 have the same one. Every
// Win32 call goes through hook.
func identified(t *testing.T, hook func(*win32.Call) error) (DiskAPI, *emulated.Node) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	const gib = 1 << 30
	ascii := func(id string) []nodespec.Identifier {
		return []nodespec.Identifier{{CodeSet: "ascii", Type: 1, Text: id}}
	}
	win := nodetest.Open(t, nodespec.Config{Log: log, Disks: []nodespec.Disk{
		{Content: nodespec.ContentSystem, Size: 64 * gib}, {Size: gib, Identifiers: ascii("Google  disk-1")}, {Size: gib, Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Association: "port", Text: "p"}}},
		{Size: gib, Identifiers: ascii("twin")}, {Size: gib, Identifiers: ascii("twin")}}}, emulated.Machine{})
	n := node.New(win32.Observe(win, hook))
	n.Log = log
	return On(n), win
}

func plainly(c *win32.Call) error { return c.Do() }

func TestGetDiskNumberWithID(t *testing.T) {
	d, _ := identified(t, plainly)
	for _, c := range []struct {
		id   string
		want uint32
		kind error
	}{
		{id: "Google  disk-1", want: 1},
		{id: "twin", want: 3},
		{id: "google  disk-1", kind: hosterr.ErrNotFound},
		{id: "", kind: hosterr.ErrInvalid},
	} {
		if got, err := d.GetDiskNumberWithID(c.id); got != c.want || hosterr.KindOf(err) != c.kind {
			t.Errorf("GetDiskNumberWithID(%q) = %d, %v, want %d, %v", c.id, got, err, c.want, c.kind)
		}
	}
	if _, err := d.GetDiskNumberWithID("none"); err == nil || err.Error() != "could not find disk with Page83 ID none: not found" {
		t.Errorf("the error text that drivers match has changed: %v", err)
	}
}

// A disk that fails does not hide the other disks.
func TestGetDiskNumberWithIDSkipsFailingDisk(t *testing.T) {
	failed := false
	d, _ := identified(t, func(c *win32.Call) error {
		if c.Code == win32.IOCTL_STORAGE_GET_DEVICE_NUMBER && !failed {
			failed = true
			return win32.ERROR_IO_DEVICE
		}
		return c.Do()
	})
	if n, err := d.GetDiskNumberWithID("twin"); n != 3 || err != nil || !failed {
		t.Errorf("%d, %v (a disk failed: %t), want 3", n, err, failed)
	}
}

func TestGetDiskNumberAndPage83ID(t *testing.T) {
	d, _ := identified(t, plainly)
	if n, id, err := d.GetDiskNumberAndPage83ID(`\\.\PhysicalDrive1`); n != 1 || id != "Google  disk-1" || err != nil {
		t.Errorf("disk 1: %d, %q, %v", n, id, err)
	}
	if n, id, err := d.GetDiskNumberAndPage83ID(`\\.\PhysicalDrive2`); n != 2 || id != "" || err != nil {
		t.Errorf("a disk without identifier: %d, %q, %v", n, id, err)
	}
	if _, _, err := d.GetDiskNumberAndPage83ID(`\\.\PhysicalDrive9`); hosterr.KindOf(err) != hosterr.ErrNotFound || !strings.Contains(err.Error(), "PhysicalDrive9") {
		t.Errorf("no such disk: %v", err)
	}
	if _, _, err := d.GetDiskNumberAndPage83ID("a\x00b"); err == nil {
		t.Error("a path with a NUL was accepted")
	}
	if n, err := (DiskAPI{}).GetDiskNumberWithID("a"); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a node: %d, %v", n, err)
	}
	if _, _, err := (DiskAPI{}).GetDiskNumberAndPage83ID(`\\.\PhysicalDrive1`); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a node: %v", err)
	}
}

func TestPage83IDOfFailingDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		code uint32
		err  error
		want error
	}{
		{"does not know the question", win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.ERROR_INVALID_FUNCTION, nil},
		{"fails", win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.ERROR_CRC, win32.ERROR_CRC},
		{"has no number", win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, win32.ERROR_CRC, win32.ERROR_CRC},
	} {
		d, _ := identified(t, func(call *win32.Call) error {
			if call.Code == c.code {
				return c.err
			}
			return call.Do()
		})
		if _, id, err := d.GetDiskNumberAndPage83ID(`\\.\PhysicalDrive1`); id != "" || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("a disk that %s: %q, %v, want %v", c.name, id, err, c.want)
		}
	}
	d, _ := identified(t, func(call *win32.Call) error {
		err := call.Do()
		if call.Code == win32.IOCTL_STORAGE_GET_DEVICE_NUMBER && err == nil {
			copy(call.Out, win32.DeviceNumber{DeviceType: win32.FILE_DEVICE_DISK, DeviceNumber: 0xFFFFFFFF}.Encode())
		}
		return err
	})
	if _, _, err := d.GetDiskNumberAndPage83ID(`\\.\PhysicalDrive1`); hosterr.KindOf(err) != hosterr.ErrNotFound {
		t.Errorf("a device without a number: %v", err)
	}
}

// open opens a disk as a driver does, without this package.
func open(t *testing.T, win *emulated.Node, path string) win32.Handle {
	t.Helper()
	h, err := win.CreateFile(path, 0, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := win.CloseHandle(h); err != nil {
			t.Errorf("the caller's handle was closed: %v", err)
		}
	})
	return h
}

// The Windows-only methods, with the handle as a number.
func TestBorrowedHandleStaysOpen(t *testing.T) {
	d, win := identified(t, plainly)
	disk, err := d.borrow(uintptr(open(t, win, `\\.\PhysicalDrive1`)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.numberOf(disk); n != 1 || err != nil {
		t.Errorf("number %d, %v, want 1", n, err)
	}
	if id, err := d.page83IDOf(disk); id != "Google  disk-1" || err != nil {
		t.Errorf("identifier %q, %v", id, err)
	}
	bad, err := d.borrow(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.numberOf(bad); !win32.IsCode(err, win32.ERROR_INVALID_HANDLE) {
		t.Errorf("an invalid handle: %v", err)
	}
	if _, err := (DiskAPI{}).borrow(1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a node: %v", err)
	}
}
