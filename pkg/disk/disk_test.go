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

func (f *fixture) unchanged(do func())                   { f.t.Helper(); f.Unchanged(f.t, do) }
func (f *fixture) raw(n uint32, do func(h win32.Handle)) { f.t.Helper(); f.Raw(f.t, n, do) }
func (f *fixture) write(n uint32, at int64, text string) { f.t.Helper(); f.Write(f.t, n, at, text) }
func (f *fixture) layout(n uint32) win32.Layout          { f.t.Helper(); return f.Layout(f.t, n) }

var changes, wantKind = nodetest.Changes, nodetest.WantKind

func (f *fixture) partition(n uint32) error {
	_, err := f.disk.PartitionDisk(f.t.Context(), &disk.PartitionDiskRequest{DiskNumber: n})
	return err
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

func yes() *bool { b := true; return &b }

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
						if err := f.Windows.Format(id, win32.FormatOptions{Direct: true}); err != nil {
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
			_, state := f.disk.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: 1})
			_, readOnly := f.disk.GetDiskReadOnly(ctx, &disk.GetDiskReadOnlyRequest{DiskNumber: 1})
			_, stats := f.disk.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: 1})
			for _, err := range []error{state, readOnly, stats} {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a request that reads the disk: %v, want it to wait", err)
				}
			}
		}
		return c.Do()
	})
	if err := f.setState(1, false); err != nil || !asked {
		t.Errorf("take disk 1 offline: %v; Windows was called: %t", err, asked)
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

func TestRemovedDeviceIsNotFound(t *testing.T) {
	for _, e := range []win32.Errno{win32.ERROR_DEV_NOT_EXIST, win32.ERROR_DEVICE_REMOVED} {
		f := newFixture(t, nodespec.Config{}, nodespec.Disk{Size: gib})
		f.Fail("CreateFile", 0, e)
		wantKind(t, f.setState(1, false), hosterr.ErrNotFound)
	}
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

func (f *fixture) attributes(n uint32) uint64 {
	f.t.Helper()
	out := make([]byte, win32.SizeofGetDiskAttributes)
	f.Control(f.t, n, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, out)
	a, err := win32.DecodeDiskAttributes(out)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
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
	f.Fail("Reenumerate", 0, win32.ERROR_ACCESS_DENIED)
	_, err := f.disk.Rescan(t.Context(), &disk.RescanRequest{})
	wantKind(t, err, hosterr.ErrPermissionDenied, "scan for new devices")
	f.Observe(nil)
	if out, err := f.disk.GetDiskStats(t.Context(), &disk.GetDiskStatsRequest{DiskNumber: 1}); err != nil || out.TotalBytes != 2*gib {
		t.Errorf("GetDiskStats = %+v, %v, want %d bytes", out, err, 2*gib)
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
				f.BringOnline(t, f.attach(d))
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
				f.Control(t, 1, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), nil)
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
