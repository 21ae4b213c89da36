package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const gib = 1 << 30

// noDriver replaces the driver: it records the calls.
type noDriver struct {
	devices map[uint32][]byte // in the form for the driver
	paths   []string
}

func (d *noDriver) add(number uint32, names []string) error {
	d.devices[number] = encodeDevice(number, names)
	return nil
}

func (d *noDriver) remove(number uint32) error {
	if d.devices[number] == nil {
		return errors.New("no such device")
	}
	delete(d.devices, number)
	return nil
}

func (d *noDriver) interfaces(paths []string) error {
	d.paths = paths
	return nil
}

func (d *noDriver) dosDevice(letter string) (string, error) { return `\Device\Of` + letter, nil }

// device returns the number of a device by one of its names.
func (d *noDriver) device(t *testing.T, name string) uint32 {
	t.Helper()
	for number, b := range d.devices {
		var names []string
		for at := 4; at < len(b)-2; at += 2 * (len(win32.UTF16(names[len(names)-1])) + 1) {
			names = append(names, textAt(b, at, len(b)))
		}
		if slices.Contains(names, name) {
			return number
		}
	}
	t.Fatalf("no device has the name %s", name)
	return 0
}

// client is a server over a model, and sends it requests like the driver.
type client struct {
	t      *testing.T
	server *Server
	model  *emulated.Node
	driver *noDriver
	last   uint64
}

func newClient(t *testing.T, c nodespec.Config) *client {
	t.Helper()
	c.StateDir, c.Log = t.TempDir(), slog.New(slog.DiscardHandler)
	model := nodetest.Open(t, c, emulated.Machine{})
	a := &client{t: t, model: model, driver: &noDriver{devices: map[uint32][]byte{}}}
	a.server = newServer(model, model, a.driver)
	t.Cleanup(func() {
		if err := a.server.closeAll(); err != nil {
			t.Error(err)
		}
	})
	if err := a.server.Sync(); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *client) open(name string) uint64 {
	a.t.Helper()
	a.last++
	a.server.create(request{device: a.driver.device(a.t, name), handle: a.last, share: 3})
	return a.last
}

// ask returns the reply to a request, in the form that the driver reads.
func (a *client) ask(r request) ([]byte, win32.NTStatus) {
	a.t.Helper()
	r.id = 4711
	b := a.server.answer(r).encode()
	if binary.LittleEndian.Uint64(b) != r.id || int(binary.LittleEndian.Uint32(b[12:])) != len(b)-replySize {
		a.t.Fatalf("not a reply: %x", b)
	}
	return b[replySize:], win32.NTStatus(binary.LittleEndian.Uint32(b[8:]))
}

func TestServerFollowsModel(t *testing.T) {
	a := newClient(t, systemOnly())
	if len(a.driver.paths) != 1 || a.driver.device(t, `\??\PhysicalDrive0`) != a.driver.device(t, `\??\`+a.driver.paths[0][4:]) {
		t.Errorf("the system disk's interface is %q, want a name of PhysicalDrive0", a.driver.paths)
	}
	before := len(a.driver.devices)
	no := false // how disks arrive is not what the test is about
	number, err := a.model.Attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}, Offline: &no, ReadOnly: &no})
	if err := errors.Join(err, a.server.Sync()); err != nil || len(a.driver.devices) != before+3 { // the disk, and the volume by two names
		t.Fatalf("%d devices after attaching a disk with a volume, %v, want %d", len(a.driver.devices), err, before+3)
	}
	out, status := a.ask(request{operation: opControl, handle: a.open(`\??\E:`), code: win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, out: 32})
	if es, err := win32.DecodeExtents(out); status != 0 || err != nil || es[0].Disk != number {
		t.Errorf("the volume of E: is at %+v, %v, %#x, want disk %d", es, err, uint32(status), number)
	}
	if err := errors.Join(a.model.Detach(number), a.server.Sync()); err != nil || len(a.driver.devices) != before || len(a.driver.paths) != 1 {
		t.Errorf("%d devices after detaching it, %v, want %d", len(a.driver.devices), err, before)
	}
}

func TestServerReplies(t *testing.T) {
	a := newClient(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib}}})
	disk := a.open(`\??\PhysicalDrive1`)
	if out, status := a.ask(request{operation: opControl, handle: disk, code: win32.IOCTL_DISK_GET_LENGTH_INFO, out: 8}); status != 0 || binary.LittleEndian.Uint64(out) != gib {
		t.Errorf("a length: %x, %#x", out, uint32(status))
	}
	if _, status := a.ask(request{operation: opControl, handle: disk, code: win32.IOCTL_DISK_GET_LENGTH_INFO, out: 7}); status != win32.STATUS_BUFFER_TOO_SMALL {
		t.Errorf("a length without a buffer: %#x", uint32(status))
	}
	sector := []byte(strings.Repeat("sector! ", 64))
	if _, status := a.ask(request{operation: opWrite, handle: disk, offset: 4096, in: sector}); status != 0 {
		t.Errorf("a write: %#x", uint32(status))
	}
	if out, status := a.ask(request{operation: opRead, handle: disk, offset: 4096, out: 512}); status != 0 || string(out) != string(sector) {
		t.Errorf("a read: %q, %#x", out, uint32(status))
	}
	if _, status := a.ask(request{operation: opFlush, handle: disk}); status != 0 {
		t.Errorf("a flush: %#x", uint32(status))
	}
	if err := a.server.close(request{handle: disk}); err != nil {
		t.Errorf("close: %v", err)
	}
	for what, r := range map[string]request{
		"a closed handle":       {operation: opRead, handle: disk, out: 512},
		"an unknown handle":     {operation: opFlush, handle: 99},
		"an unknown operation":  {operation: 77, handle: a.open(`\??\PhysicalDrive1`)},
		"a call without number": {operation: opCall, in: []byte{1}},
	} {
		if out, status := a.ask(r); status>>30 != 3 {
			t.Errorf("%s: %x, %#x, want an error", what, out, uint32(status))
		}
	}
	names, err := a.model.VolumeNames()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		v := a.open(`\??\` + strings.TrimSuffix(name, `\`)[4:])
		info, status := a.ask(request{operation: opVolume, handle: v, code: fsAttribute, out: 100})
		if have, _ := a.model.VolumeInformation(name); status != 0 || textAt(info, 12, 10) != have.FileSystem {
			t.Errorf("the file system of %s: %x, %#x, want %s", name, info, uint32(status), have.FileSystem)
		}
		if info, status := a.ask(request{operation: opVolume, handle: v, code: fsAttribute, out: 13}); status != win32.STATUS_BUFFER_OVERFLOW || len(info) != 13 {
			t.Errorf("the first part of it: %x, %#x", info, uint32(status))
		}
		space, status := a.ask(request{operation: opVolume, handle: v, code: fsFullSize, out: 32})
		_, total, _, _ := a.model.FreeSpace(name)
		if status != 0 || binary.LittleEndian.Uint64(space)*512 != total {
			t.Errorf("the size of %s: %x, %#x, want %d", name, space, uint32(status), total)
		}
	}
	out, status := a.ask(request{operation: opPoints, in: make([]byte, win32.SizeofMountPoint), out: 4096})
	if n := int(binary.LittleEndian.Uint32(out[4:])); status != 0 || n != len(names)+1 { // C: has two
		t.Errorf("%d mount points, %#x, want %d", n, uint32(status), len(names)+1)
	}
	if out, status := a.ask(request{operation: opPoints, in: make([]byte, win32.SizeofMountPoint), out: 8}); status != win32.STATUS_BUFFER_OVERFLOW || len(out) != 4 {
		t.Errorf("mount points without a buffer: %x, %#x", out, uint32(status))
	}
	// The road from a partition to the name of its volume.
	device := a.open(`\??\Harddisk0Partition3`)
	b, status := a.ask(request{operation: opControl, handle: device, code: win32.IOCTL_MOUNTDEV_QUERY_DEVICE_NAME, out: 256})
	if status != 0 {
		t.Fatalf("the device name of C: %#x", uint32(status))
	}
	name, err := win32.DecodeDeviceName(b)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := a.model.VolumeNameForMountPoint(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	out, status = a.ask(request{operation: opPoints, in: win32.MountPoint{Device: name}.Encode(), out: 4096})
	points, err := win32.DecodeMountPoints(out)
	if status != 0 || err != nil || len(points) != 2 || `\\?`+points[0].Link[3:]+`\` != letter {
		t.Errorf("the names of %s: %+v, %#x, %v, want %s first", name, points, uint32(status), err, letter)
	}
	malformed := win32.MountPoint{Link: "ab"}.Encode()
	for n := range len(malformed) {
		if _, status := a.ask(request{operation: opPoints, in: malformed[:n], out: 4096}); status == 0 {
			t.Errorf("%d of %d bytes are accepted as a query", n, len(malformed))
		}
	}
}

// Malformed calls of the DLLs are errors, at whatever byte they end.
func TestMalformedCalls(t *testing.T) {
	a := newClient(t, systemOnly())
	for call := uint32(callFormat); call <= callUseDel; call++ {
		for n := range 64 {
			in := append(binary.LittleEndian.AppendUint32(nil, call), make([]byte, n)...)
			if out, status := a.ask(request{operation: opCall, in: in, out: 1 << 16}); status == 0 && call != callSecret {
				t.Errorf("call %d with %d zeros: %x, want an error", call, n, out)
			}
		}
	}
	if s := fmt.Sprint(a.server.Logins(), a.server.Mappings()); s != "[] []" {
		t.Errorf("unexpected logins and mappings: %s", s)
	}
}

func systemOnly() nodespec.Config {
	return nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}}, Windows: nodespec.Windows{Attach: nodespec.AttachSeen, NewVolumes: nodespec.NewVolumesAtOnce}}
}
