package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// fixture is the disk service over an emulated node with the default disk 0,
// which has C:, and more disks.
type fixture struct {
	t *testing.T
	*nodetest.Node
	disk *disk.Disk
}

func newFixture(t *testing.T, cfg nodespec.Config, disks ...nodespec.Disk) *fixture {
	t.Helper()
	cfg.Disks = append([]nodespec.Disk{{Content: nodespec.ContentSystem, Size: 64 * gib}}, disks...)
	f := &fixture{t: t, Node: nodetest.New(t, cfg, nil)}
	var err error
	if f.disk, err = disk.New(diskapi.On(f.Node.Node)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) partition(n uint32) error {
	_, err := f.disk.PartitionDisk(f.t.Context(), &disk.PartitionDiskRequest{DiskNumber: n})
	return err
}

// A retry waits for the volume, too, after the first call was canceled while it waited.
func TestSetDiskStateRetryWaitsForVolume(t *testing.T) {
	f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(300 * time.Millisecond)},
		nodespec.Disk{Size: gib})
	if err := errors.Join(f.partition(1), f.setState(1, false)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Observe(func(c *win32.Call) error {
		err := c.Do()
		if c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES {
			cancel()
		}
		return err
	})
	if _, err := f.disk.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: 1, IsOnline: true}); !errors.Is(err, context.Canceled) {
		t.Fatalf("SetDiskState with a canceled context: %v", err)
	}
	f.Observe(nil)
	if err := f.setState(1, true); err != nil {
		t.Fatal(err)
	}
	info, err := f.Windows.Show()
	if err != nil {
		t.Fatal(err)
	}
	if v := info.Volumes[len(info.Volumes)-1]; v.Disks[0] != 1 || !v.Arrived {
		t.Errorf("the disk is online, but its volume is missing: %+v", v)
	}
}

func (f *fixture) setState(n uint32, online bool) error {
	_, err := f.disk.SetDiskState(f.t.Context(), &disk.SetDiskStateRequest{DiskNumber: n, IsOnline: online})
	return err
}

func (f *fixture) online(n uint32) bool {
	f.t.Helper()
	out, err := f.disk.GetDiskState(f.t.Context(), &disk.GetDiskStateRequest{DiskNumber: n})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.IsOnline
}

// bringOnline makes a disk online and writable without the service, which would also
// bring its volume online.
func (f *fixture) bringOnline(n uint32) {
	f.t.Helper()
	f.raw(n, func(h win32.Handle) {
		in := win32.SetDiskAttributes{Persist: true, Mask: win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY}.Encode()
		if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil); err != nil {
			f.t.Fatal(err)
		}
	})
}

// attach attaches a disk and returns its number when Windows sees it.
func (f *fixture) attach(d nodespec.Disk) uint32 {
	f.t.Helper()
	n, err := f.Windows.Attach(d)
	if err == nil {
		err = f.Windows.AwaitDisk(n)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// raw runs a function on the open disk, without the service and the host.
func (f *fixture) raw(n uint32, do func(h win32.Handle)) {
	f.t.Helper()
	h, err := f.Windows.CreateFile(fmt.Sprintf(`\\.\PhysicalDrive%d`, n), win32.GENERIC_READ|win32.GENERIC_WRITE, 3, win32.OPEN_EXISTING, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer f.Windows.CloseHandle(h)
	do(h)
}

func (f *fixture) layout(n uint32) (l win32.Layout) {
	f.t.Helper()
	f.raw(n, func(h win32.Handle) {
		out := make([]byte, 32<<10)
		got, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX, nil, out)
		if err != nil {
			f.t.Fatal(err)
		}
		if l, err = win32.DecodeLayout(out[:got]); err != nil {
			f.t.Fatal(err)
		}
	})
	return l
}

func (f *fixture) write(n uint32, at int64, text string) {
	f.t.Helper()
	f.raw(n, func(h win32.Handle) {
		sector := at / 4096 * 4096
		b := make([]byte, (at-sector+int64(len(text))+4095)/4096*4096)
		if _, err := f.Windows.ReadAt(h, b, sector); err != nil {
			f.t.Fatal(err)
		}
		copy(b[at-sector:], text)
		if _, err := f.Windows.WriteAt(h, b, sector); err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, nil); err != nil {
			f.t.Fatal(err)
		}
	})
}

// changes reports whether a call changes a disk.
func changes(c *win32.Call) bool {
	return c.Name == "WriteAt" || c.Name == "Format" || c.Name == "DeviceIoControl" && slices.Contains([]uint32{
		win32.IOCTL_DISK_CREATE_DISK, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES,
		win32.IOCTL_DISK_GROW_PARTITION, win32.FSCTL_EXTEND_VOLUME}, c.Code)
}

// unchanged fails the test if do changes anything on any disk.
func (f *fixture) unchanged(do func()) {
	f.t.Helper()
	f.Observe(func(c *win32.Call) error {
		if changes(c) {
			f.t.Errorf("unexpected change: %v", c)
		}
		return c.Do()
	})
	do()
	f.Observe(nil)
}

func wantKind(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if hosterr.KindOf(err) != kind {
		t.Fatalf("error %v of kind %v, want kind %v", err, hosterr.KindOf(err), kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}

func yes() *bool { b := true; return &b }

func TestPartitionDisk(t *testing.T) {
	for _, sector := range []uint32{512, 4096} {
		for name, size := range map[string]uint64{"8 MiB": 8 * mib, "100 MiB": 100 * mib, "1 GiB": gib, "3 TiB": 3 * tib} {
			t.Run(fmt.Sprintf("%s with sectors of %d bytes", name, sector), func(t *testing.T) {
				f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: nodespec.Size(size), SectorSize: sector})
				if err := f.partition(1); err != nil {
					t.Fatal(err)
				}
				l := f.layout(1)
				data := l.Partitions[len(l.Partitions)-1]
				if l.Style != win32.PARTITION_STYLE_GPT || data.Type != win32.PARTITION_BASIC_DATA_GUID || data.Name != "Basic data partition" ||
					data.Attributes != win32.GPT_BASIC_DATA_ATTRIBUTE_NO_DRIVE_LETTER || data.Offset%mib != 0 || size-data.Offset-data.Length > 2*mib {
					t.Errorf("layout %+v", l)
				}
				if reserved := len(l.Partitions) == 2 && l.Partitions[0].Type == win32.PARTITION_MSFT_RESERVED_GUID; reserved != (size >= gib) {
					t.Errorf("reserved partition: %t, layout %+v", reserved, l)
				}
				f.unchanged(func() {
					if err := f.partition(1); err != nil {
						t.Errorf("repeated: %v", err)
					}
				})
			})
		}
	}
}

func TestPartitionDiskByInitialTable(t *testing.T) {
	cases := []struct {
		name    string
		cfg     nodespec.Config
		disk    nodespec.Disk
		touched bool
		style   uint32
		used    int // partitions afterwards, including the reserved one
	}{
		{"blank", nodespec.Config{}, nodespec.Disk{Size: 10 * gib}, true, win32.PARTITION_STYLE_GPT, 2},
		{"Windows adds the reserved partition itself", nodespec.Config{World: behavior.In("", behavior.Windows{NewGPT: "msr"})}, nodespec.Disk{Size: 10 * gib}, true, win32.PARTITION_STYLE_GPT, 2},
		{"GPT with a reserved partition", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPT}, true, win32.PARTITION_STYLE_GPT, 2},
		{"GPT without anything", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPTNoMSR}, true, win32.PARTITION_STYLE_GPT, 2},
		{"GPT with a partition", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPTNoMSR, Partitions: []nodespec.Partition{{Size: gib}}}, false, win32.PARTITION_STYLE_GPT, 1},
		{"GPT with a recovery partition only", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPTNoMSR, Partitions: []nodespec.Partition{{Size: gib, Type: "recovery"}}}, false, win32.PARTITION_STYLE_GPT, 1},
		{"MBR with a partition", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{Size: gib}}}, false, win32.PARTITION_STYLE_MBR, 1},
		{"MBR without partitions", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentMBR}, true, win32.PARTITION_STYLE_MBR, 1},
		{"blank, offline and read-only", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Offline: yes(), ReadOnly: yes()}, true, win32.PARTITION_STYLE_GPT, 2},
		{"GPT, offline, without partition", nodespec.Config{}, nodespec.Disk{Size: 10 * gib, Content: nodespec.ContentGPT, Offline: yes()}, true, win32.PARTITION_STYLE_GPT, 2},
		{"volumes arrive late", nodespec.Config{VolumeArrivalDelay: nodespec.Duration(20 * time.Second)}, nodespec.Disk{Size: 10 * gib}, true, win32.PARTITION_STYLE_GPT, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.cfg, c.disk)
			f.Clock.Advance(time.Minute) // the volumes that exist from the start have arrived
			touched := false
			f.Observe(func(c *win32.Call) error {
				touched = touched || changes(c)
				return c.Do()
			})
			if err := f.partition(1); err != nil {
				t.Fatal(err)
			}
			f.Observe(nil)
			if touched != c.touched {
				t.Errorf("the disk was changed: %t, want %t", touched, c.touched)
			}
			l := f.layout(1)
			used := slices.DeleteFunc(l.Partitions, func(p win32.Partition) bool { return p.Length == 0 })
			if l.Style != c.style || len(used) != c.used {
				t.Errorf("style %d and %d partitions, want %d and %d", l.Style, len(used), c.style, c.used)
			}
			if c.touched {
				if !f.online(1) {
					t.Error("the disk is offline")
				}
				if n := f.volumes(); n != 1 {
					t.Errorf("the new partition has %d volumes, want 1 on return", n)
				}
			}
		})
	}
}

// volumes counts the volumes on disk 1.
func (f *fixture) volumes() (n int) {
	f.t.Helper()
	names, err := f.Windows.VolumeNames()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range names {
		h, err := f.Windows.CreateFile(strings.TrimSuffix(name, `\`), 0, 3, win32.OPEN_EXISTING, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		out := make([]byte, 256)
		got, err := f.Windows.DeviceIoControl(h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, out)
		if err != nil {
			f.t.Fatal(err)
		}
		f.Windows.CloseHandle(h)
		es, err := win32.DecodeExtents(out[:got])
		if err != nil {
			f.t.Fatal(err)
		}
		if es[0].Disk == 1 {
			n++
		}
	}
	return n
}

// Windows may say of a blank disk that it has an MBR. Such a disk gets its volume, and one
// that Windows describes in the same way, but that has content or cannot be read, is not
// changed.
func TestPartitionDiskWhateverWindowsCallsBlankDisks(t *testing.T) {
	for _, spelling := range []string{behavior.BlankMBR, behavior.BlankSuperfloppy, behavior.BlankRaw} {
		t.Run(spelling, func(t *testing.T) {
			cfg := nodespec.Config{World: behavior.In("", behavior.Windows{BlankDisks: spelling})}
			f := newFixture(t, cfg, nodespec.Disk{Size: gib})
			if ok, err := diskapi.On(f.Node.Node).IsDiskInitialized(1); ok || err != nil {
				t.Errorf("IsDiskInitialized = %t, %v, want false", ok, err)
			}
			wantKind(t, diskapi.On(f.Node.Node).CreateBasicPartition(1), hosterr.ErrFailedPrecondition, "no partition table")
			if err := f.partition(1); err != nil {
				t.Fatal(err)
			}
			if l := f.layout(1); l.Style != win32.PARTITION_STYLE_GPT || f.volumes() != 1 {
				t.Errorf("layout %+v and %d volumes, want a GPT with one volume", l, f.volumes())
			}

			f = newFixture(t, cfg, nodespec.Disk{Size: gib, Bytes: []nodespec.Bytes{{At: 0, Data: []byte("XFSB")}}})
			f.unchanged(func() { wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, "XFS") })

			f = newFixture(t, cfg, nodespec.Disk{Size: gib})
			f.Observe(func(c *win32.Call) error {
				if changes(c) {
					t.Errorf("a disk that cannot be read was changed: %v", c)
				}
				if c.Name == "ReadAt" {
					return win32.ERROR_CRC
				}
				return c.Do()
			})
			if err := f.partition(1); !errors.Is(err, win32.ERROR_CRC) {
				t.Errorf("PartitionDisk of a disk that cannot be read: %v, want %v", err, win32.ERROR_CRC)
			}
		})
	}
}

func TestPartitionDiskRefusesKnownContent(t *testing.T) {
	for _, c := range []struct{ name, says string }{
		{"LUKS", "LUKS"}, {"XFS", "XFS"}, {"ext4", "ext4"}, {"btrfs", "btrfs"}, {"superfloppy", "NTFS"}, {"damaged GPT", "GPT"},
	} {
		for _, offline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, offline %t", c.name, offline), func(t *testing.T) {
				d := nodespec.Disk{Size: 10 * gib}
				if c.name == "superfloppy" {
					d.Content = nodespec.ContentSuperfloppy
				}
				// Where an offline disk cannot be read, its attributes change for the look; see
				// TestPartitionDiskWhereOfflineDisksCannotBeRead.
				f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineReads: behavior.OfflineReadsAllowed})}, d)
				switch c.name {
				case "LUKS":
					f.write(1, 0, "LUKS\xba\xbe")
				case "XFS":
					f.write(1, 0, "XFSB")
				case "ext4":
					f.write(1, 0x400, "\x10") // inodes
					f.write(1, 0x438, "\x53\xef")
					f.write(1, 0x460, "\x40")
				case "btrfs":
					f.write(1, 0x10040, "_BHRfS_M")
				case "damaged GPT":
					f.write(1, 512, "EFI PART")
				}
				if offline {
					if err := f.setState(1, false); err != nil {
						t.Fatal(err)
					}
				}
				f.unchanged(func() {
					err := f.partition(1)
					wantKind(t, err, hosterr.ErrFailedPrecondition, "partition disk 1", c.says)
					if hosterr.HintOf(err) == "" {
						t.Errorf("error %v has no hint", err)
					}
				})
				if f.online(1) == offline {
					t.Errorf("the call was refused, but the disk changed its state; online: %t", !offline)
				}
			})
		}
	}
}

// Another program partitions the disk and formats the volume before the k-th Win32
// call of PartitionDisk, for each k. A call that writes a table then fails with a
// transient error. PartitionDisk must keep the other program's partition.
func TestPartitionDiskKeepsConcurrentPartition(t *testing.T) {
	happened := 0
	for k := 1; ; k++ {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		other, err := disk.New(diskapi.On(&node.Node{API: f.Windows, Clock: f.Clock, Rand: f.Node.Rand, Log: f.Node.Log}))
		if err != nil {
			t.Fatal(err)
		}
		calls, what, volume, last := 0, "", "", ""
		f.Observe(func(c *win32.Call) error {
			again := c.Name == "ReadAt" && last == c.Name // the reads of a look count as one
			if last = c.Name; again {
				return c.Do()
			}
			if calls++; calls == k {
				what = c.String()
				known := f.names()
				if _, err := other.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
					t.Fatal(err)
				}
				for _, id := range f.names() {
					if !slices.Contains(known, id) {
						volume = id
						if err := f.Windows.Format(id, win32.FormatOptions{FileSystem: "NTFS", Quick: true, Direct: true}); err != nil {
							t.Fatal(err)
						}
					}
				}
				if c.Code == win32.IOCTL_DISK_CREATE_DISK || c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX {
					return win32.ERROR_BUSY
				}
			}
			return c.Do()
		})
		err = f.partition(1)
		f.Observe(nil)
		if what == "" {
			break
		}
		if volume == "" {
			continue // it existed before
		}
		happened++
		if info, lost := f.Windows.VolumeInformation(volume); err != nil || lost != nil || info.FileSystem != "NTFS" {
			t.Errorf("before call %d, %s: %v, and then %+v, %v", k, what, err, info, lost)
		}
	}
	if happened < 20 {
		t.Errorf("another program partitioned the disk in %d runs, want more", happened)
	}
}

// names returns the names of the node's volumes.
func (f *fixture) names() []string {
	f.t.Helper()
	all, err := f.Windows.VolumeNames()
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// Unknown content at one of the places that PartitionDisk writes, or where it would hide a
// partition of another system, is refused, with the rule that would allow it. Then it is
// overwritten, and nothing of it is left in the new partition.
func TestPartitionDiskWithUnknownContent(t *testing.T) {
	const size = 10 * gib
	for at, rule := range map[int64]rules.DiskContent{
		100: rules.DiskContentUnknown, mib - 10: rules.DiskContentUnknown, size - 100: rules.DiskContentUnknown,
		mib + 5: rules.DiskContentCleaned, 16*mib + 100: rules.DiskContentCleaned, size - mib - 100: rules.DiskContentCleaned,
		129*mib + 7: rules.DiskContentCleaned, 7 * size / 64: rules.DiskContentCleaned,
	} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: size})
		f.write(1, at, "some rubbish")
		f.unchanged(func() {
			err := f.partition(1)
			wantKind(t, err, hosterr.ErrFailedPrecondition, fmt.Sprintf("unknown content at byte %d", at))
			if hint := hosterr.HintOf(err); !strings.Contains(hint, "clean all") || !strings.Contains(hint, "-disk-content="+string(rule)) {
				t.Errorf("content at %d: hint %q, want diskpart's command and the rule %s", at, hint, rule)
			}
			if f.Node.DiskContent = rules.DiskContentCleaned; rule == rules.DiskContentUnknown {
				wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, "unknown content")
			}
		})
		f.Node.DiskContent = rule
		if err := f.partition(1); err != nil {
			t.Errorf("unknown content at %d, with the rule %s: %v", at, rule, err)
		}
		f.edgesAreBlank(1)
	}
}

// edgesAreBlank fails the test if the first or last MiB of the disk's last partition is not
// blank.
func (f *fixture) edgesAreBlank(disk uint32) {
	f.t.Helper()
	p, _ := storage.SingleData(f.layout(disk))
	f.raw(disk, func(h win32.Handle) {
		for _, at := range []uint64{p.Offset, p.Offset + p.Length - mib} {
			b := make([]byte, mib)
			if _, err := f.Windows.ReadAt(h, b, int64(at)); err != nil || len(bytes.Trim(b, "\x00")) > 0 {
				f.t.Errorf("the MiB at %d of disk %d is not blank: %v", at, disk, err)
			}
		}
	})
}

// No rule lets known content at the ends of a disk be lost, whatever its table.
func TestPartitionDiskKeepsKnownContentWithRules(t *testing.T) {
	const size = 10 * gib
	for _, c := range []struct {
		name  string
		table string
		at    int64
		magic string
	}{
		{"XFS", "", 0, "XFSB"},
		{"XFS", nodespec.ContentGPT, 0, "XFSB"},
		{"GPT", "", size - 512, "EFI PART"},
		{"btrfs", "", 0x10040, "_BHRfS_M"},
		{"btrfs", nodespec.ContentGPT, 0x10040, "_BHRfS_M"},
		{"LVM2", nodespec.ContentMBR, 0x218, "LVM2 001"},
		{"Linux RAID", nodespec.ContentGPT, size - 64<<10, "\xfc\x4e\x2b\xa9"},
	} {
		for _, rule := range []rules.DiskContent{rules.DiskContentStrict, rules.DiskContentCleaned, rules.DiskContentUnknown} {
			f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: size, Content: c.table})
			f.Node.DiskContent = rule
			f.write(1, c.at, c.magic)
			before := f.layout(1)
			wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, c.name)
			if after := f.layout(1); after.Style != before.Style || len(after.Partitions) != len(before.Partitions) {
				t.Errorf("%s: the table changed from %+v to %+v", c.name, before, after)
			}
			f.raw(1, func(h win32.Handle) {
				b := make([]byte, 4096)
				if _, err := f.Windows.ReadAt(h, b, c.at/4096*4096); err != nil || !strings.Contains(string(b), c.magic) {
					t.Errorf("%s at %d is lost (%v)", c.name, c.at, err)
				}
			})
		}
	}
}

// An empty table is not taken for an empty disk: whatever is behind it is refused by name, and
// with the rule "cleaned" it is overwritten if the ends of the disk are blank.
func TestPartitionDiskBehindAnEmptyTable(t *testing.T) {
	const size = 10 * gib
	for _, table := range []string{"", nodespec.ContentGPT, nodespec.ContentGPTNoMSR, nodespec.ContentMBR} {
		for _, c := range []struct {
			says  string
			at    int64
			magic string
		}{
			{"NTFS at byte 16777216", 16*mib + 3, "NTFS    "}, // what PartitionDisk and FormatVolume have made
			{"XFS at byte 1048576", mib, "XFSB"},
			{"XFS at byte 4194304", 4 * mib, "XFSB"},
			{"LUKS at byte 33554432", 32 * mib, "LUKS\xba\xbe"},
			{"btrfs at byte 104857600", 100*mib + 0x10040, "_BHRfS_M"},
			{"LVM2 physical volume at byte 135266304", 129*mib + 0x218, "LVM2 001"},
			{"(btrfs)", 0x4000040, "_BHRfS_M"},
			{"(XFS)", size / 4, "XFSB"},
			{"(XFS)", size / 4 * 3, "XFSB"},
			{"(BitLocker)", 33*mib + ((size/9+4095)/4096*4096)*2, "-FVE-FS-"},
			{"(Ceph BlueStore)", gib, "bluestore block device"},
			{"unknown content at byte 5368709120", size / 2, "\x01"},
		} {
			f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: size, Content: table})
			f.write(1, c.at, c.magic)
			f.unchanged(func() { wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, c.says) })
			f.Node.DiskContent = rules.DiskContentCleaned
			if err := f.partition(1); err != nil {
				t.Errorf("table %q, %s, with the rule cleaned: %v", table, c.says, err)
			}
			f.edgesAreBlank(1)
		}
	}
}

// A disk that holds Windows need not have an EFI partition.
func TestSystemDiskIsFoundByVolume(t *testing.T) {
	f := newFixture(t, nodespec.Config{})
	f.Observe(func(c *win32.Call) error {
		if changes(c) {
			t.Errorf("unexpected change: %v", c)
		}
		err := c.Do()
		if err == nil && c.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX {
			l, err := win32.DecodeLayout(c.Out[:c.N])
			if err != nil {
				t.Fatal(err)
			}
			for i := range l.Partitions {
				l.Partitions[i].Type = win32.PARTITION_BASIC_DATA_GUID
			}
			copy(c.Out, l.Encode())
		}
		return err
	})
	wantKind(t, f.setState(0, false), hosterr.ErrFailedPrecondition, "disk 0 holds Windows")
	f.Observe(nil)
}

// No other request may read a disk while its state changes.
func TestSetDiskStateOfflineLocksDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	asked := false
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES {
			asked = true
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if unlock, err := f.Node.Locks.Disks.RLock(ctx, "1"); err == nil {
				unlock()
				t.Error("the disk is not locked")
			}
		}
		return c.Do()
	})
	if err := f.setState(1, false); err != nil || !asked {
		t.Errorf("take disk 1 offline: %v; Windows was called: %t", err, asked)
	}
}

func TestSetDiskStateRefusesDisksOfWindows(t *testing.T) {
	for _, kind := range []string{"esp", "recovery", "ldmData", "ldmMetadata", "spaces"} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{
			Size: 10 * gib, Content: nodespec.ContentGPTNoMSR, Partitions: []nodespec.Partition{{Size: gib, Type: kind}}})
		f.unchanged(func() { wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition) })
	}
}

func TestNilRequests(t *testing.T) {
	f := newFixture(t, nodespec.Config{})
	ctx := t.Context()
	_, ids := f.disk.ListDiskIDs(ctx, nil)
	_, locations := f.disk.ListDiskLocations(ctx, nil)
	_, partition := f.disk.PartitionDisk(ctx, nil)
	_, rescan := f.disk.Rescan(ctx, nil)
	_, stats := f.disk.GetDiskStats(ctx, nil)
	_, set := f.disk.SetDiskState(ctx, nil)
	_, get := f.disk.GetDiskState(ctx, nil)
	for _, err := range []error{ids, locations, partition, rescan, stats, set, get} {
		wantKind(t, err, hosterr.ErrInvalid)
	}
	if _, err := disk.New(nil); !errors.Is(err, hosterr.ErrInvalid) {
		t.Errorf("New(nil): %v, want invalid", err)
	}
}

// Each Win32 call fails in turn. The error has its code, no handle stays open, and
// the same request completes the work after the failure.
func TestPartitionDiskRetryAfterEachFailure(t *testing.T) {
	cfg := nodespec.Disk{Size: 10 * gib, Offline: yes(), ReadOnly: yes()}
	for k := 1; ; k++ {
		f := newFixture(t, nodespec.Config{}, cfg)
		calls, failed := 0, ""
		f.Observe(func(c *win32.Call) error {
			if c.Name == "CloseHandle" {
				return c.Do()
			}
			if calls++; calls == k {
				failed = c.String()
				return win32.ERROR_GEN_FAILURE
			}
			return c.Do()
		})
		err := f.partition(1)
		f.Observe(nil)
		if failed == "" {
			if err != nil || k < 20 {
				t.Fatalf("after %d calls: %v", calls, err)
			}
			return
		}
		// What the node needs may stay unknown while the disk has no partitions.
		guard := strings.HasPrefix(failed, "RegistryText") || failed == "WindowsDirectory" || strings.Contains(failed, fmt.Sprintf("%#x", win32.IOCTL_DISK_IS_CLUSTERED))
		// If the device of the partition or the mount manager do not answer, the volume is searched for.
		place := strings.Contains(failed, "Harddisk") || strings.Contains(failed, "MountPointManager")
		// That Windows does not read a disk again whose attributes were set is logged.
		update := strings.Contains(failed, fmt.Sprintf("%#x", win32.IOCTL_DISK_UPDATE_PROPERTIES))
		if err == nil && !guard && !strings.Contains(failed, "Volume") && !place && !update {
			t.Errorf("%s (call %d) failed, but PartitionDisk succeeded", failed, k)
		}
		if err != nil && !errors.Is(err, win32.ERROR_GEN_FAILURE) && hosterr.KindOf(err) == nil {
			t.Errorf("%s failed: %v, want its error code", failed, err)
		}
		if open := f.Windows.OpenHandles(); len(open) > 0 {
			t.Fatalf("%s failed: handles left open: %q", failed, open)
		}
		if err := f.partition(1); err != nil {
			t.Errorf("%s failed, and so did the retry: %v", failed, err)
		}
		if l := f.layout(1); len(l.Partitions) != 2 || f.volumes() != 1 || !f.online(1) {
			t.Errorf("%s failed, and the retry left %+v with %d volumes", failed, l, f.volumes())
		}
	}
}

func TestPartitionDiskRetriesTransientErrors(t *testing.T) {
	for _, e := range []win32.Errno{win32.ERROR_ACCESS_DENIED, win32.ERROR_SHARING_VIOLATION, win32.ERROR_NOT_READY, win32.ERROR_BUSY,
		win32.ERROR_SEM_TIMEOUT, win32.ERROR_MEDIA_CHANGED} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		times := map[string]int{}
		f.Observe(func(c *win32.Call) error {
			if c.Name == "CreateFile" && strings.Contains(c.Path, "PhysicalDrive1") || changes(c) {
				if times[c.String()]++; times[c.String()] <= 2 {
					return e
				}
			}
			return c.Do()
		})
		if err := f.partition(1); err != nil {
			t.Errorf("%s twice at each call: %v", e.Name(), err)
		}
	}

	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	begin, opens := f.Clock.Now(), 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "CreateFile" {
			opens++
			return win32.ERROR_ACCESS_DENIED
		}
		return c.Do()
	})
	if err := f.partition(1); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("access is always denied: %v", err)
	}
	if waited := f.Clock.Now().Sub(begin); opens != 25 || waited != 5*time.Second {
		t.Errorf("access is always denied: failed after %d tries and %s, want 25 tries and 5s", opens, waited)
	}
}

// Other programs look at a disk that was just attached, for as long as WSL waits for them.
func TestPartitionDiskWaitsForOtherProgramsThatLookAtANewDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	begin := f.Clock.Now()
	f.Observe(func(c *win32.Call) error {
		if c.Name == "CreateFile" && strings.Contains(c.Path, "PhysicalDrive1") && f.Clock.Now().Sub(begin) < 4900*time.Millisecond {
			return win32.ERROR_SHARING_VIOLATION
		}
		return c.Do()
	})
	if err := f.partition(1); err != nil {
		t.Error(err)
	}
}

func TestRemovedDeviceIsNotFound(t *testing.T) {
	for _, e := range []win32.Errno{win32.ERROR_DEV_NOT_EXIST, win32.ERROR_DEVICE_REMOVED} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		f.Observe(func(c *win32.Call) error {
			if c.Name == "CreateFile" {
				return e
			}
			return c.Do()
		})
		wantKind(t, f.setState(1, false), hosterr.ErrNotFound)
	}
}

func TestPartitionDiskConcurrentCallers(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	var tables, layouts atomic.Int32
	f.Observe(func(c *win32.Call) error {
		switch c.Code {
		case win32.IOCTL_DISK_CREATE_DISK:
			tables.Add(1)
		case win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX:
			layouts.Add(1)
		}
		return c.Do()
	})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := f.partition(1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if tables.Load() != 1 || layouts.Load() != 1 {
		t.Errorf("the table was made %d times and the partition %d times, want each once", tables.Load(), layouts.Load())
	}
}

func TestPartitionDiskDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib}, nodespec.Disk{Size: gib})
		f.Observe(func(c *win32.Call) error {
			if c.Code == win32.IOCTL_DISK_CREATE_DISK && strings.HasSuffix(c.Path, "1") {
				time.Sleep(time.Hour)
			}
			return c.Do()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := f.disk.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 1})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("after %s: %v, want DeadlineExceeded after 1m", time.Since(begin), err)
		}
		// Requests for another disk do not wait. Requests for the same disk wait for Windows.
		if err := f.partition(2); err != nil {
			t.Error(err)
		}
		if err := f.partition(1); err != nil || time.Since(begin) < time.Hour {
			t.Errorf("after %s: %v, want success after the hour", time.Since(begin), err)
		}
	})
}

func TestPartitionDiskLimitsWaitForVolume(t *testing.T) {
	f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(100 * time.Second)}, nodespec.Disk{Size: gib})
	f.Clock.Advance(time.Hour)
	begin := f.Clock.Now()
	wantKind(t, f.partition(1), hosterr.ErrUnavailable, "did not appear within 1m0s")
	if waited := f.Clock.Now().Sub(begin); waited > 65*time.Second {
		t.Errorf("waited %s, want about a minute", waited)
	}
	f.unchanged(func() {
		if err := f.partition(1); err != nil {
			t.Errorf("the retry, which waits for the remaining time: %v", err)
		}
	})
	if n := f.volumes(); n != 1 {
		t.Errorf("%d volumes after the retry, want 1", n)
	}
}

func (f *fixture) attributes(n uint32) (a uint64) {
	f.t.Helper()
	f.raw(n, func(h win32.Handle) {
		out := make([]byte, win32.SizeofGetDiskAttributes)
		_, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, out)
		if err != nil {
			f.t.Fatal(err)
		}
		if a, err = win32.DecodeDiskAttributes(out); err != nil {
			f.t.Fatal(err)
		}
	})
	return a
}

func TestGetDiskStats(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: 3 * tib})
	size := func() int64 {
		t.Helper()
		out, err := f.disk.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 1})
		if err != nil {
			t.Fatal(err)
		}
		return out.TotalBytes
	}
	if n := size(); n != 3*tib {
		t.Errorf("%d bytes, want 3 TiB", n)
	}
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_GET_LENGTH_INFO {
			return win32.ERROR_INVALID_FUNCTION
		}
		return c.Do()
	})
	if n := size(); n != 3*tib {
		t.Errorf("%d bytes from the geometry, want 3 TiB", n)
	}
}

func TestListDiskIDs(t *testing.T) {
	f := newFixture(t, nodespec.Config{},
		nodespec.Disk{Size: gib, Serial: "  S1  ", Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Type: 1, Text: "Google  persistent-disk-0"}}},
		nodespec.Disk{Size: gib, Serial: "vol0123_00000001.", Bus: "nvme"},
		nodespec.Disk{Size: gib, Identifiers: []nodespec.Identifier{
			{CodeSet: "binary", Type: 3, Association: "port", Hex: "01"}, {CodeSet: "binary", Type: 3, Hex: "6001405AB0"}}},
	)
	list := func() map[uint32]disk.DiskIDs {
		t.Helper()
		out, err := f.disk.ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		ids := map[uint32]disk.DiskIDs{}
		for n, id := range out.DiskIDs {
			ids[n] = *id
		}
		return ids
	}
	want := map[uint32]disk.DiskIDs{1: {Page83: "Google  persistent-disk-0", SerialNumber: "S1"}, 2: {SerialNumber: "vol0123_00000001."}, 3: {Page83: "6001405ab0"}}
	got := list()
	if _, ok := got[0]; !ok || len(got) != 4 {
		t.Errorf("IDs of %d disks %v, want 4", len(got), got)
	}
	for n, ids := range want {
		if got[n].Page83 != ids.Page83 || ids.SerialNumber != "" && got[n].SerialNumber != ids.SerialNumber {
			t.Errorf("disk %d: %+v, want %+v", n, got[n], ids)
		}
	}

	// A disk whose IDs cannot be read has empty IDs. A disk that cannot be opened is not listed.
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_STORAGE_QUERY_PROPERTY {
			return win32.ERROR_IO_DEVICE
		}
		return c.Do()
	})
	if got := list(); len(got) != 4 || got[1] != (disk.DiskIDs{}) {
		t.Errorf("with queries that fail: %v, want 4 disks with empty IDs", got)
	}
	opens := 0
	f.Observe(func(c *win32.Call) error {
		if c.Name == "CreateFile" {
			if opens++; opens == 2 {
				return win32.ERROR_ACCESS_DENIED
			}
		}
		return c.Do()
	})
	if got := list(); len(got) != 3 || opens != 4 {
		t.Errorf("with a disk that cannot be opened: %v after %d opens, want 3 disks and no second try", got, opens)
	}
}

func TestListDiskLocations(t *testing.T) {
	f := newFixture(t, nodespec.Config{},
		nodespec.Disk{Size: gib, Location: "Integrated : Adapter 3 : Port 0 : Target 0 : LUN 1"},
		nodespec.Disk{Size: gib, Bus: "scsi", Address: &nodespec.Address{Port: 2, Target: 4, Lun: 7}},
		nodespec.Disk{Size: gib, Bus: "nvme", Address: &nodespec.Address{Port: 5}},
		nodespec.Disk{Size: gib, Bus: "ata", Location: "PCI Slot 1 : Adapter 0 : Channel 1 : Device 0", Address: &nodespec.Address{}},
		nodespec.Disk{Size: gib, Bus: "vhd", Location: `C:\a.vhdx`, Address: &nodespec.Address{}},
	)
	out, err := f.disk.ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint32]disk.DiskLocation{1: {Adapter: "3", Target: "0", LUNID: "1"}, 2: {Adapter: "2", Target: "4", LUNID: "7"}, 3: {Adapter: "5"}}
	for n := uint32(1); n <= 5; n++ {
		got, ok := out.DiskLocations[n]
		if _, wanted := want[n]; ok != wanted || ok && *got != want[n] {
			t.Errorf("disk %d: %+v, want %+v, %t", n, got, want[n], wanted)
		}
	}
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_STORAGE_QUERY_PROPERTY || c.Code == win32.IOCTL_SCSI_GET_ADDRESS {
			return win32.ERROR_NOT_SUPPORTED
		}
		return c.Do()
	})
	if out, err := f.disk.ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{}); err != nil || len(out.DiskLocations) != 0 {
		t.Errorf("disks without a location: %v, %v, want none", out, err)
	}
}

func TestRescanIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		var began atomic.Int32
		f.Observe(func(c *win32.Call) error {
			if c.Name == "Reenumerate" {
				began.Add(1)
				time.Sleep(10 * time.Second)
			}
			return c.Do()
		})
		rescan := func() error {
			_, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{})
			return err
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := rescan(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		begin := time.Now()
		for range 15 {
			wg.Go(func() {
				if err := rescan(); err != nil {
					t.Error(err)
				}
				if waited := time.Since(begin); waited < 19*time.Second {
					t.Errorf("returned after %s, with the result of a rescan that started before the request", waited)
				}
			})
		}
		wg.Wait()
		if n := began.Load(); n != 2 {
			t.Errorf("%d rescans for 16 callers, want 2", n)
		}
	})
}

func TestRescanLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nodespec.Config{})
		f.Observe(func(c *win32.Call) error {
			if c.Name == "Reenumerate" {
				time.Sleep(10 * time.Minute)
			}
			return c.Do()
		})
		begin := time.Now()
		_, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{})
		wantKind(t, err, hosterr.ErrUnavailable, "1m0s")
		if time.Since(begin) != time.Minute {
			t.Errorf("after %s, want 1m", time.Since(begin))
		}
		time.Sleep(10 * time.Minute) // the rescan's end
	})
}

// A disk that grew gets its new size even if Windows refuses to look for new disks.
func TestRescanUpdatesDisksWhenWindowsRefusesToScan(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	if err := f.Windows.Grow(1, 2*gib); err != nil {
		t.Fatal(err)
	}
	f.Observe(func(c *win32.Call) error {
		if c.Name == "Reenumerate" {
			return win32.ERROR_ACCESS_DENIED
		}
		return c.Do()
	})
	_, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{})
	wantKind(t, err, hosterr.ErrPermissionDenied, "scan for new devices")
	f.Observe(nil)
	if out, err := f.disk.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 1}); err != nil || out.TotalBytes != 2*gib {
		t.Errorf("GetDiskStats = %+v, %v, want %d bytes", out, err, 2*gib)
	}
}

// Even LocalSystem holds the privilege to scan for devices disabled.
func TestRescanNeedsNoEnabledPrivilege(t *testing.T) {
	f := newFixture(t, nodespec.Config{Windows: nodespec.Windows{Attach: nodespec.AttachRescan}})
	number, err := f.Windows.Attach(nodespec.Disk{Size: gib})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	err = f.partition(number)
	for start := f.Clock.Now(); errors.Is(err, hosterr.ErrNotFound) && f.Clock.Now().Sub(start) < time.Minute; err = f.partition(number) {
		f.Clock.Advance(time.Millisecond) // the disk arrives after the rescan
	}
	if err != nil {
		t.Error(err)
	}
}

// Containers have scratch disks, which are files of the node. A rescan does not announce
// that their layout changed.
func TestRescanLeavesScratchDisksOfContainers(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib, Bus: "vhd", ID: "scratch"}, nodespec.Disk{Size: gib})
	var updated []string
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_UPDATE_DRIVE_SIZE || c.Code == win32.IOCTL_DISK_UPDATE_PROPERTIES {
			updated = append(updated, c.Path)
		}
		return c.Do()
	})
	if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range updated {
		if strings.Contains(path, "scratch") {
			t.Errorf("updated: %s", path)
		}
	}
	if len(updated) != 4 {
		t.Errorf("%q, want two updates of the other two disks", updated)
	}
}

func TestRescanSkipsFailingDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib}, nodespec.Disk{Size: gib})
	updated := 0
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_UPDATE_DRIVE_SIZE {
			if updated++; updated == 1 {
				return win32.ERROR_DEVICE_NOT_CONNECTED
			}
		}
		return c.Do()
	})
	if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil || updated != 3 {
		t.Errorf("%v after %d of 3 disks", err, updated)
	}
}

// A driver may use its own HostAPI.
type foreign struct{ diskapi.HostAPI }

func (foreign) GetDiskStats(uint32) (int64, error) { return -1, win32.ERROR_CRC }
func (foreign) GetDiskState(uint32) (bool, error)  { panic("boom") }

func TestOtherHostAPI(t *testing.T) {
	d, err := disk.New(foreign{})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := d.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{}); out != nil || !errors.Is(err, win32.ERROR_CRC) {
		t.Errorf("GetDiskStats = %v, %v, want the host's error", out, err)
	}
	var p *node.PanicError
	if _, err := d.GetDiskState(t.Context(), &disk.GetDiskStateRequest{}); !errors.As(err, &p) {
		t.Errorf("GetDiskState of a host that panics: %v, want a PanicError", err)
	}
}

func TestMethodsWithoutNode(t *testing.T) {
	d, err := disk.New(diskapi.DiskAPI{})
	if err != nil {
		t.Fatal(err)
	}
	_, ids := d.ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
	_, locations := d.ListDiskLocations(t.Context(), &disk.ListDiskLocationsRequest{})
	_, partition := d.PartitionDisk(t.Context(), &disk.PartitionDiskRequest{})
	_, rescan := d.Rescan(t.Context(), &disk.RescanRequest{})
	_, stats := d.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{})
	_, set := d.SetDiskState(t.Context(), &disk.SetDiskStateRequest{})
	_, get := d.GetDiskState(t.Context(), &disk.GetDiskStateRequest{})
	_, readOnly := d.GetDiskReadOnly(t.Context(), &disk.GetDiskReadOnlyRequest{})
	_, protect := d.SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{})
	for _, err := range []error{ids, locations, partition, rescan, stats, set, get, readOnly, protect} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want errors.ErrUnsupported", err)
		}
	}
}

func TestSetDiskStateRefusesMBRDiskOfWindows(t *testing.T) {
	const firstEntry = 446
	for what, patch := range map[string]struct {
		at   int64
		byte string
	}{"active partition": {firstEntry, "\x80"}, "dynamic-disk partition": {firstEntry + 4, "\x42"}} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{
			Size: gib, Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{Size: 100 * mib}}})
		f.write(1, patch.at, patch.byte)
		f.unchanged(func() { wantKind(t, f.setState(1, false), hosterr.ErrFailedPrecondition, what) })
	}
}

func TestPartitionDiskRetriesUnreadableTable(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	failures := 0
	f.Observe(func(c *win32.Call) error {
		if c.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX && failures < 3 {
			failures++
			return win32.ERROR_IO_DEVICE
		}
		return c.Do()
	})
	if err := f.partition(1); err != nil || failures != 3 {
		t.Errorf("after %d failures: %v", failures, err)
	}
}

// A device's response may contain wrong sizes.
func TestListDiskIDsChecksSizesOfDevice(t *testing.T) {
	for _, size := range []string{"\xff\xff\xff\xff", "\x00\x00\x00\x80", "\x00\x00\x00\x00", "\x09\x00\x00\x00", "\x01\x10\x00\x00"} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{
			Size: gib, Serial: "S1", Identifiers: []nodespec.Identifier{{CodeSet: "ascii", Type: 1, Text: "disk"}}})
		f.Observe(func(c *win32.Call) error {
			err := c.Do()
			if c.Code == win32.IOCTL_STORAGE_QUERY_PROPERTY && err == nil {
				copy(c.Out[4:8], size)
			}
			return err
		})
		out, err := f.disk.ListDiskIDs(t.Context(), &disk.ListDiskIDsRequest{})
		if err != nil || len(out.DiskIDs) != 2 {
			t.Errorf("size % x: %v, %v, want both disks", size, out, err)
		}
	}
}

// Windows may take a new disk offline again.
func TestPartitionDiskTakesDiskOnlineAgain(t *testing.T) {
	f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(3 * time.Second)}, nodespec.Disk{Size: gib})
	offline := false
	f.Observe(func(c *win32.Call) error {
		if c.Name == "VolumeNames" && !offline {
			offline = true
			f.raw(1, func(h win32.Handle) {
				in := win32.SetDiskAttributes{Attributes: win32.DISK_ATTRIBUTE_OFFLINE, Mask: win32.DISK_ATTRIBUTE_OFFLINE}.Encode()
				if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil); err != nil {
					t.Error(err)
				}
			})
		}
		return c.Do()
	})
	if err := f.partition(1); err != nil || !offline {
		t.Fatal(err)
	}
	if !f.online(1) || f.volumes() != 1 {
		t.Errorf("online %t with %d volumes, want it online with 1", f.online(1), f.volumes())
	}
}

// Windows took the disk offline because another disk has its identity, and writes a new
// identity when it comes online again. It still is the disk that was partitioned.
func TestPartitionDiskAcceptsTheNewIdentityOfACollidingDisk(t *testing.T) {
	f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(3 * time.Second)}, nodespec.Disk{Size: gib})
	offline, changed := false, false
	f.Observe(func(c *win32.Call) error {
		if c.Name == "VolumeNames" && !offline {
			offline = true
			f.raw(1, func(h win32.Handle) {
				in := win32.SetDiskAttributes{Attributes: win32.DISK_ATTRIBUTE_OFFLINE, Mask: win32.DISK_ATTRIBUTE_OFFLINE}.Encode()
				if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, in, nil); err != nil {
					t.Error(err)
				}
			})
		}
		err := c.Do()
		if c.Code == win32.IOCTL_DISK_SET_DISK_ATTRIBUTES && !changed {
			changed = true
			l := f.layout(1)
			l.DiskID.Data1++
			f.raw(1, func(h win32.Handle) {
				if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), nil); err != nil {
					t.Error(err)
				}
			})
		}
		return err
	})
	if err := f.partition(1); err != nil || !changed {
		t.Fatalf("PartitionDisk: %v; the identity changed: %t", err, changed)
	}
	if !f.online(1) || f.volumes() != 1 {
		t.Errorf("online %t with %d volumes, want it online with 1", f.online(1), f.volumes())
	}
}

// With automount off, a new volume is offline, and may not say where it lies.
func TestPartitionDiskWithoutAutomount(t *testing.T) {
	for _, c := range []struct {
		w    behavior.Windows
		want int // how often a volume is brought online
	}{
		{behavior.Windows{Automount: nodespec.AutomountDisabled, OfflineVolumes: behavior.OfflineSilent}, 1},
		{behavior.Windows{Automount: nodespec.AutomountDisabled, OfflineVolumes: behavior.OfflineLocated}, 1},
		{behavior.Windows{Automount: nodespec.AutomountEnabled}, 0},
	} {
		for _, d := range []nodespec.Disk{
			{Size: gib},
			{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
			{Size: gib, Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}},
		} {
			f := newFixture(t, nodespec.Config{World: behavior.In("", c.w)})
			// Another disk, whose volume is new too, has to stay as it is.
			for _, d := range []nodespec.Disk{d, {Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}}} {
				f.bringOnline(f.attach(d))
			}
			online := 0
			f.Observe(func(c *win32.Call) error {
				if c.Code == win32.IOCTL_VOLUME_ONLINE {
					online++
				}
				return c.Do()
			})
			for i := 1; i <= 2; i++ {
				if err := f.partition(1); err != nil || online != c.want {
					t.Errorf("%+v, %q, call %d: %v, and volumes were brought online %d times, want %d", c.w, d.Content, i, err, online, c.want)
				}
			}
		}
	}
}

// A volume that the existing CSI Proxy made may have a drive letter.
func TestPartitionDiskAwaitsVolumeWithDriveLetter(t *testing.T) {
	f := newFixture(t, nodespec.Config{})
	f.attach(nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}})
	f.bringOnline(1)
	if err := f.setState(1, false); err != nil {
		t.Fatal(err)
	}
	looked := false
	f.Observe(func(c *win32.Call) error {
		looked = looked || c.Code == win32.IOCTL_MOUNTMGR_QUERY_POINTS
		return c.Do()
	})
	if err := f.setState(1, true); err != nil || !looked {
		t.Errorf("%v, looked for the volume: %t", err, looked)
	}
}

// On a Windows on which no partition can be opened by its place, the volume is found among all
// volumes of the node.
func TestPartitionDiskSearchesIfPartitionsHaveNoNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(3 * time.Second), Windows: nodespec.Windows{Automount: nodespec.AutomountEnabled}}, nodespec.Disk{Size: gib}, nodespec.Disk{Size: gib})
		f.Observe(func(c *win32.Call) error {
			if strings.HasPrefix(c.Path, `\\?\Harddisk`) {
				return win32.ERROR_FILE_NOT_FOUND
			}
			return c.Do()
		})
		begun := time.Now()
		if err := f.partition(1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("it took %v, want little more than until the volume arrives", took)
		}
		if n := f.Searches.Load(); n != 1 || f.volumes() != 1 {
			t.Errorf("%d searches counted and %d volumes, want one of each", n, f.volumes())
		}
		// From now on the first look searches, and so does the one for a temporary disk.
		begun = time.Now()
		if err := f.partition(1); err != nil || time.Since(begun) > 0 || f.Searches.Load() != 3 {
			t.Errorf("again: %v after %v, with %d searches, want success at once with the third", err, time.Since(begun), f.Searches.Load())
		}
		// Until a partition has its name again.
		f.Observe(nil)
		for range 2 {
			if err := f.partition(1); err != nil || f.Searches.Load() != 3 || f.Placeless.Load() {
				t.Errorf("with names: %v, %d searches, want no more", err, f.Searches.Load())
			}
		}
	})
}

// NTFS may refuse to open a write-protected volume for writing, as drivers with
// read-only volumes have it.
func TestPartitionDiskWithWriteProtectedVolume(t *testing.T) {
	for _, value := range []string{behavior.WriteProtectedRefused, behavior.WriteProtectedOpens} {
		f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{WriteProtected: value})},
			nodespec.Disk{Size: gib, WriteProtected: true, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
		if err := f.partition(1); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// Where Windows refuses to read an offline disk, its content is looked at all the same: a
// blank disk is partitioned, and one with data is offline and read-only again.
func TestPartitionDiskWhereOfflineDisksCannotBeRead(t *testing.T) {
	const both = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	yes := true
	for _, reads := range []string{behavior.OfflineReadsRefused, behavior.OfflineReadsAllowed} {
		for _, content := range []string{"", nodespec.ContentMBR} {
			f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{OfflineReads: reads})},
				nodespec.Disk{Size: gib, Content: content, Offline: &yes, ReadOnly: &yes},
				nodespec.Disk{Size: gib, Content: content, Offline: &yes, ReadOnly: &yes, Bytes: []nodespec.Bytes{{At: 4096, Data: []byte("data")}}})
			if err := f.partition(1); err != nil || f.attributes(1) != 0 {
				t.Errorf("%s, %q: PartitionDisk = %v with attributes %#x, want a disk that is online and writable", reads, content, err, f.attributes(1))
			}
			written := false
			f.Observe(func(c *win32.Call) error {
				written = written || c.Name == "WriteAt" || c.Code == win32.IOCTL_DISK_CREATE_DISK || c.Code == win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX
				return c.Do()
			})
			wantKind(t, f.partition(2), hosterr.ErrFailedPrecondition, "it contains data")
			f.Observe(nil)
			if f.attributes(2) != both || written {
				t.Errorf("%s, %q: attributes %#x of a disk with data, written %t; want it offline, read-only and unchanged", reads, content, f.attributes(2), written)
			}
		}
	}
}

// Windows may add the reserved partition a moment after it has made the table.
func TestPartitionDiskWaitsForTheReservedPartition(t *testing.T) {
	for _, size := range []nodespec.Size{512 * mib, 10 * gib} {
		f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{NewGPT: behavior.NewGPTLate})}, nodespec.Disk{Size: size})
		if err := f.partition(1); err != nil {
			t.Fatal(err)
		}
		f.Clock.Sleep(t.Context(), time.Second)
		if l := f.layout(1); len(l.Partitions) != 2 || l.Partitions[1].Offset != 16*mib || f.volumes() != 1 {
			t.Errorf("layout %+v, %d volumes; want a reserved and a data partition", l, f.volumes())
		}
	}
}

// If the reserved partition arrives even later, the partition goes behind it, and its place
// is looked at and erased again.
func TestPartitionDiskMovesBehindALateReservedPartition(t *testing.T) {
	f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: 512 * mib})
	var erased []string
	f.Observe(func(c *win32.Call) error {
		err := c.Do()
		if c.Name == "WriteAt" {
			if erased = append(erased, c.Path); len(erased) == 2 {
				l := f.layout(1)
				id := l.DiskID
				id.Data1++
				l.Partitions = []win32.Partition{{Style: win32.PARTITION_STYLE_GPT, Offset: l.UsableOffset, Length: 16*mib - l.UsableOffset, Type: win32.PARTITION_MSFT_RESERVED_GUID, ID: id}}
				f.raw(1, func(h win32.Handle) {
					if _, err := f.Windows.DeviceIoControl(h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), nil); err != nil {
						t.Error(err)
					}
				})
			}
		}
		return err
	})
	if err := f.partition(1); err != nil {
		t.Fatal(err)
	}
	if l := f.layout(1); len(l.Partitions) != 2 || l.Partitions[1].Offset != 16*mib || len(erased) != 4 {
		t.Errorf("layout %+v after %d writes, want the data partition at 16 MiB, and its ends erased twice", l, len(erased))
	}
}

// A clone has the identity of its original, so it is offline, and Windows gives it a new
// identity when it comes online. It cannot do so while the disk is read-only.
func TestSetDiskStateOfACloneBesideItsOriginal(t *testing.T) {
	for _, content := range []string{nodespec.ContentGPT, nodespec.ContentMBR} {
		f := newFixture(t, nodespec.Config{Windows: nodespec.Windows{SANPolicy: nodespec.SANOnlineAll}},
			nodespec.Disk{Size: gib, Content: content, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
		var bytes []nodespec.Bytes
		f.raw(1, func(h win32.Handle) {
			for _, at := range []int64{0, gib - mib} {
				b := make([]byte, mib)
				if _, err := f.Windows.ReadAt(h, b, at); err != nil {
					t.Fatal(err)
				}
				bytes = append(bytes, nodespec.Bytes{At: nodespec.Size(at), Data: b})
			}
		})
		for _, readOnly := range []bool{true, false} {
			clone := f.attach(nodespec.Disk{Size: gib, Bytes: bytes, ReadOnly: &readOnly})
			if f.online(clone) || !f.online(1) {
				t.Errorf("%s: the clone is online: %t, its original: %t", content, f.online(clone), f.online(1))
			}
			if readOnly {
				before := f.layout(clone)
				f.Node.KeepReadOnly = true
				wantKind(t, f.setState(clone, true), hosterr.ErrFailedPrecondition, "it is read-only and has the identity of disk 1, so Windows cannot give it one of its own")
				f.Node.KeepReadOnly = false
				if l := f.layout(clone); l.DiskID != before.DiskID || l.Signature != before.Signature || f.online(clone) {
					t.Errorf("%s: the read-only clone was changed", content)
				}
				if _, err := f.disk.SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: clone}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.setState(clone, true); err != nil {
				t.Fatalf("%s: %v", content, err)
			}
			l, original := f.layout(clone), f.layout(1)
			if !f.online(clone) || l.DiskID == original.DiskID && l.Signature == original.Signature {
				t.Errorf("%s: the clone is online: %t, with identity %v %#x, want one of its own", content, f.online(clone), l.DiskID, l.Signature)
			}
			if err := f.Windows.Detach(clone); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// On a disk that grew before it was partitioned, the end of the table is not moved over the content
// of another system, at the new end or where the partition would be.
func TestGrownDiskWithForeignContent(t *testing.T) {
	for name, c := range map[string]struct {
		at   int64
		text string
	}{
		"Linux RAID":          {3*gib - 8192, "\xfc\x4e\x2b\xa9"},
		"Linux RAID, aligned": {3*gib - 64<<10, "\xfc\x4e\x2b\xa9"},
		"XFS":                 {16 * mib, "XFSB"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT})
			if err := f.Windows.Grow(1, 3*gib); err != nil {
				t.Fatal(err)
			}
			if _, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{}); err != nil {
				t.Fatal(err)
			}
			f.write(1, c.at, c.text)
			f.unchanged(func() { wantKind(t, f.partition(1), hosterr.ErrFailedPrecondition, "contains data", "was not changed") })
		})
	}
}
