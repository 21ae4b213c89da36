package disk_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// used returns a node with a mounted volume on disk 1.
func used(t *testing.T) (f *fixture, root string) {
	t.Helper()
	f = newFixture(t, nodespec.Config{}, nodespec.Disk{
		Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}})
	return f, `\??\E:\`
}

// create makes a file and returns its handle.
func (f *fixture) create(name string, disposition uint32) (win32.Handle, error) {
	const share = win32.FILE_SHARE_READ | win32.FILE_SHARE_WRITE | win32.FILE_SHARE_DELETE
	return f.Windows.NtCreateFile(0, name, win32.GENERIC_READ|win32.GENERIC_WRITE|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE,
		share, disposition, win32.FILE_NON_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
}

func (f *fixture) exists(name string) bool {
	h, err := f.create(name, win32.FILE_OPEN)
	if err == nil {
		f.Windows.CloseHandle(h)
	}
	return err == nil
}

// Windows takes a disk offline without writing what is in the cache.
func TestSetDiskStateOfflineKeepsWhatWasWritten(t *testing.T) {
	f, root := used(t)
	h, err := f.create(root+"written", win32.FILE_CREATE)
	if err == nil {
		err = f.Windows.CloseHandle(h)
	}
	if err = errors.Join(err, f.setState(1, false), f.setState(1, true)); err != nil {
		t.Fatal(err)
	}
	if !f.exists(root + "written") {
		t.Error("what was written before the disk went offline is lost")
	}
}

// A disk with a mounted volume in use stays online. A program that closes its files in
// time is waited for.
func TestSetDiskStateOfflineOfVolumeInUse(t *testing.T) {
	f, root := used(t)
	h, err := f.create(root+"open", win32.FILE_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	begin := f.Clock.Now()
	wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition, "in use", `E:\`)
	if waited := f.Clock.Now().Sub(begin); !f.online(1) || waited != 5*time.Second {
		t.Errorf("online %t after %s, want an online disk after 5s", f.online(1), waited)
	}
	if open := f.Windows.OpenHandles(); len(open) != 1 {
		t.Errorf("open handles %q, want only that of the file", open)
	}

	locks := 0
	f.Observe(func(c *win32.Call) error {
		err := c.Do()
		if c.Code == win32.FSCTL_LOCK_VOLUME {
			if locks++; locks == 3 {
				err = errors.Join(err, f.Windows.CloseHandle(h))
			}
		}
		return err
	})
	if err := f.setState(1, false); err != nil || f.online(1) {
		t.Errorf("SetDiskState after the file was closed: %v, online %t", err, f.online(1))
	}
}

// A volume that is mounted nowhere does not keep its disk online, and is flushed.
func TestSetDiskStateOfflineOfUnmountedVolumeInUse(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{
		Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
	names, err := f.Windows.VolumeNames()
	if err != nil {
		t.Fatal(err)
	}
	root := `\??\` + strings.TrimPrefix(names[len(names)-1], `\\?\`)
	h, err := f.create(root+"open", win32.FILE_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.setState(1, false); err != nil || f.online(1) {
		t.Fatalf("SetDiskState: %v, online %t", err, f.online(1))
	}
	if err := errors.Join(f.Windows.CloseHandle(h), f.setState(1, true)); err != nil {
		t.Fatal(err)
	}
	if !f.exists(root + "open") {
		t.Error("what was written before the disk went offline is lost")
	}
}

// A volume that cannot be flushed or locked because it is read-only, offline or without a
// file system has nothing to lose.
func TestSetDiskStateOfflineOfVolumeWithoutCache(t *testing.T) {
	for _, e := range []win32.Errno{win32.ERROR_WRITE_PROTECT, win32.ERROR_NOT_READY, win32.ERROR_INVALID_FUNCTION, win32.ERROR_NOT_SUPPORTED} {
		f, _ := used(t)
		f.Observe(func(c *win32.Call) error {
			if c.Name == "FlushFileBuffers" || c.Code == win32.FSCTL_LOCK_VOLUME {
				return e
			}
			return c.Do()
		})
		if err := f.setState(1, false); err != nil || f.online(1) {
			t.Errorf("%s: %v, online %t", e.Name(), err, f.online(1))
		}
	}
}

// A disk that another program takes offline while its volume is waited for is no success, and stays
// as it is.
func TestWaitForAVolumeEndsWithItsDiskOffline(t *testing.T) {
	ntfs := nodespec.Disk{Size: gib, Serial: "S1", Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}, Offline: yes(), ReadOnly: yes()}
	for name, c := range map[string]struct {
		disk nodespec.Disk
		do   func(*fixture) error
	}{
		"PartitionDisk": {nodespec.Disk{Size: gib}, func(f *fixture) error { return f.partition(1) }},
		"SetDiskState":  {ntfs, func(f *fixture) error { return f.setState(1, true) }},
		"disk clear":    {ntfs, func(f *fixture) error { _, err := f.clear(1, "S1", false); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(30 * time.Second)}, c.disk)
			looks, begun := 0, f.Clock.Now()
			f.Observe(func(call *win32.Call) error {
				if call.Name == "VolumeNames" {
					if looks++; looks == 3 {
						in := win32.SetDiskAttributes{Attributes: win32.DISK_ATTRIBUTE_OFFLINE, Mask: win32.DISK_ATTRIBUTE_OFFLINE}.Encode()
						f.Control(t, 1, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil)
					}
				}
				return call.Do()
			})
			wantKind(t, c.do(f), hosterr.ErrUnavailable, "another program took disk 1 offline during the operation")
			if waited := f.Clock.Now().Sub(begun); waited > time.Second || f.online(1) {
				t.Errorf("after %s the disk is online %t", waited, f.online(1))
			}
		})
	}
}

// If another disk gets the number while the volume is waited for, it is not taken for the one that
// went online: a driver would use its volume.
func TestSetDiskStateOnlineOfADiskThatIsReplaced(t *testing.T) {
	ntfs := nodespec.Disk{ID: "one", Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}, Offline: yes(), ReadOnly: yes()}
	f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(30 * time.Second)}, ntfs)
	looks := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "VolumeNames" {
			looks++
		}
		if c.Name == "CreateFile" && strings.Contains(c.Path, "PhysicalDrive1") && looks == 3 {
			looks++
			other := ntfs
			other.ID, other.Offline, other.ReadOnly = "two", new(bool), new(bool)
			if err := f.Windows.Detach(1); err != nil {
				t.Error(err)
			}
			if n := f.attach(other); n != 1 {
				t.Errorf("disk %d, want 1", n)
			}
		}
		return c.Do()
	})
	wantKind(t, f.setState(1, true), hosterr.ErrUnavailable, "disk number 1 went to another disk")
}
