package volume_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winpath"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// fixture is the volume service over an emulated node with the default disk 0,
// which has C:, and more disks.
type fixture struct {
	t *testing.T
	*nodetest.Node
	disk   *disk.Disk
	volume *volume.Volume
}

func newFixture(t *testing.T, cfg nodespec.Config, disks ...nodespec.Disk) *fixture {
	t.Helper()
	cfg.Disks = append([]nodespec.Disk{{Content: nodespec.ContentSystem, Size: 64 * gib}}, disks...)
	f := &fixture{t: t, Node: nodetest.New(t, cfg, nil)}
	var err error
	if f.disk, err = disk.New(diskapi.On(f.Node.Node)); err != nil {
		t.Fatal(err)
	}
	if f.volume, err = volume.New(volumeapi.On(f.Node.Node)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) unchanged(do func()) { f.t.Helper(); f.Unchanged(f.t, do) }
func (f *fixture) write(disk uint32, at int64, text string) {
	f.t.Helper()
	f.Write(f.t, disk, at, text)
}
func (f *fixture) layout(disk uint32) win32.Layout { f.t.Helper(); return f.Layout(f.t, disk) }

var changes, wantKind = nodetest.Changes, nodetest.WantKind

// attach attaches a disk, and makes it online and writable.
func (f *fixture) attach(d nodespec.Disk) {
	f.t.Helper()
	n, err := f.Windows.Attach(d)
	if err == nil {
		err = f.Windows.AwaitDisk(n)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.BringOnline(f.t, n)
	if err := f.Windows.AwaitDisk(n); err != nil { // until its volumes are there
		f.t.Fatal(err)
	}
}

// data returns a disk with one partition that takes the whole disk.
func data(size uint64, fs string) nodespec.Disk {
	return nodespec.Disk{Size: nodespec.Size(size), Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: fs}}}
}

func (f *fixture) list(disk, partition uint32) []string {
	f.t.Helper()
	out, err := f.volume.ListVolumesOnDisk(f.t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: disk, PartitionNumber: partition})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.VolumeIDs
}

// id returns the ID of the only volume of a disk.
func (f *fixture) id(disk uint32) string {
	f.t.Helper()
	ids := f.list(disk, 0)
	if len(ids) != 1 {
		f.t.Fatalf("volumes of disk %d: %q, want one", disk, ids)
	}
	return ids[0]
}

func (f *fixture) formatted(id string) (bool, error) {
	out, err := f.volume.IsVolumeFormatted(f.t.Context(), &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		return false, err
	}
	return out.Formatted, nil
}

func (f *fixture) format(id string) error {
	_, err := f.volume.FormatVolume(f.t.Context(), &volume.FormatVolumeRequest{VolumeID: id})
	return err
}

func (f *fixture) mount(id, path string) error {
	_, err := f.volume.MountVolume(f.t.Context(), &volume.MountVolumeRequest{VolumeID: id, TargetPath: path})
	return err
}

func (f *fixture) unmount(id, path string) error {
	_, err := f.volume.UnmountVolume(f.t.Context(), &volume.UnmountVolumeRequest{VolumeID: id, TargetPath: path})
	return err
}

func (f *fixture) resize(id string, size int64) error {
	_, err := f.volume.ResizeVolume(f.t.Context(), &volume.ResizeVolumeRequest{VolumeID: id, SizeBytes: size})
	return err
}

func (f *fixture) stats(id string) (total, used int64) {
	f.t.Helper()
	out, err := f.volume.GetVolumeStats(f.t.Context(), &volume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.TotalBytes, out.UsedBytes
}

func (f *fixture) mountedAt(path string) (string, error) {
	out, err := f.volume.GetVolumeIDFromTargetPath(f.t.Context(), &volume.GetVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeID, nil
}

func (f *fixture) closest(path string) (string, error) {
	out, err := f.volume.GetClosestVolumeIDFromTargetPath(f.t.Context(), &volume.GetClosestVolumeIDFromTargetPathRequest{TargetPath: path})
	if err != nil {
		return "", err
	}
	return out.VolumeID, nil
}

func (f *fixture) mkdir(paths ...string) {
	f.t.Helper()
	for _, p := range paths {
		if err := winfs.MkdirAll(f.t.Context(), f.Node.Node, p); err != nil {
			f.t.Fatal(err)
		}
	}
}

// length returns the size of the last partition of a disk.
func (f *fixture) length(disk uint32) int64 {
	ps := f.layout(disk).Partitions
	return int64(ps[len(ps)-1].Length)
}

func yes() *bool { b := true; return &b }

const (
	noSuchVolume = `\\?\Volume{00000000-1111-2222-3333-444444444444}\`
	kubelet      = `C:\var\lib\kubelet`
)

// Where Windows has BitLocker, it says that such a volume is locked. Where it has not, the
// volume has no file system, or the FAT in front of BitLocker To Go.
func TestBitLockerIsNamed(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, ""), data(gib, ""))
	for disk, start := range map[uint32]string{
		1: "\xeb\x58\x90-FVE-FS-",
		2: "\xeb\x58\x90MSWIN4.1\x00\x02\x02\x21\x00\x02\x00\x00\x00\x00\xf8\x00\x00\x3f\x00\xff\x00\x00\x08\x00\x00\x00\x20\x03\x00\xd0\x07\x00\x00",
	} {
		ps := f.layout(disk).Partitions
		at := int64(ps[len(ps)-1].Offset)
		f.write(disk, at, start)
		f.write(disk, at+0x1a8, "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01")
		f.write(disk, at+510, "\x55\xaa")
	}
	f.unchanged(func() {
		_, err := f.formatted(f.id(1))
		wantKind(t, err, hosterr.ErrFailedPrecondition, "(BitLocker)")
		wantKind(t, f.format(f.id(1)), hosterr.ErrFailedPrecondition, "(BitLocker)")
		if is, err := f.formatted(f.id(2)); !is || err != nil {
			t.Errorf("BitLocker To Go: formatted is %t, %v, want the FAT that Windows mounts", is, err)
		}
		wantKind(t, f.format(f.id(2)), hosterr.ErrFailedPrecondition, "FAT32, in front of a BitLocker volume")
		f.Observe(func(c *win32.Call) error {
			if changes(c) {
				t.Errorf("unexpected change: %v", c)
			}
			if c.Name == "VolumeInformation" {
				return win32.Errno(0x80310000) // FVE_E_LOCKED_VOLUME
			}
			return c.Do()
		})
		for disk := range uint32(2) {
			_, err := f.formatted(f.id(disk + 1))
			wantKind(t, err, hosterr.ErrFailedPrecondition, "locked by BitLocker")
			wantKind(t, f.format(f.id(disk+1)), hosterr.ErrFailedPrecondition, "locked by BitLocker")
			wantKind(t, f.resize(f.id(disk+1), 0), hosterr.ErrFailedPrecondition, "locked by BitLocker")
		}
	})
}

func TestFormatVolumeWithUnknownContent(t *testing.T) {
	for _, at := range []int64{0, 5000, mib - 1, -mib, -1} {
		f := newFixture(t, nodespec.Config{}, data(gib, ""))
		ps := f.layout(1).Partitions
		p := ps[len(ps)-1]
		if at < 0 {
			at += int64(p.Length)
		}
		f.write(1, int64(p.Offset)+at, "\x01")
		id := f.id(1)
		f.unchanged(func() {
			_, err := f.formatted(id)
			wantKind(t, err, hosterr.ErrFailedPrecondition, fmt.Sprintf("unknown content at byte %d", int64(p.Offset)+at))
			wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "unknown content")
			wantKind(t, f.resize(id, 0), hosterr.ErrFailedPrecondition)
		})
		f.Node.DiskContent = rules.DiskContentUnknown
		if got, err := f.formatted(id); got || err != nil {
			t.Errorf("unknown content at %d, with the flag: formatted is %t, %v", at, got, err)
		}
		if err := f.format(id); err != nil {
			t.Errorf("unknown content at %d, with the flag: %v", at, err)
		}
		if got, err := f.formatted(id); !got || err != nil {
			t.Errorf("after the format: %t, %v", got, err)
		}
	}
}

// The directories that Windows makes on every volume are no content.
func TestFormatVolumeIgnoresDirectoriesOfWindows(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	id := f.id(1)
	f.mkdir(kubelet + `\m`)
	if err := f.mount(id, kubelet+`\m`); err != nil {
		t.Fatal(err)
	}
	f.mkdir(kubelet + `\m\System Volume Information`)
	if err := f.format(id); err != nil {
		t.Error(err)
	}
}

// The local static provisioner reclaims a volume by formatting it.
func TestFormatVolumeExisting(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.mkdir(kubelet + `\m`)
	id := f.id(1)
	if err := f.mount(id, kubelet+`\m`); err != nil {
		t.Fatal(err)
	}
	f.mkdir(kubelet + `\m\data`)
	err := f.format(id)
	wantKind(t, err, hosterr.ErrFailedPrecondition, "data")
	if hint := hosterr.HintOf(err); !strings.Contains(hint, "-format-existing=ntfs") {
		t.Errorf("hint %q, want the flag in it", hint)
	}
	f.Node.FormatExisting = true
	for range 2 { // again after a lost response
		if err := f.format(id); err != nil {
			t.Fatal(err)
		}
	}
	if exists, err := winfs.Exists(t.Context(), f.Node.Node, kubelet+`\m\data`); err != nil || exists {
		t.Errorf("the data is still there: %t, %v", exists, err)
	}
	other := node.New(otherFS{f.Node.API, "ReFS"})
	other.FormatExisting = true
	if err := f.Windows.Grow(1, 2*gib); err != nil {
		t.Fatal(err)
	}
	// An emulated node has no ReFS, but Windows may report it.
	wantKind(t, volumeapi.On(other).FormatVolume(id), hosterr.ErrFailedPrecondition, "ReFS")
	wantKind(t, volumeapi.On(other).ResizeVolume(id, 0), hosterr.ErrFailedPrecondition, "ReFS")
	for _, system := range f.list(0, 0) {
		wantKind(t, f.format(system), hosterr.ErrFailedPrecondition)
	}
}

// Another program formats the volume and creates a directory before the k-th Win32 call
// of FormatVolume, for each k. Its data may only be lost if it comes directly before the
// call of Format.
func TestFormatVolumeKeepsConcurrentContent(t *testing.T) {
	happened := 0
	for k := 1; ; k++ {
		f := newFixture(t, nodespec.Config{}, data(gib, ""))
		id := f.id(1)
		calls, filled, before, last := 0, false, "", ""
		f.Observe(func(c *win32.Call) error {
			again := c.Name == "ReadAt" && last == c.Name // the reads of a look count as one
			if last = c.Name; again {
				return c.Do()
			}
			if calls++; calls == k {
				before = c.Name
				// This fails while the service has the volume open.
				if err := f.Windows.Format(id, win32.FormatOptions{Direct: true}); err == nil {
					h, err := f.Windows.NtCreateFile(0, `\??\`+id[4:]+`precious`, win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE,
						win32.FILE_SHARE_READ, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
					if err := errors.Join(err, f.Windows.CloseHandle(h)); err != nil {
						t.Fatal(err)
					}
					filled = true
				} else if !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
					t.Fatal(err)
				}
			}
			return c.Do()
		})
		err := f.format(id)
		f.Observe(nil)
		if filled && before != "Format" {
			happened++
			if _, lost := f.Windows.Attributes(id + `precious`); lost != nil {
				t.Errorf("before call %d, %s: %v, and then: %v", k, before, err, lost)
			}
		}
		if before == "Format" {
			break
		}
	}
	if happened < 10 {
		t.Errorf("the other program formatted the volume in %d runs, want more", happened)
	}
}

func TestFormatVolumeRefusesDisksOfWindows(t *testing.T) {
	f := newFixture(t, nodespec.Config{},
		nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: gib, Type: "recovery"}, {Size: gib}}},
		data(gib, ""))
	f.unchanged(func() {
		for _, id := range f.list(1, 0) {
			wantKind(t, f.format(id), hosterr.ErrFailedPrecondition)
		}
	})
	f.Observe(func(c *win32.Call) error {
		if c.Name == "WindowsDirectory" {
			return win32.ERROR_GEN_FAILURE
		}
		if changes(c) {
			t.Errorf("change: %v", c)
		}
		return c.Do()
	})
	wantKind(t, f.format(f.id(2)), hosterr.ErrFailedPrecondition, "cannot find out which disks the node needs, so no disk with partitions is changed")
	f.Observe(nil)
}

type otherFS struct {
	win32.API
	name string
}

func (o otherFS) VolumeInformation(string) (win32.VolumeInfo, error) {
	return win32.VolumeInfo{FileSystem: o.name}, nil
}

func TestFormatVolumeRetriesVolumeInUse(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, ""))
	tries := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Format" {
			if tries++; tries < 3 {
				return win32.ERROR_ACCESS_DENIED
			}
		}
		return c.Do()
	})
	if err := f.format(f.id(1)); err != nil || tries != 3 {
		t.Errorf("%v after %d tries, want success after 3", err, tries)
	}
}

// FormatVolume fails if Windows reports success without a file system.
func TestFormatVolumeVerifiesResult(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, ""))
	f.Fail("Format", 0, nil)
	wantKind(t, f.format(f.id(1)), hosterr.ErrUnavailable, "NTFS")
}

// Another program replaces the directory at the last moment. The request fails, and the
// next one looks at the directory that is there then.
func TestMountOnAReplacedDirectory(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	id, target := f.id(1), kubelet+`\plugins\m`
	f.mkdir(target)
	f.Observe(func(c *win32.Call) error {
		if c.Name == "SetMountPoint" {
			f.Observe(nil)
			if err := winfs.Remove(t.Context(), f.Node.Node, target); err != nil {
				t.Fatal(err)
			}
			f.mkdir(target)
		}
		return c.Do()
	})
	wantKind(t, f.mount(id, target), hosterr.ErrUnavailable, "replaced the directory")
	if err := f.mount(id, target); err != nil {
		t.Errorf("mounting again: %v", err)
	}
	if got, err := f.mountedAt(target); !strings.EqualFold(got, id) || err != nil {
		t.Errorf("mounted: %q, %v, want %q", got, err, id)
	}
}

func TestTextsOfMountVolume(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.mkdir(kubelet)
	f.unchanged(func() {
		missing := f.mount(f.id(1), kubelet+`\missing`)
		wantKind(t, missing, hosterr.ErrNotFound, "the target directory does not exist", "The system cannot find the file specified.")
		if hint := hosterr.HintOf(missing); !strings.Contains(hint, "the driver makes it") {
			t.Errorf("hint %q, want who makes the directory", hint)
		}
		if f, _ := runtime.CallersFrames([]uintptr{hosterr.SourceOf(missing)}).Next(); filepath.Base(f.File) != "mount.go" {
			t.Errorf("the place of %v is %s:%d, want mount.go", missing, f.File, f.Line)
		}
		// The field as the published library spells it; package wire makes it that of the API.
		if err := f.mount("", kubelet); err == nil || err.Error() != "MountVolumeRequest.VolumeID is empty" {
			t.Errorf("without a volume: %v", err)
		}
	})
}

// If one of these volumes were mounted below a container's directory, the container could read it.
func TestMountRefusesVolumesOfWindows(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPT,
		Partitions: []nodespec.Partition{{Size: gib, Type: "recovery", FileSystem: "NTFS"}, {Size: gib, FileSystem: "NTFS"}}})
	target := kubelet + `\m`
	f.mkdir(target)
	system := append(f.list(0, 0), f.list(1, 0)[0])
	if len(system) != 3 {
		t.Fatalf("volumes: %q, want EFI, Windows and recovery", system)
	}
	f.unchanged(func() {
		for i, want := range []string{"EFI system partition", "holds Windows", "recovery partition"} {
			wantKind(t, f.mount(system[i], target), hosterr.ErrFailedPrecondition, want)
		}
	})
	if err := f.mount(f.list(1, 0)[1], target); err != nil {
		t.Errorf("a data volume next to a recovery partition: %v", err)
	}
}

func TestUnmountFlushes(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	id, target := f.id(1), kubelet+`\m`
	f.mkdir(target)
	if err := f.mount(id, target); err != nil {
		t.Fatal(err)
	}
	var order []string
	f.Observe(func(c *win32.Call) error {
		switch c.Name {
		case "FlushFileBuffers":
			order = append(order, c.Name)
			return win32.ERROR_IO_DEVICE
		case "DeleteMountPoint":
			order = append(order, c.Name)
		}
		return c.Do()
	})
	if err := f.unmount(id, target); err != nil || !slices.Equal(order, []string{"FlushFileBuffers", "DeleteMountPoint"}) {
		t.Errorf("%v after the calls %v, want success after flush and delete", err, order)
	}
	f.Fail("FlushFileBuffers", 0, win32.ERROR_WRITE_PROTECT) // which has nothing to flush
	if _, err := f.volume.WriteVolumeCache(t.Context(), &volume.WriteVolumeCacheRequest{VolumeID: id}); err != nil {
		t.Errorf("WriteVolumeCache of a write-protected volume: %v", err)
	}
	f.Observe(nil)
}

// A device that is missing for a moment does not mean that nothing is mounted. Before, the
// volume stayed mounted after an UnmountVolume that succeeded.
func TestUnmountWhileADeviceIsMissing(t *testing.T) {
	for _, missing := range []win32.Errno{win32.ERROR_NO_SUCH_DEVICE, win32.ERROR_DEVICE_NOT_CONNECTED, win32.ERROR_DEVICE_REMOVED} {
		f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
		id, target := f.id(1), kubelet+`\m`
		f.mkdir(target)
		if err := f.mount(id, target); err != nil {
			t.Fatal(err)
		}
		away := func(times int) {
			f.Observe(func(c *win32.Call) error {
				if c.Name == "NtCreateFile" && times > 0 {
					times--
					return missing
				}
				return c.Do()
			})
		}
		away(2)
		if err := f.unmount(id, target); err != nil {
			t.Fatalf("%v for a moment: %v", missing, err)
		}
		f.Observe(nil)
		_, err := f.mountedAt(target)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "not a mounted folder")
		// One that stays away has no mount points.
		away(math.MaxInt)
		if err := f.unmount(id, target); err != nil {
			t.Errorf("%v for good: %v", missing, err)
		}
	}
}

func TestPathsOutsideWorkingDirectories(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.Node.WorkingDirs = []string{kubelet} // read by the first request, so others make what is outside
	other := node.New(f.Windows)
	for _, dir := range []string{kubelet + `\m`, `C:\outside\m`} {
		if err := winfs.MkdirAll(t.Context(), other, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := winfs.Symlink(t.Context(), other, `C:\outside`, kubelet+`\way-out`); err != nil {
		t.Fatal(err)
	}
	id := f.id(1)
	f.unchanged(func() {
		_, mounted := f.mountedAt(`C:\outside\m`)
		_, closest := f.closest(kubelet + `\way-out\m`)
		for _, err := range []error{f.mount(id, `C:\outside\m`), f.mount(id, kubelet+`\way-out\m`), f.unmount(id, kubelet+`\way-out\m`), f.mount(id, kubelet), mounted, closest} {
			wantKind(t, err, hosterr.ErrPermissionDenied)
		}
	})
	if err := f.mount(id, kubelet+`\m`); err != nil {
		t.Error(err)
	}
}

// The volumes of a disk that was attached with partitions are offline, and do not say
// where they lie. Those of other disks, and of one that Windows may need, stay so.
func TestListVolumesOnDiskWithOfflineVolumes(t *testing.T) {
	for _, value := range []string{behavior.OfflineSilent, behavior.OfflineLocated} {
		f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineVolumes: value})})
		two := nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 * mib}, {FileSystem: "NTFS"}}}
		windows := nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 * mib, Type: "recovery"}, {}}}
		for _, d := range []nodespec.Disk{two, two, windows} {
			f.attach(d)
		}
		var online []string
		f.Observe(func(c *win32.Call) error {
			if c.Code == win32.IOCTL_VOLUME_ONLINE {
				online = append(online, c.Path)
			}
			return c.Do()
		})
		if ids := f.list(1, 0); len(ids) != 2 {
			t.Errorf("%s: volumes %q, want two", value, ids)
		}
		if ids := f.list(1, 3); len(ids) != 1 {
			t.Errorf("%s: volumes %q of partition 3, want one", value, ids)
		}
		f.list(3, 0)
		var want []string
		if value == behavior.OfflineSilent {
			want = []string{`\\?\Harddisk1Partition2`, `\\?\Harddisk1Partition3`}
		}
		if !slices.Equal(online, want) {
			t.Errorf("%s: brought online %q, want %q", value, online, want)
		}
	}
}

// When its caller is gone, a look at the volumes of a disk ends with the caller's error.
func TestVolumesOfDiskEndWithTheirCaller(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 * mib}, {Size: 100 * mib}, {}}})
	for what, how := range map[string]func(*win32.Call) error{
		"and goes on":    (*win32.Call).Do,
		"and is refused": func(*win32.Call) error { return win32.ERROR_INVALID_FUNCTION },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		f.Observe(func(c *win32.Call) error {
			if c.Code != win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS {
				return c.Do()
			}
			asked++
			cancel()
			return how(c)
		})
		all, err := storage.OnDisk(ctx, f.Node.Node, 1, 0, false)
		f.Observe(nil)
		if !errors.Is(err, context.Canceled) || len(all) != 0 || asked != 1 {
			t.Errorf("%s: %v, %v after %d volumes, want the caller's error after one", what, all, err, asked)
		}
	}
}

// A list is complete, or an error names the volume that may be missing. Before, a list left out
// a volume that another program kept busy.
func TestListVolumesOnDiskWithBusyVolumes(t *testing.T) {
	for what, spec := range map[string]nodespec.Disk{
		"partitions":         {Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 * mib}, {FileSystem: "NTFS"}}},
		"no partition table": {Content: nodespec.ContentSuperfloppy},
	} {
		t.Run(what, func(t *testing.T) {
			spec.Size = gib
			f := newFixture(t, nodespec.Config{}, spec, spec)
			want, foreign := f.list(1, 0), f.list(2, 0)
			if len(want) == 0 {
				t.Fatal("the disk has no volumes")
			}
			busy := want[len(want)-1]
			// fail lets the opening of a volume, by each of its names, fail for some time.
			fail := func(volume, device string, code win32.Errno, limit time.Duration) {
				end := f.Clock.Now().Add(limit)
				f.Observe(func(c *win32.Call) error {
					if changes(c) {
						t.Errorf("unexpected change: %v", c)
					}
					if c.Name == "CreateFile" && (c.Path+`\` == volume || strings.Contains(c.Path, device)) && f.Clock.Now().Before(end) {
						return code
					}
					return c.Do()
				})
			}
			const own, others = "Harddisk1Partition", "Harddisk2Partition"

			for _, code := range []win32.Errno{win32.ERROR_SHARING_VIOLATION, win32.ERROR_ACCESS_DENIED, win32.ERROR_IO_DEVICE, win32.ERROR_NOT_READY, win32.ERROR_NO_SUCH_DEVICE} {
				fail(busy, own, code, 700*time.Millisecond)
				if ids := f.list(1, 0); !slices.Equal(ids, want) {
					t.Errorf("%v for a moment: volumes %q, want %q", code, ids, want)
				}
			}

			fail(busy, own, win32.ERROR_SHARING_VIOLATION, time.Hour)
			_, err := f.volume.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
			wantKind(t, err, hosterr.ErrUnavailable, "volume "+hosterr.Quote(busy)+" does not say where it lies, and may be one of disk 1: ")
			if hosterr.HintOf(err) == "" {
				t.Error("the error has no hint")
			}
			wantKind(t, f.setState(1, false), hosterr.ErrUnavailable, "does not say where it lies")

			// The partitions of disk 1 do not answer, so all volumes are asked. A broken one of
			// another disk does not matter.
			begun := f.Clock.Now()
			f.Observe(func(c *win32.Call) error {
				if c.Name == "CreateFile" && (strings.Contains(c.Path, own) || strings.Contains(c.Path, others) || slices.Contains(foreign, c.Path+`\`)) {
					return win32.ERROR_IO_DEVICE
				}
				return c.Do()
			})
			if ids := f.list(1, 0); !slices.Equal(ids, want) {
				t.Errorf("with a broken volume on another disk: volumes %q, want %q", ids, want)
			}
			if took := f.Clock.Now().Sub(begun); took > time.Second {
				t.Errorf("the list took %v, want no wait for the volume of another disk", took)
			}
		})
	}
}

// otherDevice is a node on which the device of another disk hangs, or its volume cannot be opened.
// Windows opens a device without access, and says where a volume lies, without accessing the device
// (Microsoft: CreateFileW, dwDesiredAccess; the volume manager knows the extents).
type otherDevice struct {
	win32.API
	t     *testing.T
	names []string // of its disk and volume, in lower case
	fails error    // of the opening of the volume, or nil
}

func (d otherDevice) is(path string) bool {
	return slices.ContainsFunc(d.names, func(name string) bool { return strings.HasPrefix(strings.ToLower(path), name) })
}

func (d otherDevice) CreateFile(path string, access, share, disposition, flags uint32) (win32.Handle, error) {
	if d.is(path) {
		if access != 0 {
			d.t.Errorf("opens %s with access %#x, which waits for its device", path, access)
		}
		if d.fails != nil {
			return 0, d.fails
		}
	}
	return d.API.CreateFile(path, access, share, disposition, flags)
}

// A device of another disk that hangs or fails neither delays nor fails what is done to a disk.
func TestOtherDeviceThatHangsOrFails(t *testing.T) {
	target := kubelet + `\m`
	life := func(t *testing.T, fails error) time.Duration {
		f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(2 * time.Second)}, nodespec.Disk{Size: gib}, data(gib, "NTFS"))
		f.mkdir(target)
		other := f.id(2)
		f.Node.Node.API = otherDevice{f.Node.Node.API, t, []string{`\\.\physicaldrive2`, `\\?\harddisk2`, strings.ToLower(strings.TrimSuffix(other, `\`))}, fails}
		f.Observe(func(c *win32.Call) error {
			if (otherDevice{names: f.Node.Node.API.(otherDevice).names}).is(c.Path) && c.Name != "CreateFile" && c.Name != "CloseHandle" && c.Code != win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS {
				t.Errorf("%v waits for the other device", c)
			}
			return c.Do()
		})
		begun := f.Clock.Now()
		id := freshVolume(f)
		part := func() error {
			_, err := f.disk.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1})
			return err
		}
		if err := errors.Join(f.format(id), f.mount(id, target), part(), f.Windows.Grow(1, 2*gib), f.resize(id, 0), f.unmount(id, target), f.setState(1, false), f.setState(1, true)); err != nil {
			t.Error(err)
		}
		if again := f.id(1); again != id {
			t.Errorf("volume %s, want %s", again, id)
		}
		return f.Clock.Now().Sub(begun)
	}
	hangs := life(t, nil)
	for _, code := range []win32.Errno{win32.ERROR_IO_DEVICE, win32.ERROR_SHARING_VIOLATION, win32.ERROR_NOT_READY, win32.ERROR_SEM_TIMEOUT} {
		if took := life(t, code); took != hangs {
			t.Errorf("%v: it took %v, want %v", code, took, hangs)
		}
	}
}

// Windows need not make a volume of another system's partition. That one is not waited for.
func TestPartitionWithoutVolumeBesideABrokenOne(t *testing.T) {
	two := nodespec.Disk{Size: gib, Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{Size: 100 * mib}, {FileSystem: "NTFS"}}}
	f := newFixture(t, nodespec.Config{}, two, data(gib, "NTFS"))
	ids, other := f.list(1, 0), f.id(2)
	f.Observe(func(c *win32.Call) error {
		switch {
		case c.Name == "CreateFile" && c.Path+`\` == ids[0]:
			return win32.ERROR_FILE_NOT_FOUND
		case c.Name == "CreateFile" && c.Path+`\` == other:
			return win32.ERROR_IO_DEVICE
		}
		err := c.Do()
		if c.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX && err == nil {
			l, err := win32.DecodeLayout(c.Out[:c.N])
			if err != nil {
				return err
			}
			l.Partitions[0].MBRType = 0x83
			copy(c.Out, l.Encode())
		}
		return err
	})
	begun := f.Clock.Now()
	if got := f.list(1, 0); !slices.Equal(got, ids[1:]) || f.Clock.Now() != begun {
		t.Errorf("volumes %q after %v, want %q at once", got, f.Clock.Now().Sub(begun), ids[1:])
	}
}

// A driver lists a volume that is offline, because it is new and automount is off, and
// uses it.
func TestOfflineVolumeIsBroughtOnline(t *testing.T) {
	const target = kubelet + `\offline`
	for name, use := range map[string]func(f *fixture, id string) error{
		"is formatted": func(f *fixture, id string) error {
			formatted, err := f.formatted(id)
			if err == nil && !formatted {
				err = errors.New("it is not formatted")
			}
			return err
		},
		"format": func(f *fixture, id string) error { return f.format(id) },
		"mount":  func(f *fixture, id string) error { return f.mount(id, target) },
		"resize": func(f *fixture, id string) error { return f.resize(id, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineVolumes: behavior.OfflineLocated})})
			f.mkdir(target)
			f.attach(data(gib, "NTFS"))
			id := f.id(1)
			if _, err := f.Windows.VolumeInformation(id); !errors.Is(err, win32.ERROR_NOT_READY) {
				t.Fatalf("VolumeInformation = %v, want an offline volume", err)
			}
			if err := use(f, id); err != nil {
				t.Error(err)
			}
			if _, err := f.Windows.VolumeInformation(id); err != nil {
				t.Errorf("the volume is not online: %v", err)
			}
		})
	}
}

func TestResizeVolume(t *testing.T) {
	const before, most = 1007 * mib, 3055 * mib // of a disk of 1 GiB, grown to 3 GiB
	cases := []struct {
		name string
		size int64
		want int64 // the partition's length
		kind error
	}{
		{"0 is the maximum", 0, most, nil},
		{"less than 1 MiB more", before + mib - 1, before, nil},
		{"a byte more than 100 MiB more", before + 100*mib + 1, before + 100*mib, nil},
		{"more than the maximum", most + 1, before, hosterr.ErrOutOfRange},
	}
	for name, windows := range map[string]struct {
		end     string
		refused win32.Errno
	}{
		"moves":                            {behavior.GPTEndMoves, 0},
		"stays, Windows says invalid":      {behavior.GPTEndStays, win32.ERROR_INVALID_PARAMETER},
		"stays, Windows says full":         {behavior.GPTEndStays, win32.ERROR_DISK_FULL},
		"stays, Windows says unsuccessful": {behavior.GPTEndStays, win32.ERROR_GEN_FAILURE},
		"stays, Windows says I/O error":    {behavior.GPTEndStays, win32.ERROR_IO_DEVICE},
	} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s, the end of the GPT %s", c.name, name), func(t *testing.T) {
				f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{GPTEnd: windows.end})}, nodespec.Disk{Size: gib})
				f.Observe(func(c *win32.Call) error {
					err := c.Do()
					if err != nil && c.Code == win32.IOCTL_DISK_GROW_PARTITION {
						err = windows.refused
					}
					return err
				})
				if _, err := f.disk.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
					t.Fatal(err)
				}
				id := f.id(1)
				if err := f.format(id); err != nil {
					t.Fatal(err)
				}
				total, _ := f.stats(id)
				if err := f.Windows.Grow(1, 3*gib); err != nil {
					t.Fatal(err)
				}
				err := f.resize(id, c.size)
				if c.kind != nil {
					wantKind(t, err, c.kind, fmt.Sprint(int64(most)))
				} else if err != nil {
					t.Fatal(err)
				}
				if got := f.length(1); got != c.want {
					t.Errorf("the partition has %d bytes, want %d", got, c.want)
				}
				if grown, _ := f.stats(id); grown-total != c.want-before {
					t.Errorf("the file system grew by %d bytes, want %d", grown-total, c.want-before)
				}
				f.unchanged(func() {
					if err := f.resize(id, c.size); (err != nil) != (c.kind != nil) {
						t.Errorf("again: %v", err)
					}
				})
			})
		}
	}
}

// A growth that was done although Windows reported an error is not done twice, and a table
// whose end Windows moves by itself need not be written.
func TestResizeVolumeLooksAgainBeforeItGrowsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		windows behavior.Windows
		call    func(*win32.Call) error
	}{
		"the growth is done and reported as failed": {behavior.Windows{}, func(c *win32.Call) error {
			if err := c.Do(); err != nil || c.Code != win32.IOCTL_DISK_GROW_PARTITION {
				return err
			}
			return win32.ERROR_GEN_FAILURE
		}},
		"the table is not written": {behavior.Windows{GPTEnd: behavior.GPTEndMoves}, func(c *win32.Call) error {
			if c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
				return win32.ERROR_INVALID_PARAMETER
			}
			return c.Do()
		}},
	} {
		f := newFixture(t, nodespec.Config{World: behavior.In("", c.windows)}, data(gib, "NTFS"))
		if err := f.Windows.Grow(1, 8*gib); err != nil {
			t.Fatal(err)
		}
		f.Observe(c.call)
		if err := f.resize(f.id(1), 3*gib); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.Observe(nil)
		if got := f.length(1); got > 3*gib || got < 3*gib-mib {
			t.Errorf("%s: the partition has %d bytes, want %d", name, got, 3*gib)
		}
	}
}

func TestResizeVolumeRefusesVolumeOfWindows(t *testing.T) {
	f := newFixture(t, nodespec.Config{})
	if err := f.Windows.Grow(0, 128*gib); err != nil {
		t.Fatal(err)
	}
	root, err := f.Windows.VolumeNameForMountPoint(`C:\`)
	if err != nil {
		t.Fatal(err)
	}
	f.unchanged(func() {
		if err := f.resize(root, 1); err != nil {
			t.Errorf("nothing to do: %v", err)
		}
		wantKind(t, f.resize(root, 0), hosterr.ErrFailedPrecondition)
	})
}

// A change holds the locks of everything that it changes.
func TestChangesTakeLocks(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	id, target := f.id(1), kubelet+`\m`
	f.mkdir(target)
	if err := f.Windows.Grow(1, 2*gib); err != nil {
		t.Fatal(err)
	}
	path, err := winpath.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	onPath := func(ctx context.Context) (func(), error) { return f.Node.Locks.Paths.LockPath(ctx, path.Key()) }
	onVolume := func(ctx context.Context) (func(), error) {
		return f.Node.Locks.Volumes.RLock(ctx, strings.ToLower(id))
	}
	onDisk := func(ctx context.Context) (func(), error) { return f.Node.Locks.Disks.RLock(ctx, "1") }
	for _, c := range []struct {
		name  string
		at    func(*win32.Call) bool
		do    func() error
		locks []func(context.Context) (func(), error)
	}{
		{"mount", func(c *win32.Call) bool { return c.Name == "SetMountPoint" },
			func() error { return f.mount(id, target) }, []func(context.Context) (func(), error){onPath, onVolume}},
		{"unmount", func(c *win32.Call) bool { return c.Name == "DeleteMountPoint" },
			func() error { return f.unmount(id, target) }, []func(context.Context) (func(), error){onPath, onVolume}},
		{"resize", func(c *win32.Call) bool { return c.Code == win32.IOCTL_DISK_GROW_PARTITION },
			func() error { return f.resize(id, 0) }, []func(context.Context) (func(), error){onVolume, onDisk}},
	} {
		asked := false
		f.Observe(func(call *win32.Call) error {
			if c.at(call) {
				asked = true
				for i, lock := range c.locks {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					if unlock, err := lock(ctx); err == nil {
						unlock()
						t.Errorf("%s: lock %d is free", c.name, i)
					}
					cancel()
				}
			}
			return call.Do()
		})
		if err := c.do(); err != nil || !asked {
			t.Errorf("%s: %v, the call was seen: %t", c.name, err, asked)
		}
		f.Observe(nil)
	}
}

// A driver may use its own HostAPI.
type foreign struct{ volumeapi.HostAPI }

func (foreign) GetVolumeStats(string) (int64, int64, error) { return -1, -1, win32.ERROR_CRC }
func (foreign) WriteVolumeCache(string) error               { panic("boom") }

func TestOtherHostAPI(t *testing.T) {
	v, err := volume.New(foreign{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := v.GetVolumeStats(t.Context(), &volume.GetVolumeStatsRequest{VolumeID: "v"}); out != nil || !errors.Is(err, win32.ERROR_CRC) {
		t.Errorf("GetVolumeStats = %v, %v, want the host's error", out, err)
	}
	var p *node.PanicError
	if _, err := v.WriteVolumeCache(t.Context(), &volume.WriteVolumeCacheRequest{VolumeID: "v"}); !errors.As(err, &p) {
		t.Errorf("WriteVolumeCache of a host that panics: %v, want a PanicError", err)
	}
	// The panic released the lock.
	if _, err := v.WriteVolumeCache(t.Context(), &volume.WriteVolumeCacheRequest{VolumeID: "v"}); !errors.As(err, &p) {
		t.Errorf("again: %v, want a PanicError", err)
	}
}

func TestVolumeRegexp(t *testing.T) {
	if got := volumeapi.VolumeRegexp.FindString(`\\?\Volume{abc-1}\dir`); got != "Volume{abc-1}" {
		t.Errorf("found %q", got)
	}
}

// The volume device reports its partition's new size with a delay.
func TestResizeVolumeWaitsForVolume(t *testing.T) {
	for _, test := range []struct {
		looks int
		kind  error
	}{{3, nil}, {1 << 30, hosterr.ErrUnavailable}} {
		f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
		id := f.id(1)
		if err := f.Windows.Grow(1, 3*gib); err != nil {
			t.Fatal(err)
		}
		looks, begin := 0, f.Clock.Now()
		f.Observe(func(c *win32.Call) error {
			err := c.Do()
			if c.Code == win32.IOCTL_DISK_GET_LENGTH_INFO && strings.Contains(c.Path, "Volume") {
				if looks++; looks <= test.looks {
					copy(c.Out, win32.EncodeLength(gib/2))
				}
			}
			return err
		})
		if err := f.resize(id, 0); hosterr.KindOf(err) != test.kind || (err == nil) != (test.kind == nil) {
			t.Errorf("%v after %d reads of the length, want kind %v", err, looks, test.kind)
		}
		if waited := f.Clock.Now().Sub(begin); waited > 32*time.Second {
			t.Errorf("waited %s, want at most about 30s", waited)
		}
		f.Observe(nil)
		if err := f.resize(id, 0); err != nil {
			t.Error(err)
		}
		if total, _ := f.stats(id); total < 2*gib {
			t.Errorf("the file system has %d bytes after the retry, want about 3 GiB", total)
		}
	}
}

// freshVolume partitions disk 1 and returns its new volume, which no program has asked for.
func freshVolume(f *fixture) string {
	f.t.Helper()
	if _, err := f.disk.PartitionDisk(f.t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		f.t.Fatal(err)
	}
	return f.id(1)
}

// A volume that was made by control codes is formatted although WMI's storage provider does
// not know it yet, whatever Windows says about it then.
func TestFormatVolumeThatWMIDoesNotKnow(t *testing.T) {
	for _, c := range []struct {
		knows           string
		delay, want     time.Duration // of the provider's cache, and of FormatVolume
		formats, direct int
	}{
		{behavior.FormatAtOnce, 0, 0, 1, 0},
		{behavior.FormatUpdated, 0, 0, 2, 0},
		{behavior.FormatUpdated, 20 * time.Second, 25 * time.Second, 20, 0},
		{behavior.FormatUpdated, time.Hour, 50 * time.Second, 40, 1},
		{behavior.FormatRefuses, 0, 0, 2, 0},
		{behavior.FormatRefuses, time.Hour, 0, 3, 1},
		{behavior.FormatNever, 0, 0, 2, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{StorageCacheDelay: nodespec.Duration(c.delay), World: behavior.In("", behavior.Windows{FormatKnows: c.knows})}, nodespec.Disk{Size: gib})
			id := freshVolume(f)
			var log bytes.Buffer
			f.Node.Node.Log = slog.New(slog.NewTextHandler(&log, nil))
			formats, unchecked := 0, true
			f.Observe(func(call *win32.Call) error {
				switch call.Name {
				case "VolumeInformation":
					unchecked = false
				case "Format":
					if formats++; unchecked {
						t.Errorf("%s: format %d without a check of the volume right before", c.knows, formats)
					}
					unchecked = true
				}
				return call.Do()
			})
			clock := f.Node.Node.Clock
			begin := clock.Now()
			err := f.format(id)
			took := clock.Now().Sub(begin)
			if err != nil || formats < 1 || formats > c.formats || took > c.want || took < c.delay && c.direct == 0 {
				t.Errorf("%s, after %s: %v in %s with %d formats, want none in %s with at most %d", c.knows, c.delay, err, took, formats, c.want, c.formats)
			}
			if got := strings.Count(log.String(), "Formatting without WMI"); got != c.direct {
				t.Errorf("%s, after %s: the log says %d times that WMI is not used, want %d:\n%s", c.knows, c.delay, got, c.direct, &log)
			}
			if ok, err := f.formatted(id); err != nil || !ok {
				t.Errorf("%s: formatted: %t, %v", c.knows, ok, err)
			}
		})
	}
}

// A driver in process has no other way to format than WMI: the error has its reason.
func TestFormatVolumeThatOnlyWMIFormats(t *testing.T) {
	f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{FormatKnows: behavior.FormatNever})}, nodespec.Disk{Size: gib})
	id := freshVolume(f)
	formats := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Format" {
			if formats++; formats > 1 {
				return win32.ERROR_NOT_SUPPORTED
			}
		}
		return c.Do()
	})
	err := f.format(id)
	wantKind(t, err, hosterr.ErrUnavailable, "without WMI: ")
	if !errors.Is(err, win32.ERROR_SERVICE_DISABLED) || !strings.Contains(hosterr.HintOf(err), "smphost") || formats != 2 {
		t.Errorf("%v after %d formats, want the reason of WMI after 2", err, formats)
	}
}

// A Rescan makes WMI know new volumes, and does not wait for long for a storage provider
// that does not respond.
func TestRescanUpdatesStorageCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		id := freshVolume(f)
		if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
			t.Fatal(err)
		}
		if err := f.Windows.Format(id, win32.FormatOptions{}); err != nil {
			t.Errorf("format after a rescan: %v", err)
		}
		f.Observe(func(c *win32.Call) error {
			if c.Name == "UpdateStorageCache" {
				time.Sleep(10 * time.Minute)
			}
			return c.Do()
		})
		begin := time.Now()
		if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil || time.Since(begin) > 20*time.Second {
			t.Errorf("rescan with a storage provider that hangs: %v after %s", err, time.Since(begin))
		}
		time.Sleep(10 * time.Minute)
	})
}

// A partition does not grow over content: that of a lost partition behind it, at its own end, at
// the old and the new end of the disk, or where lost partitions begin. The volume stays as it is,
// and grows once the space is cleared.
func TestResizeVolumeKeepsContentBehind(t *testing.T) {
	const from, old, size = 2*gib - mib, 2 * gib, 6 * gib
	for name, c := range map[string]struct {
		at   int64
		text string
		says string
	}{
		"at its end":                 {from, "XFSB", "XFS"},
		"a copy, from its end":       {from + 0x4000040, "_BHRfS_M", "btrfs"},
		"at the old end of the disk": {old, "LUKS\xba\xbe", "LUKS"},
		"at a usual start":           {from + 129*mib, "XFSB", "XFS at byte"},
		"at the new end":             {size - 64<<10, "\xfc\x4e\x2b\xa9", "Linux RAID"},
		"text at the new end":        {size - 20<<10, "someone was here", "unknown content at byte"},
		"at one of 64 places":        {from + (size-from)/64/4096*4096*40, "x", "unknown content at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := data(old, "NTFS")
			spec.Serial = "S1"
			f := newFixture(t, nodespec.Config{}, spec)
			id := f.id(1)
			p := f.layout(1).Partitions[1]
			if p.Offset+p.Length != from {
				t.Fatalf("the partition ends at %d", p.Offset+p.Length)
			}
			if err := f.Windows.Grow(1, size); err != nil {
				t.Fatal(err)
			}
			if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
				t.Fatal(err)
			}
			f.write(1, c.at, c.text)
			f.mkdir(kubelet + `\m`)
			f.unchanged(func() {
				err := f.resize(id, 0)
				wantKind(t, err, hosterr.ErrFailedPrecondition, "the space behind it contains data", c.says)
				if hint := hosterr.HintOf(err); !strings.Contains(hint, "csi-proxyctl disk clear 1 --behind 2 --serial") {
					t.Errorf("hint %q", hint)
				}
			})
			if err := f.mount(id, kubelet+`\m`); err != nil {
				t.Fatal(err)
			}
			if _, err := f.disk.Clear(t.Context(), 1, diskapi.Clearing{Identity: "S1", Behind: 2}); err != nil {
				t.Fatal(err)
			}
			if err := f.resize(id, 0); err != nil {
				t.Errorf("after the clearing: %v", err)
			}
			if total, _ := f.stats(id); total < size-from {
				t.Errorf("the file system has %d bytes", total)
			}
		})
	}
}
