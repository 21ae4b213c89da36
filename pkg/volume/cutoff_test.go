package volume_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const formatMark = "csi-format:"

// name returns the name of the last partition of a disk.
func (f *fixture) name(disk uint32) string {
	ps := f.layout(disk).Partitions
	return ps[len(ps)-1].Name
}

// rename gives the last partition of a disk a name, as another program would.
func (f *fixture) rename(disk uint32, name string) {
	f.t.Helper()
	l := f.layout(disk)
	l.Partitions[len(l.Partitions)-1].Name = name
	f.setLayout(disk, l)
}

func (f *fixture) setLayout(disk uint32, l win32.Layout) {
	f.t.Helper()
	h, err := f.Windows.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, disk), win32.GENERIC_READ|win32.GENERIC_WRITE, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer f.Windows.CloseHandle(h)
	if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), nil); err != nil {
		f.t.Fatal(err)
	}
}

// cutOff returns a volume whose format was cut off.
func cutOff(t *testing.T, order string, d nodespec.Disk) (*fixture, string) {
	t.Helper()
	f := newFixture(t, nodespec.Config{FormatDuration: nodespec.Duration(time.Second), Windows: nodespec.Windows{FormatOrder: order}}, d)
	id := f.id(1)
	f.During = func() {
		f.During = nil
		if err := f.Windows.EndProcess(); err != nil {
			t.Error(err)
		}
	}
	if err := f.format(id); err == nil {
		t.Fatal("the format succeeded although it was cut off")
	}
	return f, id
}

func formatOrders() []string {
	return []string{nodespec.FormatBootFirst, nodespec.FormatHalf, nodespec.FormatBackupFirst, nodespec.FormatBootLast, nodespec.FormatAtEnd}
}

// Before the mark, Windows' boot sector alone was "formatted", and all other remains were
// refused as foreign data for good.
func TestFormatThatWasCutOffIsFinished(t *testing.T) {
	for _, order := range formatOrders() {
		t.Run(order, func(t *testing.T) {
			f, id := cutOff(t, order, data(gib, ""))
			if marked := strings.HasPrefix(f.name(1), formatMark); marked != (order != nodespec.FormatAtEnd) {
				t.Errorf("the partition is named %q", f.name(1))
			}
			if ok, err := f.formatted(id); ok || err != nil {
				t.Errorf("formatted: %t, %v, want false", ok, err)
			}
			if err := f.resize(id, 0); err != nil {
				t.Errorf("resize: %v", err)
			}
			if err := f.format(id); err != nil {
				t.Fatal(err)
			}
			if ok, err := f.formatted(id); !ok || err != nil || f.name(1) != "Basic data partition" {
				t.Errorf("after the next format: formatted %t, %v, the partition is named %q", ok, err, f.name(1))
			}
		})
	}
}

// Windows may also find the file system of a format that was cut off damaged.
func TestFormatThatLeftDamageIsFinished(t *testing.T) {
	f, id := cutOff(t, nodespec.FormatBootFirst, data(gib, ""))
	for _, call := range []string{"VolumeInformation", "QueryDirectory"} {
		done := false
		f.Observe(func(c *win32.Call) error {
			if c.Name == "Format" {
				done = true
			}
			if c.Name == call && !done {
				return win32.ERROR_FILE_CORRUPT
			}
			return c.Do()
		})
		if ok, err := f.formatted(id); ok || err != nil {
			t.Errorf("%s fails: formatted %t, %v, want false", call, ok, err)
		}
		f.rename(1, formatMark+"Basic data partition")
		if err := f.format(id); err != nil || !done {
			t.Errorf("%s fails: format: %v, done %t", call, err, done)
		}
		f.rename(1, formatMark+"Basic data partition")
		f.Observe(nil)
	}
}

// A mark proves nothing about content that a format does not leave.
func TestMarkedVolumeKeepsOtherContent(t *testing.T) {
	f, id := cutOff(t, nodespec.FormatBackupFirst, data(gib, ""))
	at := int64(f.layout(1).Partitions[1].Offset)
	f.write(1, at+0x438, "\x53\xef") // ext4
	f.write(1, at+0x460, "\x40")
	f.unchanged(func() {
		_, err := f.formatted(id)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "ext4")
		wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "ext4")
	})
}

// A program that does not know the mark may have put files on the volume. Then it is
// formatted, and the next refusal takes the mark off, so that damage which comes later is
// not taken for a format that was cut off.
func TestMarkedVolumeKeepsFiles(t *testing.T) {
	f, id := cutOff(t, nodespec.FormatBootFirst, data(gib, ""))
	target := kubelet + `\m`
	f.mkdir(target)
	if err := f.Windows.SetMountPoint(target+`\`, id); err != nil {
		t.Fatal(err)
	}
	f.mkdir(target + `\precious`)
	if ok, err := f.formatted(id); !ok || err != nil {
		t.Errorf("formatted: %t, %v, want true", ok, err)
	}
	wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "precious")
	if f.name(1) != "Basic data partition" {
		t.Errorf("after the refusal the partition is named %q", f.name(1))
	}
}

// If the mark cannot be removed after the format, FormatVolume fails. A volume is only
// mounted without a mark, because a marked one may be formatted again.
func TestMountRemovesTheMarkFirst(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, ""))
	id, target := f.id(1), kubelet+`\m`
	f.mkdir(target)
	formatted := false
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Format" {
			formatted = true
		}
		if formatted && c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
			return win32.ERROR_CRC
		}
		return c.Do()
	})
	if err := f.format(id); !win32.IsCode(err, win32.ERROR_CRC) || !formatted {
		t.Errorf("format: %v", err)
	}
	if ok, err := f.formatted(id); ok || err != nil {
		t.Errorf("formatted: %t, %v, want false while the partition is marked", ok, err)
	}
	if err := f.mount(id, target); !win32.IsCode(err, win32.ERROR_CRC) || !strings.Contains(hosterr.HintOf(err), "System event log") {
		t.Errorf("mount: %v, hint %q, want the error of the mark that stays", err, hosterr.HintOf(err))
	}
	if _, err := f.mountedAt(target); err == nil {
		t.Error("mounted although the partition is marked")
	}
	f.Observe(nil)
	if err := f.mount(id, target); err != nil || f.name(1) != "Basic data partition" {
		t.Errorf("mount: %v, the partition is named %q", err, f.name(1))
	}
	f.mkdir(target + `\precious`)
	if ok, err := f.formatted(id); !ok || err != nil {
		t.Errorf("formatted: %t, %v, want true", ok, err)
	}
	wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "precious")
}

// The mark changes the name of one entry and no other byte of the table, and the name is
// what it was after the format. Windows wants RewritePartition to be set.
func TestMarkKeepsTheTable(t *testing.T) {
	d := nodespec.Disk{Size: 8 * gib, Content: nodespec.ContentGPT}
	for range 20 {
		d.Partitions = append(d.Partitions, nodespec.Partition{Size: 100 * mib})
	}
	for _, name := range []string{"", "Basic data partition", "a name of thirty-six UTF-16 units ☺☺☺"} {
		f := newFixture(t, nodespec.Config{}, d)
		ids := f.list(1, 0)
		id := ids[len(ids)-1]
		f.rename(1, name)
		before := f.layout(1).Encode()
		const entry = win32.SizeofLayout + 20*win32.SizeofPartition // the reserved one is the first
		written := 0
		f.Observe(func(c *win32.Call) error {
			if c.Code != win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
				return c.Do()
			}
			written++
			in := bytes.Clone(c.In)
			if in[entry+28] != 1 {
				t.Error("RewritePartition is not set")
			}
			in[entry+28] = 0
			copy(in[entry+72:entry+144], before[entry+72:entry+144])
			if !bytes.Equal(in, before) {
				t.Error("more than the name changes")
			}
			return c.Do()
		})
		if err := f.format(id); err != nil || written != 2 {
			t.Errorf("%q: %v, the table was written %d times, want 2", name, err, written)
		}
		f.Observe(nil)
		if after := f.layout(1).Encode(); !bytes.Equal(after, before) {
			t.Errorf("%q: the format changed the table; the partition is named %q", name, f.name(1))
		}
	}
}

// Formats of volumes of one disk write the same table at the same time.
func TestMarksOfOneDisk(t *testing.T) {
	d := nodespec.Disk{Size: 8 * gib, Content: nodespec.ContentGPT}
	for range 16 {
		d.Partitions = append(d.Partitions, nodespec.Partition{Size: 100 * mib})
	}
	f := newFixture(t, nodespec.Config{}, d)
	before := f.layout(1).Encode()
	var group sync.WaitGroup
	for _, id := range f.list(1, 0) {
		group.Go(func() {
			if err := f.format(id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if after := f.layout(1); !bytes.Equal(after.Encode(), before) {
		t.Errorf("the table after the formats: %+v", after)
	}
}

// The partitions of an MBR have no names. A format that was cut off there is refused, by
// name or as unknown content; of a boot sector alone Windows says that it is NTFS.
func TestFormatThatWasCutOffOnMBR(t *testing.T) {
	for _, order := range formatOrders() {
		d := data(gib, "")
		d.Content = nodespec.ContentMBR
		f, id := cutOff(t, order, d)
		err := f.format(id)
		switch order {
		case nodespec.FormatBootFirst, nodespec.FormatAtEnd:
			if err != nil {
				t.Errorf("%s: %v", order, err)
			}
		default:
			wantKind(t, err, hosterr.ErrFailedPrecondition, "it contains data")
		}
	}
}

// A volume whose partition cannot be renamed is formatted all the same, as before the mark.
func TestFormatWithoutAMark(t *testing.T) {
	for name, answer := range map[string]func(*win32.Call) error{
		"not supported": func(*win32.Call) error { return win32.ERROR_INVALID_PARAMETER },
		"another error": func(*win32.Call) error { return win32.ERROR_CRC },
		"not kept":      func(*win32.Call) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			f := newFixture(t, nodespec.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, data(gib, ""))
			f.Observe(func(c *win32.Call) error {
				if c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
					return answer(c)
				}
				return c.Do()
			})
			id := f.id(1)
			if err := f.format(id); err != nil {
				t.Fatal(err)
			}
			if ok, err := f.formatted(id); !ok || err != nil || !strings.Contains(log.String(), "without a mark") {
				t.Errorf("formatted: %t, %v, log:\n%s", ok, err, &log)
			}
		})
	}
}

// An error of the mark after which nothing can be formatted ends the request.
func TestFormatEndsWithTheErrorOfTheMark(t *testing.T) {
	for errno, kind := range map[win32.Errno]error{win32.ERROR_WRITE_PROTECT: win32.ERROR_WRITE_PROTECT, win32.ERROR_DEVICE_NOT_CONNECTED: win32.ERROR_DEVICE_NOT_CONNECTED} {
		f := newFixture(t, nodespec.Config{}, data(gib, ""))
		id := f.id(1)
		f.Observe(func(c *win32.Call) error {
			switch {
			case c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX:
				return errno
			case c.Name == "Format":
				t.Errorf("%s: the volume is formatted", errno.Name())
			}
			return c.Do()
		})
		if err := f.format(id); !errors.Is(err, kind) {
			t.Errorf("%s: %v", errno.Name(), err)
		}
	}
}

// Another program writes the table at the same time as the mark. Its partition may be lost,
// or the mark; the volume is not formatted, and the next request decides.
func TestAnotherProgramChangesTheTableDuringTheMark(t *testing.T) {
	d := nodespec.Disk{Size: 8 * gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: gib}, {Size: gib, FileSystem: "NTFS"}}}
	f := newFixture(t, nodespec.Config{}, d)
	id := f.list(1, 0)[0]
	before := f.layout(1)
	other := before
	other.Partitions = slices.Clone(before.Partitions)
	other.Partitions[2].Length = 2 * gib
	raced := false
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Format" {
			t.Error("the volume is formatted")
		}
		err := c.Do()
		if c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX && !raced {
			raced = true // setLayout makes the same call
			f.setLayout(1, other)
		}
		return err
	})
	wantKind(t, f.format(id), hosterr.ErrUnavailable, "another program changed the partition table")
	f.Observe(nil)
	if l := f.layout(1); l.Partitions[2].Length != 2*gib {
		t.Errorf("the table of the other program is lost: %+v", l.Partitions)
	}
	if err := f.format(id); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// A copy of a marked disk whose storage cannot be written is mounted: nothing can format it.
func TestMarkOfWriteProtectedStorage(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, data(gib, "NTFS"))
	f.rename(1, formatMark+"Basic data partition")
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
			return win32.ERROR_WRITE_PROTECT
		}
		return c.Do()
	})
	target := kubelet + `\m`
	f.mkdir(target)
	if err := f.mount(f.id(1), target); err != nil || !strings.HasPrefix(f.name(1), formatMark) {
		t.Errorf("%v, the partition is named %q", err, f.name(1))
	}
}

// What is mounted in a folder may have had files when it was damaged, so the mark is no proof
// that a format left the damage.
func TestMarkedVolumeInAFolderKeepsDamage(t *testing.T) {
	for _, call := range []string{"VolumeInformation", "QueryDirectory"} {
		f, id := cutOff(t, nodespec.FormatBootFirst, data(gib, ""))
		target := kubelet + `\m`
		f.mkdir(target)
		if err := f.Windows.SetMountPoint(target+`\`, id); err != nil {
			t.Fatal(err)
		}
		f.Observe(func(c *win32.Call) error {
			switch c.Name {
			case call:
				return win32.ERROR_FILE_CORRUPT
			case "Format":
				t.Errorf("%s fails: the volume is formatted", call)
			}
			return c.Do()
		})
		_, err := f.formatted(id)
		wantKind(t, err, hosterr.ErrFailedPrecondition, "damaged")
		wantKind(t, f.format(id), hosterr.ErrFailedPrecondition, "damaged")
	}
}

// MountVolume takes the mark off a partition and so writes the whole table. It must not write
// back the old length of another partition that grows at the same time.
func TestMountKeepsTheGrowthOfAnotherPartition(t *testing.T) {
	d := nodespec.Disk{Size: 8 * gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: gib, FileSystem: "NTFS"}, {Size: gib, FileSystem: "NTFS"}}}
	f := newFixture(t, nodespec.Config{}, d)
	ids := f.list(1, 0)
	target := kubelet + `\m`
	f.mkdir(target)
	// The volume that is mounted is the first one; the last one grows.
	l := f.layout(1)
	l.Partitions[1].Name = formatMark + l.Partitions[1].Name
	f.setLayout(1, l)
	var group sync.WaitGroup
	read, grown := make(chan bool, 1), make(chan bool)
	f.Observe(func(c *win32.Call) error {
		switch c.Code {
		case win32.IOCTL_DISK_GROW_PARTITION:
			group.Go(func() {
				if err := f.mount(ids[0], target); err != nil {
					t.Errorf("mount: %v", err)
				}
			})
			select { // until the mount has read the table that it will write, if it may
			case <-read:
			case <-time.After(200 * time.Millisecond):
			}
			defer close(grown)
		case win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX:
			read <- true
			<-grown
		}
		return c.Do()
	})
	if err := f.resize(ids[1], 2*gib); err != nil {
		t.Errorf("resize: %v", err)
	}
	group.Wait()
	f.Observe(nil)
	if l := f.layout(1); l.Partitions[2].Length != 2*gib || l.Partitions[1].Name != "Basic data partition" {
		t.Errorf("the table after both: %+v", l.Partitions)
	}
}
