package volume_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (f *fixture) setState(n uint32, online bool) error {
	_, err := f.disk.SetDiskState(f.t.Context(), &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: online})
	return err
}

func (f *fixture) readOnly(n uint32) bool {
	f.t.Helper()
	info, err := f.Windows.Show()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range info.Disks {
		if d.Number == n {
			return d.ReadOnly
		}
	}
	f.t.Fatalf("no disk %d", n)
	return false
}

// moved returns a node to which a disk with a volume has moved: the policy for shared buses
// leaves it offline and read-only.
func moved(t *testing.T, cfg nodespec.Config, protected bool) (f *fixture, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	d := data(gib, "NTFS")
	d.Offline, d.ReadOnly, d.WriteProtected, d.Serial = yes(), yes(), protected, "moved-1"
	return newFixture(t, cfg, d), log
}

var writables = []string{behavior.WritableAttributes, behavior.WritableMedium}

// With -read-only-disks=keep the disk stays read-only and is mounted, as published, with a line
// in the log. Where Windows says that its storage can be written, without the flag it is not
// mounted, nor is it resized with the flag.
func TestMovedDiskStaysReadOnly(t *testing.T) {
	for _, writable := range writables {
		f, log := moved(t, nodespec.Config{World: behavior.In("", behavior.Windows{IsWritable: writable})}, false)
		f.Node.KeepReadOnly = true
		if err := f.setState(1, true); err != nil || !f.readOnly(1) {
			t.Fatalf("%v, read-only %t", err, f.readOnly(1))
		}
		id, target := f.id(1), kubelet+`\m`
		f.mkdir(target)
		if err := f.Windows.Grow(1, 2*gib); err != nil {
			t.Fatal(err)
		}
		err := f.mount(id, target)
		if writable == behavior.WritableAttributes {
			if err != nil || !strings.Contains(log.String(), "Using a read-only disk") {
				t.Errorf("mount: %v, log:\n%s", err, log)
			}
			continue
		}
		if err != nil || !strings.Contains(log.String(), "Mounting a volume of a read-only disk") {
			t.Errorf("mount: %v, log:\n%s", err, log)
		}
		err = f.resize(id, 0)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "disk 1 is read-only on this node")
		if hint := hosterr.HintOf(err); !strings.Contains(hint, "SetDiskReadOnly") {
			t.Errorf("hint %q", hint)
		}
		if err := f.unmount(id, target); err != nil {
			t.Fatal(err)
		}

		f.Node.KeepReadOnly = false
		err = f.mount(id, target)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "disk 1 is read-only on this node although its storage can be written")
		if hint := hosterr.HintOf(err); !strings.Contains(hint, "call SetDiskState online") {
			t.Errorf("hint %q", hint)
		}

		// What the hint says.
		if err := f.setState(1, true); err != nil {
			t.Fatal(err)
		}
		if err := f.mount(id, target); err != nil || f.readOnly(1) {
			t.Errorf("mount after SetDiskState: %v, read-only %t", err, f.readOnly(1))
		}
	}
}

// What a disk is that was made read-only on purpose, the error of a format says.
func TestFormatOfAReadOnlyDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{IsWritable: behavior.WritableMedium})}, data(gib, ""))
	id := f.id(1)
	if _, err := f.disk.SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: 1, IsReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	err := f.format(id)
	wantKind(t, err, hosterr.ErrFailedPrecondition, "disk 1 is read-only on this node")
	if hint := hosterr.HintOf(err); !strings.Contains(hint, "call SetDiskReadOnly") {
		t.Errorf("hint %q", hint)
	}
}

// Whatever the device answers to the question whether its medium is protected, if it does not
// say yes, the disk goes online and is writable. So does one whose table Windows does not read
// again at once.
func TestMovedDiskWhoseMediumDoesNotAnswer(t *testing.T) {
	f, log := moved(t, nodespec.Config{}, false)
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_IS_WRITABLE {
			return win32.ERROR_CRC
		}
		if c.Code == win32.IOCTL_DISK_UPDATE_PROPERTIES {
			return win32.ERROR_NOT_READY
		}
		return c.Do()
	})
	if err := f.setState(1, true); err != nil || f.readOnly(1) {
		t.Errorf("%v, read-only %t", err, f.readOnly(1))
	}
	for _, text := range []string{"Windows does not say whether a disk is write-protected", "Windows did not read a disk again"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// The disk of a cluster is read-only where another node owns it.
func TestClusteredDiskStaysReadOnly(t *testing.T) {
	d := data(gib, "NTFS")
	d.Offline, d.ReadOnly, d.Clustered = yes(), yes(), true
	f := newFixture(t, nodespec.Config{}, d)
	if err := f.setState(1, true); err != nil || !f.readOnly(1) {
		t.Errorf("%v, read-only %t", err, f.readOnly(1))
	}
}

// Windows may not return the partition table of a disk that is offline. It goes online all the
// same, and stays read-only, because it is not known whether the node needs it.
func TestDiskWithoutATableGoesOnline(t *testing.T) {
	f, log := moved(t, nodespec.Config{}, false)
	online := false
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX && !online {
			return win32.ERROR_INVALID_FUNCTION
		}
		online = online || c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES
		return c.Do()
	})
	if err := f.setState(1, true); err != nil || !f.readOnly(1) {
		t.Errorf("%v, read-only %t", err, f.readOnly(1))
	}
	if strings.Contains(log.String(), "new identity") {
		t.Errorf("log:\n%s", log)
	}
}
