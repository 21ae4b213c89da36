package emulated

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// A volume is locked only while nothing else of it is open, and nothing is opened while it
// is locked.
func TestLockVolume(t *testing.T) {
	n := start(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib, Content: nodespec.ContentGPT,
		Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}}})
	vol := openPath(t, n, devicePath(one(t, n, 1)), readWrite)
	const access = win32.GENERIC_READ | win32.GENERIC_WRITE | win32.SYNCHRONIZE
	open := func(disposition uint32) (win32.Handle, error) {
		return n.NtCreateFile(0, `\??\E:\f`, access, win32.OBJ_CASE_INSENSITIVE, shareBoth, disposition, win32.FILE_SYNCHRONOUS_IO_NONALERT)
	}
	f, err := open(win32.FILE_CREATE)
	ok(t, err)
	failIoctl(t, n, vol, win32.FSCTL_LOCK_VOLUME, nil, 0, win32.ERROR_ACCESS_DENIED)
	// A write on a disk handle, in the middle of the volume.
	disk := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
	write := func(want error) {
		t.Helper()
		if _, err := n.WriteAt(disk, make([]byte, 4096), gib/2); !errors.Is(err, want) {
			t.Errorf("write to the disk: %v, want %v", err, want)
		}
	}
	write(win32.ERROR_ACCESS_DENIED)
	ioctl(t, n, vol, win32.FSCTL_DISMOUNT_VOLUME, nil, 0)
	if err := n.FlushFileBuffers(f); err == nil {
		t.Error("a file of a dismounted volume can be flushed")
	}
	ioctl(t, n, vol, win32.FSCTL_LOCK_VOLUME, nil, 0)
	if _, err := open(win32.FILE_OPEN); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("open a file of a locked volume: %v", err)
	}
	if _, err := n.CreateFile(devicePath(one(t, n, 1)), readWrite, shareBoth, win32.OPEN_EXISTING, 0); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("open a locked volume: %v", err)
	}
	failIoctl(t, n, vol, win32.FSCTL_LOCK_VOLUME, nil, 0, win32.ERROR_ACCESS_DENIED)
	write(nil)
	ok(t, errors.Join(n.CloseHandle(f), n.CloseHandle(vol)))
	write(win32.ERROR_ACCESS_DENIED)
	ok(t, n.CloseHandle(disk))
	f, err = open(win32.FILE_OPEN)
	if err != nil {
		t.Fatalf("open after the lock's handle was closed: %v", err)
	}
	ok(t, n.CloseHandle(f))
}

// What was not flushed is lost when the disk goes offline, and nothing else is.
func TestOfflineLosesCache(t *testing.T) {
	for how, kept := range map[string]bool{"nothing": false, "flush the volume": true, "flush the file": true, "lock": true, "dismount": false} {
		n := start(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: gib, Content: nodespec.ContentGPT,
			Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}}})
		const access = win32.GENERIC_READ | win32.GENERIC_WRITE | win32.SYNCHRONIZE
		open := func(name string, disposition uint32) win32.Handle {
			t.Helper()
			h, err := n.NtCreateFile(0, `\??\E:\`+name, access, win32.OBJ_CASE_INSENSITIVE, shareBoth, disposition, win32.FILE_SYNCHRONOUS_IO_NONALERT)
			ok(t, err)
			return h
		}
		vol := openPath(t, n, devicePath(one(t, n, 1)), readWrite)
		first := open("first", win32.FILE_CREATE)
		ok(t, errors.Join(n.FlushFileBuffers(vol), n.CloseHandle(first)))
		second := open("second", win32.FILE_CREATE)
		if how == "flush the file" {
			ok(t, n.FlushFileBuffers(second))
		}
		ok(t, n.CloseHandle(second))
		switch how {
		case "flush the volume":
			ok(t, n.FlushFileBuffers(vol))
		case "lock":
			ioctl(t, n, vol, win32.FSCTL_LOCK_VOLUME, nil, 0)
		case "dismount":
			ioctl(t, n, vol, win32.FSCTL_DISMOUNT_VOLUME, nil, 0)
		}
		ok(t, n.CloseHandle(vol))
		disk := openPath(t, n, `\\.\PhysicalDrive1`, readWrite)
		for _, attributes := range []uint64{win32.DISK_ATTRIBUTE_OFFLINE, 0} {
			in := win32.SetDiskAttributes{Attributes: attributes, Mask: win32.DISK_ATTRIBUTE_OFFLINE}.Encode()
			ioctl(t, n, disk, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, 0)
		}
		ok(t, n.CloseHandle(disk))
		ok(t, n.CloseHandle(open("first", win32.FILE_OPEN)))
		h, err := n.NtCreateFile(0, `\??\E:\second`, access, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_OPEN, win32.FILE_SYNCHRONOUS_IO_NONALERT)
		if (err == nil) != kept {
			t.Errorf("%s: the second file after the disk was offline: %v, want it kept: %t", how, err, kept)
		}
		if err == nil {
			ok(t, n.CloseHandle(h))
		}
	}
}

// The volume of Windows and those with a page file can be neither locked nor dismounted.
func TestVolumesOfWindowsAreNotLocked(t *testing.T) {
	disk := nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}
	n := start(t, nodespec.Config{
		Disks:    []nodespec.Disk{{Content: nodespec.ContentSystem}, disk},
		Registry: map[string][]string{volume.PageFiles: {`\??\e:\pagefile.sys`}},
	})
	for _, vol := range []string{volume.NameOf(n.systemVolume()), one(t, n, 1)} {
		h := openPath(t, n, devicePath(vol), readWrite)
		failIoctl(t, n, h, win32.FSCTL_LOCK_VOLUME, nil, 0, win32.ERROR_ACCESS_DENIED)
		failIoctl(t, n, h, win32.FSCTL_DISMOUNT_VOLUME, nil, 0, win32.ERROR_ACCESS_DENIED)
	}
}

func TestRegistryText(t *testing.T) {
	const key = `SYSTEM\CurrentControlSet\Control\CrashControl`
	n := start(t, nodespec.Config{Registry: map[string][]string{key + `\DedicatedDumpFile`: {`D:\dump.sys`}}})
	if text, err := n.RegistryText(`System\CurrentControlSet\Control\CrashControl`, "dedicateddumpfile"); err != nil || len(text) != 1 || text[0] != `D:\dump.sys` {
		t.Errorf("RegistryText = %q, %v", text, err)
	}
	if text, err := n.RegistryText(key, "DumpFile"); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("a value that is not there: %q, %v", text, err)
	}
	if text, err := n.RegistryText(`SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management`, "ExistingPageFiles"); err != nil || len(text) != 1 {
		t.Errorf("page files: %q, %v", text, err)
	}
}
