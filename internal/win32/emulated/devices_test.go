package emulated

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func TestCreateFileNames(t *testing.T) {
	n := start(t, nodespec.Config{})
	vol := one2(t, n)
	is, err := n.Interfaces()
	if err != nil || len(is) != 3 {
		t.Fatalf("Interfaces = %v, %v", is, err)
	}
	for _, c := range []struct {
		path string
		want error // docs/develop/contract/calls.md#names-of-disks-and-volumes; RtlDosPathNameToNtPathName and ntstatus.h for missing ones
	}{
		{`\\.\PhysicalDrive0`, nil},
		{`\\.\physicaldrive2`, nil},
		{`\\?\PhysicalDrive1`, nil},
		{is[0].Path, nil},
		{strings.ToUpper(is[1].Path), nil},
		{`\\.\C:`, nil},
		{`\\.\c:`, nil},
		{devicePath(vol), nil},
		{strings.ToUpper(devicePath(vol)), nil},
		{`\\?\GLOBALROOT\Device\HarddiskVolume2`, nil},
		{`\\.\PhysicalDrive3`, win32.ERROR_FILE_NOT_FOUND},
		{`\\.\PhysicalDrive00`, win32.ERROR_FILE_NOT_FOUND},
		{`\\.\PhysicalDrive`, win32.ERROR_FILE_NOT_FOUND},
		{`\\.\PhysicalDrive-1`, win32.ERROR_FILE_NOT_FOUND},
		{`\\.\PhysicalDrive4294967296`, win32.ERROR_FILE_NOT_FOUND},
		{`\\.\PhysicalDrive0\x`, win32.ERROR_PATH_NOT_FOUND},
		{`\\.\Q:`, win32.ERROR_FILE_NOT_FOUND},
		{`\\?\Volume{00000000-0000-4000-8000-000000000000}`, win32.ERROR_FILE_NOT_FOUND},
		{`\\?\Volume{00000000-0000-4000-8000-000000000000}\`, win32.ERROR_PATH_NOT_FOUND},
		{`\\?\Volume{not a guid}`, win32.ERROR_FILE_NOT_FOUND},
		{strings.Replace(is[0].Path, "ven_", "van_", 1), win32.ERROR_FILE_NOT_FOUND},
		{`\\?\GLOBALROOT\Device\HarddiskVolume77`, win32.ERROR_PATH_NOT_FOUND},
		{`\\.\CON`, win32.ERROR_FILE_NOT_FOUND},
		{``, win32.ERROR_PATH_NOT_FOUND},
		{`PhysicalDrive0`, win32.ERROR_BAD_PATHNAME},
		{"\\\\.\\PhysicalDrive0\x00", win32.ERROR_INVALID_NAME},
	} {
		h, err := n.CreateFile(c.path, 0, shareBoth, win32.OPEN_EXISTING, 0)
		if !errors.Is(err, c.want) {
			t.Errorf("CreateFile(%q) = %v, want %v", c.path, err, c.want)
		}
		if err == nil {
			if err := n.CloseHandle(h); err != nil {
				t.Errorf("CloseHandle = %v", err)
			}
		}
	}
}

func TestCreateFileRefusals(t *testing.T) {
	n := start(t, nodespec.Config{})
	for _, c := range []struct {
		name                       string
		access, share, disposition uint32
	}{
		// CreateFileW's page: devices already exist; unknown bits.
		{"create new", 0, shareBoth, 1 /* CREATE_NEW */},
		{"no disposition", 0, shareBoth, 0},
		{"unknown share mode", 0, 8, win32.OPEN_EXISTING},
		{"unknown right", 0x8000, shareBoth, win32.OPEN_EXISTING},
	} {
		if _, err := n.CreateFile(`\\.\PhysicalDrive0`, c.access, c.share, c.disposition, 0); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("%s: CreateFile = %v, want ERROR_INVALID_PARAMETER", c.name, err)
		}
	}
}

// CreateFileW's page, dwShareMode; docs/develop/contract/calls.md#handles-and-access for
// handles without access.
func TestDeviceShareModes(t *testing.T) {
	const r, w = win32.GENERIC_READ, win32.GENERIC_WRITE
	for _, c := range []struct {
		name         string
		first, share uint32
		second, also uint32
		shared       bool
	}{
		{"both share all", r | w, 3, r | w, 3, true},
		{"first shares nothing", r, 0, r, 3, false},
		{"second shares nothing", r, 3, r, 0, false},
		{"readers that share reading", r, 1, r, 1, true},
		{"a writer against a reader that shares reading", r, 1, w, 3, false},
		{"a reader that shares reading against a writer", w, 3, r, 1, false},
		{"no access against exclusive", r | w, 0, 0, 3, true},
		{"exclusive against no access", 0, 0, r | w, 0, true},
	} {
		n := start(t, nodespec.Config{})
		for _, path := range []string{`\\.\PhysicalDrive0`, `\\.\C:`} {
			a, err := n.CreateFile(path, c.first, c.share, win32.OPEN_EXISTING, 0)
			ok(t, err)
			b, err := n.CreateFile(path, c.second, c.also, win32.OPEN_EXISTING, 0)
			if c.shared != (err == nil) || err != nil && !errors.Is(err, win32.ERROR_SHARING_VIOLATION) {
				t.Errorf("%s: second CreateFile = %v, want shared %t", c.name, err, c.shared)
			}
			if err == nil {
				n.CloseHandle(b)
			}
			n.CloseHandle(a)
			// A closed handle does not block others.
			if a, err = n.CreateFile(path, r|w, 0, win32.OPEN_EXISTING, 0); err != nil {
				t.Errorf("%s: CreateFile after closing = %v", c.name, err)
			}
			n.CloseHandle(a)
		}
	}
}

func TestInvalidHandles(t *testing.T) {
	n := start(t, nodespec.Config{})
	closed := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
	if got := n.OpenHandles(); len(got) != 1 || got[0] != `\\.\PhysicalDrive1` {
		t.Errorf("OpenHandles = %q", got)
	}
	ok(t, n.CloseHandle(closed))
	for _, h := range []win32.Handle{0, closed, 12345} {
		_, read := n.ReadAt(h, make([]byte, 512), 0)
		_, write := n.WriteAt(h, make([]byte, 512), 0)
		_, control := n.DeviceIoControl(h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, make([]byte, 12))
		for what, err := range map[string]error{"CloseHandle": n.CloseHandle(h), "ReadAt": read, "WriteAt": write, "DeviceIoControl": control, "FlushFileBuffers": n.FlushFileBuffers(h)} {
			if !errors.Is(err, win32.ERROR_INVALID_HANDLE) {
				t.Errorf("%s(%d) = %v, want ERROR_INVALID_HANDLE", what, h, err)
			}
		}
	}
}

func TestControlCodesOnFiles(t *testing.T) {
	n := start(t, nodespec.Config{})
	h, err := n.NtCreateFile(0, `\??\C:\Windows`, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	ok(t, err)
	for _, code := range []uint32{win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, win32.FSCTL_EXTEND_VOLUME, 0x90001} {
		failIoctl(t, n, h, code, nil, 4096, win32.ERROR_INVALID_FUNCTION)
	}
	ok(t, n.CloseHandle(h))
}

// FuzzControl: no input of a control code panics, a call that fails changes
// nothing, and the table in memory is always the one on the image.
func FuzzControl(f *testing.F) {
	codes := []uint32{
		win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, win32.IOCTL_STORAGE_QUERY_PROPERTY, win32.IOCTL_SCSI_GET_ADDRESS, win32.IOCTL_DISK_GET_LENGTH_INFO,
		win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.IOCTL_DISK_CREATE_DISK,
		win32.IOCTL_DISK_GROW_PARTITION, win32.IOCTL_DISK_UPDATE_DRIVE_SIZE, win32.IOCTL_DISK_UPDATE_PROPERTIES, win32.IOCTL_DISK_IS_WRITABLE,
		win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, win32.IOCTL_VOLUME_ONLINE,
		win32.IOCTL_VOLUME_OFFLINE, win32.IOCTL_VOLUME_IS_OFFLINE, win32.FSCTL_GET_NTFS_VOLUME_DATA, win32.FSCTL_EXTEND_VOLUME, win32.FSCTL_GET_REPARSE_POINT,
	}
	for i := range codes {
		f.Add(uint8(i), false, []byte(nil), uint16(64))
	}
	f.Add(uint8(6), false, gpt(data(1, mib, mib), data(2, 4*mib, 8*mib)).Encode(), uint16(0))
	f.Add(uint8(7), false, win32.CreateDisk{DiskID: guid(3)}.Encode(), uint16(0))
	f.Add(uint8(8), false, win32.GrowPartition{Number: 1, Delta: mib}.Encode(), uint16(0))
	f.Add(uint8(13), false, win32.SetDiskAttributes{Attributes: 3, Mask: 3}.Encode(), uint16(0))
	f.Add(uint8(19), true, win32.EncodeSectors(6000), uint16(0))
	f.Add(uint8(1), true, win32.PropertyQuery{PropertyID: 2}.Encode(), uint16(4096))
	half := data(1, mib, mib)
	half.Name = "\xed\xa0\xbd" // half of a surrogate pair
	f.Add(uint8(6), false, gpt(half).Encode(), uint16(0))
	n := start(f, nodespec.Config{Log: quiet, Disks: []nodespec.Disk{{Size: 32 * mib}, {Size: 32 * mib}}})
	f.Fuzz(func(t *testing.T, code uint8, volume bool, in []byte, room uint16) {
		disk, err := n.CreateFile(`\\.\PhysicalDrive1`, readWrite, shareBoth, win32.OPEN_EXISTING, 0)
		ok(t, err)
		defer n.CloseHandle(disk)
		h := disk
		if volume {
			partition(t, n, disk, data(1, mib, 8*mib))
			if h, err = n.CreateFile(devicePath(one(t, n, 1)), readWrite, shareBoth, win32.OPEN_EXISTING, 0); err != nil {
				t.Fatal(err)
			}
			defer n.CloseHandle(h)
		}
		before := n.Store.Size()
		size, err := n.DeviceIoControl(h, codes[int(code)%len(codes)], in, make([]byte, room))
		if size < 0 || size > int(room) {
			t.Errorf("%d bytes in a buffer of %d", size, room)
		}
		if err != nil && n.Store.Size() != before {
			t.Errorf("a failed call (%v) wrote to the journal", err)
		}
		checkNode(t, n)
		back := win32.SetDiskAttributes{Mask: 3}.Encode()
		if _, err := n.DeviceIoControl(disk, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, back, nil); err != nil {
			t.Fatal(err)
		}
	})
}
