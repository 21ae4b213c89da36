package emulated

import (
	"errors"
	"slices"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// SetVolumeMountPointW, DeleteVolumeMountPointW and their pages, for letters;
// folders are in files_mount_test.go.
func TestLetters(t *testing.T) {
	dir := t.TempDir()
	n := start(t, nodespec.Config{StateDir: dir})
	vol := one2(t, n)
	ok(t, n.SetMountPoint(`g:\`, vol))
	for what, c := range map[string]struct{ got, want error }{
		"letter in use":       {n.SetMountPoint(`C:\`, vol), win32.ERROR_INVALID_PARAMETER},
		"second letter":       {n.SetMountPoint(`H:\`, vol), win32.ERROR_INVALID_PARAMETER},
		"no volume":           {n.SetMountPoint(`H:\`, `C:\`), win32.ERROR_INVALID_PARAMETER},
		"name without end":    {n.SetMountPoint(`H:\`, devicePath(vol)), win32.ERROR_INVALID_PARAMETER},
		"unknown volume":      {n.SetMountPoint(`H:\`, `\\?\Volume{00000000-0000-4000-8000-000000000000}\`), win32.ERROR_FILE_NOT_FOUND},
		"letter of no volume": {n.DeleteMountPoint(`H:\`), win32.ERROR_FILE_NOT_FOUND},
		"letter without end":  {n.SetMountPoint(`H:`, vol), win32.ERROR_INVALID_NAME},
		"paths of no volume":  {failure(n.VolumePathNames(`G:\`)), win32.ERROR_INVALID_NAME},
		"paths of an unknown volume": {
			failure(n.VolumePathNames(`\\?\Volume{00000000-0000-4000-8000-000000000000}\`)), win32.ERROR_FILE_NOT_FOUND,
		},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	ok(t, n.SetMountPoint(`C:\var\lib\kubelet\pods\`, vol))
	if got, err := n.VolumePathNames(vol); err != nil || !slices.Equal(got, []string{`G:\`, `C:\var\lib\kubelet\pods\`}) {
		t.Errorf("VolumePathNames = %q, %v", got, err)
	}
	ok(t, n.Close())

	n = start(t, nodespec.Config{StateDir: dir})
	if got, err := n.VolumeNameForMountPoint(`G:\`); err != nil || got != vol {
		t.Errorf("VolumeNameForMountPoint after opening again = %q, %v, want %q", got, err, vol)
	}
	ok(t, n.DeleteMountPoint(`G:\`))
	if got, err := n.VolumePathNames(vol); err != nil || !slices.Equal(got, []string{`C:\var\lib\kubelet\pods\`}) {
		t.Errorf("VolumePathNames = %q, %v", got, err)
	}
	if _, err := n.VolumeNameForMountPoint(`G:\`); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("VolumeNameForMountPoint of a free letter = %v, want ERROR_FILE_NOT_FOUND", err)
	}
}

func failure(_ []string, err error) error { return err }

// Volumes mounted in each other have infinitely many paths; only those without
// repetition are listed.
func TestMountsInCircle(t *testing.T) {
	n := start(t, nodespec.Config{})
	vol := one2(t, n)
	ok(t, n.Format(vol, quick))
	newDir(t, n, vol+"a")
	newDir(t, n, vol+"b")
	ok(t, n.SetMountPoint(vol+`a\`, vol))
	if got, err := n.VolumePathNames(vol); err != nil || len(got) != 0 {
		t.Errorf("VolumePathNames of a volume that is mounted only in itself = %q, %v, want none", got, err)
	}
	ok(t, n.SetMountPoint(`C:\var\lib\kubelet\pods\`, vol))
	if got, err := n.VolumePathNames(vol); err != nil || !slices.Equal(got, []string{`C:\var\lib\kubelet\pods\`}) {
		t.Errorf("VolumePathNames = %q, %v", got, err)
	}
	// A format deletes the folders of the volume, including the mount point.
	ok(t, n.Format(vol, quick))
	info, err := n.Show()
	if err != nil || len(info.Mounts) != 1 {
		t.Errorf("mounts %+v, %v, want only that on C:", info.Mounts, err)
	}
}

// docs/develop/contract/volumes.md#flush: 19 on a read-only volume.
func TestFlush(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 500*mib))
	v := openPath(t, n, devicePath(one(t, n, 1)), readWrite)
	if err := errors.Join(n.FlushFileBuffers(h), n.FlushFileBuffers(v)); err != nil {
		t.Errorf("FlushFileBuffers = %v", err)
	}
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Attributes: 2, Mask: 2}.Encode(), 0)
	if err := n.FlushFileBuffers(v); !errors.Is(err, win32.ERROR_WRITE_PROTECT) {
		t.Errorf("FlushFileBuffers of a read-only volume = %v, want ERROR_WRITE_PROTECT", err)
	}
	if err := n.FlushFileBuffers(h); err != nil {
		t.Errorf("FlushFileBuffers of a read-only disk = %v", err)
	}
}

func TestBuses(t *testing.T) {
	n := start(t, nodespec.Config{})
	for name, want := range map[string]uint32{
		"": win32.BusTypeSas, "SCSI": win32.BusTypeScsi, "iscsi": win32.BusTypeISCSI, "nvme": win32.BusTypeNvme, "sata": win32.BusTypeSata,
		"ata": win32.BusTypeAta, "virtual": win32.BusTypeVirtual, "vhd": win32.BusTypeFileBackedVirtual,
	} {
		number := attach(t, n, nodespec.Disk{Bus: name, Size: gib})
		if got := n.ByNumber(number).Bus; got != want {
			t.Errorf("bus %q is %d, want %d", name, got, want)
		}
	}
}

// A driver would refuse a request of this size (general knowledge), and it must
// not be written to the journal.
func TestHugeWrite(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	if _, err := n.WriteAt(h, make([]byte, 256<<20+512), 0); !errors.Is(err, win32.ERROR_NO_SYSTEM_RESOURCES) {
		t.Errorf("WriteAt = %v, want ERROR_NO_SYSTEM_RESOURCES", err)
	}
}
