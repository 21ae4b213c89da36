package emulated

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/ptable"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

var _ win32.API = (*Node)(nil)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40

	readWrite = win32.GENERIC_READ | win32.GENERIC_WRITE
	shareBoth = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE
)

// start opens a node. At the end of the test it must have no open handles, and
// its tables must be those of its images.
func start(t testing.TB, cfg nodespec.Config) *Node {
	t.Helper()
	return startOn(t, cfg, kernel.Machine{})
}

func startOn(t testing.TB, cfg nodespec.Config, m kernel.Machine) *Node {
	t.Helper()
	// Tests of this package that are not about these options neither wait nor look for a
	// disk's number.
	cfg.NewVolumes = cmp.Or(cfg.NewVolumes, nodespec.NewVolumesAtOnce)
	if behavior.Chosen(cfg.World).NewDisks == "" {
		cfg.World = behavior.In(cfg.World, behavior.Windows{NewDisks: behavior.NewDisksFree})
	}
	cfg.DiskNumbers = cmp.Or(cfg.DiskNumbers, nodespec.DiskNumbersKept)
	n, err := Open(cfg, m)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if left := n.OpenHandles(); len(left) > 0 {
			t.Errorf("handles left open: %q", left)
		}
		checkNode(t, n)
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return n
}

// checkNode checks the invariants: a table in memory is the one on the image, and
// volumes lie inside their disks.
func checkNode(t testing.TB, n *Node) {
	t.Helper()
	if n.Lock() != nil {
		return
	}
	defer n.Unlock()
	for _, d := range n.Disks.List {
		table, err := ptable.Read(d.Image, d.Geometry())
		if err != nil {
			t.Errorf("disk %d: %v", d.Number, err)
			continue
		}
		if got, want := string(d.Table.Encode()), string(table.Encode()); got != want && !t.Failed() {
			t.Errorf("disk %d: table in memory\n%+v\non the image\n%+v", d.Number, d.Table, table)
		}
	}
	for _, v := range n.Volumes.List {
		for _, e := range v.Ranges {
			if e.Off+e.Length > e.Disk.TableSize || e.Length == 0 {
				t.Errorf("volume %v: extent %d+%d on a disk of %d bytes", v.Name(), e.Off, e.Length, e.Disk.TableSize)
			}
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openPath(t testing.TB, n win32.API, path string, access uint32) win32.Handle {
	t.Helper()
	h, err := n.CreateFile(path, access, shareBoth, win32.OPEN_EXISTING, 0)
	if err != nil {
		t.Fatalf("CreateFile(%q, %#x): %v", path, access, err)
	}
	t.Cleanup(func() {
		// The test may have closed the handle or restarted the node.
		if err := n.CloseHandle(h); err != nil && !errors.Is(err, win32.ERROR_INVALID_HANDLE) && !errors.Is(err, win32.ERROR_IO_DEVICE) {
			t.Errorf("CloseHandle(%q): %v", path, err)
		}
	})
	return h
}

// newDir makes a directory.
func newDir(t testing.TB, n win32.API, path string) {
	t.Helper()
	h, err := n.NtCreateFile(0, `\??\`+strings.TrimPrefix(path, `\\?\`), readable, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_CREATE, folder)
	ok(t, err)
	ok(t, n.CloseHandle(h))
}

func ioctl(t testing.TB, n win32.API, h win32.Handle, code uint32, in []byte, room int) []byte {
	t.Helper()
	out := make([]byte, room)
	size, err := n.DeviceIoControl(h, code, in, out)
	if err != nil {
		t.Fatalf("DeviceIoControl(%#x): %v", code, err)
	}
	return out[:size]
}

// failIoctl makes a call that must fail with want.
func failIoctl(t testing.TB, n win32.API, h win32.Handle, code uint32, in []byte, room int, want win32.Errno) {
	t.Helper()
	size, err := n.DeviceIoControl(h, code, in, make([]byte, room))
	if !errors.Is(err, want) {
		t.Errorf("DeviceIoControl(%#x, %d bytes in, %d out) = %d, %v, want %v", code, len(in), room, size, err, want.Name())
	}
}

func layout(t testing.TB, n win32.API, h win32.Handle) win32.Layout {
	t.Helper()
	l, err := win32.DecodeLayout(ioctl(t, n, h, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, 64*kib))
	ok(t, err)
	return l
}

func guid(n byte) win32.GUID {
	return win32.GUID{Data1: uint32(n), Data3: 0x4000, Data4: [8]byte{0x80, 7: n}}
}

// data returns an entry for a basic data partition without drive letter.
func data(id byte, offset, length uint64) win32.Partition {
	return win32.Partition{
		Style: win32.PARTITION_STYLE_GPT, Offset: offset, Length: length, Rewrite: true,
		Type: win32.PARTITION_BASIC_DATA_GUID, ID: guid(id), Name: "Basic data partition",
		Attributes: win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER,
	}
}

// initialize creates an empty GPT.
func initialize(t testing.TB, n win32.API, h win32.Handle) win32.Layout {
	t.Helper()
	ioctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(200)}.Encode(), 0)
	ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
	return layout(t, n, h)
}

// partition creates a GPT with parts on the disk.
func partition(t testing.TB, n win32.API, h win32.Handle, parts ...win32.Partition) win32.Layout {
	t.Helper()
	l := initialize(t, n, h)
	l.Partitions = append(l.Partitions, parts...)
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), 0)
	ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
	return layout(t, n, h)
}

// bringOnline brings a volume online if it is offline, as new ones are.
func bringOnline(t testing.TB, n win32.API, name string) {
	t.Helper()
	h, err := n.CreateFile(devicePath(name), readWrite, shareBoth, win32.OPEN_EXISTING, 0)
	if err != nil {
		return // locked or write-protected, so it is online
	}
	if _, err := n.DeviceIoControl(h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil); err == nil {
		ioctl(t, n, h, win32.IOCTL_VOLUME_ONLINE, nil, 0)
	}
	ok(t, n.CloseHandle(h))
}

// volumesOn brings the volumes of the node online and returns those of a disk, by offset.
func volumesOn(t testing.TB, n win32.API, number uint32) map[uint64]string {
	t.Helper()
	if err := n.UpdateStorageCache(); err != nil { // for a format
		t.Fatal(err)
	}
	names, err := n.VolumeNames()
	ok(t, err)
	found := map[uint64]string{}
	for _, name := range names {
		bringOnline(t, n, name)
		h, err := n.CreateFile(strings.TrimSuffix(name, `\`), 0, shareBoth, win32.OPEN_EXISTING, 0)
		if err != nil {
			t.Fatalf("CreateFile(%q): %v", name, err)
		}
		es, err := win32.DecodeExtents(ioctl(t, n, h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 1*kib))
		ok(t, err)
		if es[0].Disk == number {
			found[es[0].Offset] = name
		}
		ok(t, n.CloseHandle(h))
	}
	return found
}

// one returns the only volume of a disk.
func one(t testing.TB, n win32.API, number uint32) string {
	t.Helper()
	vs := volumesOn(t, n, number)
	if len(vs) != 1 {
		t.Fatalf("disk %d has the volumes %v, want one", number, vs)
	}
	for _, v := range vs {
		return v
	}
	return ""
}

func devicePath(volume string) string { return strings.TrimSuffix(volume, `\`) }

// tool returns the path of a program that checks images.
func tool(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s; a machine with the package %s runs this", name, pkg)
	}
	return path
}

// sgdisk checks the table of an image with sgdisk.
func sgdisk(t testing.TB, image string) {
	t.Helper()
	path := tool(t, "sgdisk", "gdisk")
	out, err := exec.Command(path, "--verify", image).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		t.Errorf("sgdisk --verify %s: %v\n%s", filepath.Base(image), err, out)
	}
}

// image returns the path of a disk's image.
func image(t testing.TB, n *Node, number uint32) string {
	t.Helper()
	info, err := n.Show()
	ok(t, err)
	for _, d := range info.Disks {
		if d.Number == number {
			return d.Image
		}
	}
	t.Fatalf("no disk %d", number)
	return ""
}

// online makes a disk online and writable, as a program has to where disks arrive
// otherwise.
func online(t testing.TB, n *Node, number uint32) {
	t.Helper()
	h := openPath(t, n, fmt.Sprintf(`\\.\PhysicalDrive%d`, number), readWrite)
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Persist: true, Mask: win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY}.Encode(), 0)
	ok(t, n.CloseHandle(h))
}

// attach attaches a disk and returns its number when Windows sees it.
func attach(t testing.TB, n *Node, d nodespec.Disk) uint32 {
	t.Helper()
	number, err := n.Attach(d)
	if err == nil {
		err = n.AwaitDisk(number)
	}
	ok(t, err)
	return number
}

var le = binary.LittleEndian
