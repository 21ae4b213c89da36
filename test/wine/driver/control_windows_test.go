package driver

import (
	"bytes"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Access rights of an open.
const (
	readWrite = win32.GENERIC_READ | win32.GENERIC_WRITE
	readOnly  = win32.GENERIC_READ
	query     = 0
)

// Control codes through the driver return what the model returns: the same error
// number, output size and bytes. None of these codes changes anything. Which number it is,
// package emulated checks.
func TestControlCodesMatchModel(t *testing.T) {
	h := newHost(t, nodespec.Config{
		Disks: []nodespec.Disk{
			{Content: nodespec.ContentSystem},
			{Size: gib, Serial: "a serial number", Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Type: 1, Text: "an identifier"}}},
			{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 << 20}, {FileSystem: "NTFS"}}},
			{Size: gib, Content: "gpt"}, {Size: gib, Content: "gpt"},
		},
		SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 3, Offset: 64 << 20, Length: 100 << 20}, {Disk: 4, Offset: 64 << 20, Length: 200 << 20}}}},
	})
	const blank, used, system = `\\.\PhysicalDrive1`, `\\.\PhysicalDrive2`, `\\.\PhysicalDrive0`
	names, err := h.model.VolumeNames()
	if err != nil {
		t.Fatal(err)
	}
	var ntfs, spanned string
	for _, v := range names {
		path := v[:len(v)-1]
		_, err := h.model.VolumeInformation(v)
		switch dev, openErr := h.model.CreateFile(path, query, 3, win32.OPEN_EXISTING, 0); {
		case openErr != nil:
			t.Fatal(openErr)
		default:
			out := make([]byte, 56)
			n, extentsErr := h.model.DeviceIoControl(dev, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, out)
			if extentsErr != nil {
				t.Fatal(extentsErr)
			}
			es, _ := win32.DecodeExtents(out[:n])
			switch {
			case len(es) == 2:
				spanned = path
			case es[0].Disk == 2 && err == nil:
				ntfs = path
			}
			h.model.CloseHandle(dev)
		}
	}
	property := func(id uint32) []byte { return win32.PropertyQuery{PropertyID: id}.Encode() }
	layout := func(style uint32, parts ...win32.Partition) []byte {
		return win32.Layout{Style: style, Partitions: parts}.Encode()
	}
	data := win32.Partition{Style: win32.PARTITION_STYLE_GPT, Offset: 16 << 20, Length: 100 << 20, Number: 1, Type: win32.PARTITION_BASIC_DATA_GUID}
	beyond := data
	beyond.Length = 2 * gib
	for _, c := range []struct {
		name   string
		path   string
		access uint32
		code   uint32
		in     []byte
		out    int
	}{
		{"a layout, exact buffer", used, query, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, 48 + 144*3},
		{"a layout, one byte too little", used, query, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, 48 + 144*3 - 1},
		{"a length, without access", blank, query, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8},
		{"a table, without access to write", blank, readOnly, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{}.Encode(), 0},
		{"a number", blank, query, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12},
		{"a geometry", blank, query, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, nil, 256},
		{"a property, its head", blank, query, win32.IOCTL_STORAGE_QUERY_PROPERTY, property(win32.StorageDeviceProperty), 8},
		{"a property, whole", blank, query, win32.IOCTL_STORAGE_QUERY_PROPERTY, property(win32.StorageDeviceProperty), 1024},
		{"an unknown property", blank, query, win32.IOCTL_STORAGE_QUERY_PROPERTY, property(4711), 1024},
		{"an incomplete property query", blank, query, win32.IOCTL_STORAGE_QUERY_PROPERTY, property(0)[:7], 1024},
		{"a missing SCSI address", blank, query, win32.IOCTL_SCSI_GET_ADDRESS, nil, 8},
		{"attributes", blank, query, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, 16},
		{"a partition beyond the end", used, readWrite, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, layout(win32.PARTITION_STYLE_GPT, beyond), 0},
		{"growth of an unknown partition", used, readWrite, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 9, Delta: 1 << 20}.Encode(), 0},
		{"an unknown code", blank, readWrite, 0x7FFFC, nil, 8},
		{"extents, too short", ntfs, query, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 31},
		{"the first of two extents", spanned, query, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 32},
		{"two extents", spanned, query, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 56},
		{"the disk of a volume on two disks", spanned, query, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12},
		{"a volume's number", ntfs, query, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12},
		{"NTFS", ntfs, readOnly, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, 96},
		{"whether a volume is offline", ntfs, query, win32.IOCTL_VOLUME_IS_OFFLINE, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := func(api win32.API) (out []byte, n int, err error) {
				dev, err := api.CreateFile(c.path, c.access, 3, win32.OPEN_EXISTING, 0)
				if err != nil {
					t.Fatalf("open %s: %v", c.path, err)
				}
				defer api.CloseHandle(dev)
				out = make([]byte, c.out)
				n, err = api.DeviceIoControl(dev, c.code, c.in, out)
				return out[:min(n, len(out))], n, err
			}
			want, wantN, wantErr := ask(h.model)
			got, n, err := ask(h.bare)
			wantCode, _ := win32.Code(wantErr)
			code, _ := win32.Code(err)
			if code != wantCode || n != wantN || !bytes.Equal(got, want) {
				t.Errorf("Windows returns %d bytes %x, %v;\nthe model %d bytes %x, %v", n, got, err, wantN, want, wantErr)
			}
		})
	}
}

// Reads and writes, at offsets and beyond the end, have the model's results.
func TestReadsAndWritesMatchModel(t *testing.T) {
	offline := true
	h := newHost(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib}, {Size: gib, Offline: &offline}}})
	const disk, off = `\\.\PhysicalDrive1`, `\\.\PhysicalDrive2`
	with := func(path string, access uint32, f func(win32.Handle)) {
		t.Helper()
		dev, err := h.bare.CreateFile(path, access, 3, win32.OPEN_EXISTING, 0)
		if err != nil {
			t.Fatal(err)
		}
		f(dev)
		if err := h.bare.CloseHandle(dev); err != nil {
			t.Error(err)
		}
	}
	sector := bytes.Repeat([]byte("sector! "), 64)
	with(disk, readWrite, func(dev win32.Handle) {
		const far = 800 << 20
		if n, err := h.bare.WriteAt(dev, sector, far); n != len(sector) || err != nil {
			t.Errorf("WriteAt: %d, %v", n, err)
		}
		got := make([]byte, 1024)
		if n, err := h.bare.ReadAt(dev, got, far-512); n != len(got) || err != nil || !bytes.Equal(got[512:], sector) || !bytes.Equal(got[:512], make([]byte, 512)) {
			t.Errorf("ReadAt: %d, %v, %q", n, err, got)
		}
		large := bytes.Repeat([]byte{0xA5}, 1<<20)
		if n, err := h.bare.WriteAt(dev, large, 0); n != len(large) || err != nil {
			t.Errorf("WriteAt of a MiB: %d, %v", n, err)
		}
		back := make([]byte, len(large))
		if n, err := h.bare.ReadAt(dev, back, 0); n != len(back) || err != nil || !bytes.Equal(back, large) {
			t.Errorf("ReadAt of a MiB: %d, %v", n, err)
		}
		if n, err := h.bare.ReadAt(dev, got, gib); n != 0 || !win32.IsCode(err, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("ReadAt at the end: %d, %v, want ERROR_INVALID_PARAMETER", n, err)
		}
		if n, err := h.bare.WriteAt(dev, sector[:100], 0); n != 0 || !win32.IsCode(err, win32.ERROR_INVALID_PARAMETER) {
			t.Errorf("WriteAt of a part of a sector: %d, %v, want ERROR_INVALID_PARAMETER", n, err)
		}
		if err := h.bare.FlushFileBuffers(dev); err != nil {
			t.Errorf("FlushFileBuffers: %v", err)
		}
	})
	with(disk, readOnly, func(dev win32.Handle) {
		if n, err := h.bare.WriteAt(dev, sector, 0); n != 0 || !win32.IsCode(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("WriteAt without access: %d, %v, want ERROR_ACCESS_DENIED", n, err)
		}
	})
	with(off, readWrite, func(dev win32.Handle) {
		if n, err := h.bare.WriteAt(dev, sector, 0); n != 0 || !win32.IsCode(err, win32.ERROR_WRITE_PROTECT) {
			t.Errorf("WriteAt to an offline disk: %d, %v, want ERROR_WRITE_PROTECT", n, err)
		}
	})
}

// A disk that is detached while it is open. No other program holds it when it returns.
func TestDetachedDisk(t *testing.T) {
	h := newHost(t, nodespec.Config{
		World: behavior.In("", behavior.Windows{NewDisks: behavior.NewDisksFree}),
		Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib}},
	})
	const path = `\\.\PhysicalDrive1`
	dev, err := h.bare.CreateFile(path, readOnly, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The model's handle for data is opened by the first request for data.
	if _, err := h.bare.DeviceIoControl(dev, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	back, err := h.detach(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.bare.DeviceIoControl(dev, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, make([]byte, 8)); !win32.IsCode(err, win32.ERROR_DEVICE_NOT_CONNECTED) {
		t.Errorf("length of the detached disk: %v, want ERROR_DEVICE_NOT_CONNECTED", err)
	}
	if h2, err := h.bare.CreateFile(path, readOnly, 3, win32.OPEN_EXISTING, 0); !win32.IsCode(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("open the detached disk: %d, %v, want ERROR_FILE_NOT_FOUND", h2, err)
	}
	if is, err := h.bare.Interfaces(); err != nil || len(is) != 1 {
		t.Errorf("interfaces %v, %v, want only that of the system disk", is, err)
	}
	if number, err := back(); err != nil || number != 1 {
		t.Fatalf("attached again as disk %d, %v", number, err)
	}
	if _, err := h.bare.DeviceIoControl(dev, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, make([]byte, 8)); !win32.IsCode(err, win32.ERROR_DEVICE_NOT_CONNECTED) {
		t.Errorf("length through the old handle: %v, want ERROR_DEVICE_NOT_CONNECTED", err)
	}
	if err := h.bare.CloseHandle(dev); err != nil {
		t.Error(err)
	}
	again, err := h.bare.CreateFile(path, readOnly, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.bare.DeviceIoControl(again, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, make([]byte, 8)); err != nil {
		t.Errorf("length through a new handle: %v", err)
	}
	if err := h.bare.CloseHandle(again); err != nil {
		t.Error(err)
	}
}
