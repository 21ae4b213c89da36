package emulated

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

var quick = win32.FormatOptions{}

func TestRoots(t *testing.T) {
	n := start(t, nodespec.Config{})
	ok(t, n.SetMountPoint(`C:\var\lib\kubelet\pods\`, one2(t, n)))
	for _, c := range []struct {
		root string
		info error
		free error
	}{
		{`C:\`, nil, nil},
		{`C:`, win32.ERROR_INVALID_NAME, win32.ERROR_BAD_PATHNAME}, // GetVolumeInformationW's page; ntName
		{`C:\Windows\`, win32.ERROR_DIR_NOT_ROOT, nil},             // winerror.h
		{`C:\Windows`, win32.ERROR_INVALID_NAME, nil},
		{`C:\nothing\`, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND},
		{`Q:\`, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND},
		{`\\?\Volume{00000000-0000-4000-8000-000000000000}\`, win32.ERROR_PATH_NOT_FOUND, win32.ERROR_PATH_NOT_FOUND},
		{`C:\var\lib\kubelet\pods\`, win32.ERROR_UNRECOGNIZED_VOLUME, win32.ERROR_UNRECOGNIZED_VOLUME}, // mounted, not formatted
		{`\\server\share\`, win32.ERROR_BAD_NETPATH, win32.ERROR_BAD_NETPATH},
	} {
		if _, err := n.VolumeInformation(c.root); !errors.Is(err, c.info) {
			t.Errorf("VolumeInformation(%q) = %v, want %v", c.root, err, c.info)
		}
		if _, _, _, err := n.FreeSpace(c.root); !errors.Is(err, c.free) {
			t.Errorf("FreeSpace(%q) = %v, want %v", c.root, err, c.free)
		}
	}
}

// one2 creates a volume on disk 2 of the default node.
func one2(t testing.TB, n *Node) string {
	t.Helper()
	h := openPath(t, n, `\\.\PhysicalDrive2`, readWrite)
	partition(t, n, h, data(7, 16*mib, gib))
	ok(t, n.CloseHandle(h))
	return one(t, n, 2)
}

// A new volume appears after the configured delay, or a moment later, or at once, and stays
// the same when the table is read again.
func TestNewVolumesAreLate(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   nodespec.Config
		after time.Duration
	}{
		"delay":   {nodespec.Config{VolumeArrivalDelay: nodespec.Duration(time.Second)}, time.Second},
		"late":    {nodespec.Config{Windows: nodespec.Windows{NewVolumes: nodespec.NewVolumesLate}}, kernel.ArrivalDelay},
		"at once": {nodespec.Config{Windows: nodespec.Windows{NewVolumes: nodespec.NewVolumesAtOnce}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			n := blank(t, c.cfg, nodespec.Disk{Size: gib}, kernel.Machine{Now: func() time.Time { return now }})
			h := drive(t, n, readWrite)
			partition(t, n, h, data(1, 16*mib, 500*mib))
			if c.after > 0 {
				now = now.Add(c.after - 1)
				if vs := volumesOn(t, n, 1); len(vs) != 0 {
					t.Errorf("volumes %v too early", vs)
				}
				now = now.Add(1)
			}
			vol := one(t, n, 1)
			ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
			if got := one(t, n, 1); got != vol {
				t.Errorf("volume %s became %s", vol, got)
			}
		})
	}
}

func TestVolumeControl(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	partition(t, n, drive(t, n, readWrite), win32.Partition{Style: win32.PARTITION_STYLE_GPT, Offset: mib, Length: 15 * mib, Type: win32.PARTITION_MSFT_RESERVED_GUID, ID: guid(9)}, data(1, 16*mib, 500*mib))
	vol := one(t, n, 1)
	h := openPath(t, n, devicePath(vol), readWrite)
	number, err := win32.DecodeDeviceNumber(ioctl(t, n, h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12))
	if want := (win32.DeviceNumber{DeviceType: 7, DeviceNumber: 1, PartitionNumber: 2}); err != nil || number != want {
		t.Errorf("device number %+v, %v, want %+v", number, err, want)
	}
	if length, err := win32.DecodeLength(ioctl(t, n, h, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8)); err != nil || length != 500*mib {
		t.Errorf("length %d, %v", length, err)
	}
	if g, err := win32.DecodeGeometry(ioctl(t, n, h, win32.IOCTL_DISK_GET_DRIVE_GEOMETRY_EX, nil, 40)); err != nil || g.DiskSize != gib {
		t.Errorf("geometry %+v, %v, want the disk's", g, err)
	}
	failIoctl(t, n, h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 31, win32.ERROR_INVALID_PARAMETER)
	failIoctl(t, n, h, win32.IOCTL_DISK_GET_DISK_ATTRIBUTES, nil, 16, win32.ERROR_INVALID_FUNCTION) // disks only
	failIoctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{}.Encode(), 0, win32.ERROR_INVALID_FUNCTION)
	failIoctl(t, n, h, 0x560999, nil, 0, win32.ERROR_INVALID_FUNCTION)
	failIoctl(t, n, h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, 0, win32.ERROR_GEN_FAILURE) // Microsoft's page of the code
	ioctl(t, n, h, win32.IOCTL_VOLUME_OFFLINE, nil, 0)
	ioctl(t, n, h, win32.IOCTL_VOLUME_IS_OFFLINE, nil, 0)
	if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_NOT_READY) {
		t.Errorf("VolumeInformation of an offline volume = %v, want ERROR_NOT_READY", err)
	}
	if _, err := n.ReadAt(h, make([]byte, 512), 0); !errors.Is(err, win32.ERROR_NOT_READY) {
		t.Errorf("ReadAt of an offline volume = %v, want ERROR_NOT_READY", err)
	}
	ioctl(t, n, h, win32.IOCTL_VOLUME_ONLINE, nil, 0)
	if err := n.FlushFileBuffers(h); err != nil {
		t.Errorf("FlushFileBuffers = %v", err)
	}
	asks := openPath(t, n, devicePath(vol), 0)
	failIoctl(t, n, asks, win32.IOCTL_VOLUME_ONLINE, nil, 0, win32.ERROR_ACCESS_DENIED)            // CTL_CODE
	failIoctl(t, n, asks, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, 96, win32.ERROR_INVALID_FUNCTION) // docs/develop/contract/calls.md#handles-and-access
	if err := n.FlushFileBuffers(asks); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {               // FlushFileBuffers' page
		t.Errorf("FlushFileBuffers without write access = %v, want ERROR_ACCESS_DENIED", err)
	}
}

func TestSpannedVolume(t *testing.T) {
	n := start(t, nodespec.Config{
		Disks:          []nodespec.Disk{{Size: gib}, {Size: gib}},
		SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: mib, Length: 100 * mib}, {Disk: 1, Offset: 2 * mib, Length: 200 * mib}}}},
	})
	vol := one(t, n, 0)
	h := openPath(t, n, devicePath(vol), readWrite)
	out := make([]byte, 32)
	// Microsoft: IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, ERROR_MORE_DATA.
	size, err := n.DeviceIoControl(h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, out)
	if !errors.Is(err, win32.ERROR_MORE_DATA) || size != 32 || out[0] != 2 {
		t.Errorf("extents in 32 bytes = %d, %v, %x", size, err, out)
	}
	es, err := win32.DecodeExtents(ioctl(t, n, h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 56))
	if want := []win32.Extent{{Disk: 0, Offset: mib, Length: 100 * mib}, {Disk: 1, Offset: 2 * mib, Length: 200 * mib}}; err != nil || !slices.Equal(es, want) {
		t.Errorf("extents %+v, %v, want %+v", es, err, want)
	}
	failIoctl(t, n, h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12, win32.ERROR_INVALID_FUNCTION) // docs/develop/contract/volumes.md#finding-volumes
	text := []byte(strings.Repeat("ab", 512))
	if _, err := n.WriteAt(h, text, 100*mib-512); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 512)
	if _, err := n.ReadAt(openPath(t, n, `\\.\PhysicalDrive1`, win32.GENERIC_READ), b, 2*mib); err != nil || string(b) != string(text[512:]) {
		t.Errorf("the second disk has %q, %v", b[:8], err)
	}
	ok(t, n.Detach(1))
	if vs := volumesOn(t, n, 0); len(vs) != 0 {
		t.Errorf("volumes %v without the second disk", vs)
	}
}

// Microsoft: IOCTL_VOLUME_ONLINE, IOCTL_VOLUME_OFFLINE, mountvol /N.
func TestNewVolumesAreOffline(t *testing.T) {
	for _, c := range []struct {
		w       behavior.Windows
		offline bool
		extents error
	}{
		{behavior.Windows{}, true, win32.ERROR_NOT_READY},
		{behavior.Windows{OfflineVolumes: behavior.OfflineLocated}, true, nil},
		{behavior.Windows{Automount: nodespec.AutomountEnabled}, false, nil},
	} {
		t.Run(fmt.Sprintf("%+v", c.w), func(t *testing.T) {
			cfg := nodespec.Config{StateDir: t.TempDir(), World: behavior.In("", c.w), Disks: []nodespec.Disk{
				{Content: nodespec.ContentSystem},
				{Content: nodespec.ContentGPT, Size: gib, Partitions: []nodespec.Partition{{}}}, // not new
			}}
			n := start(t, cfg)
			attach(t, n, nodespec.Disk{Size: gib, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})
			online(t, n, 2)
			const place = `\\?\Harddisk2Partition2`
			if number, err := win32.DecodeDeviceNumber(ioctl(t, n, openPath(t, n, `\\?\harddisk1partition2`, 0), win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12)); err != nil || number.DeviceNumber != 1 || number.PartitionNumber != 2 {
				t.Errorf("device number %+v, %v", number, err)
			}
			for _, wrong := range []string{`\\?\Harddisk2Partition1`, `\\?\Harddisk9Partition2`, `\\?\Harddisk02Partition2`, `\\?\Harddisk2`} {
				if _, err := n.CreateFile(wrong, 0, shareBoth, win32.OPEN_EXISTING, 0); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
					t.Errorf("CreateFile(%q) = %v, want ERROR_FILE_NOT_FOUND", wrong, err)
				}
			}
			check := func(offline bool, extents error) {
				t.Helper()
				names, err := n.VolumeNames()
				ok(t, err)
				vol := names[len(names)-1] // offline volumes are listed
				asks := openPath(t, n, place, 0)
				if _, err := n.DeviceIoControl(asks, win32.IOCTL_VOLUME_IS_OFFLINE, nil, nil); (err == nil) != offline {
					t.Errorf("IOCTL_VOLUME_IS_OFFLINE = %v, want offline %t", err, offline)
				}
				if _, err := n.DeviceIoControl(asks, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, make([]byte, 64)); !errors.Is(err, extents) {
					t.Errorf("IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS = %v, want %v", err, extents)
				}
				ok(t, n.CloseHandle(asks))
				if !offline {
					return
				}
				h := openPath(t, n, devicePath(vol), readWrite)
				for _, code := range []uint32{win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, win32.IOCTL_DISK_GET_LENGTH_INFO, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, win32.FSCTL_GET_NTFS_VOLUME_DATA} {
					failIoctl(t, n, h, code, nil, 128, win32.ERROR_NOT_READY)
				}
				ok(t, n.CloseHandle(h))
				if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_NOT_READY) {
					t.Errorf("VolumeInformation = %v, want ERROR_NOT_READY", err)
				}
				if err := errors.Join(n.UpdateStorageCache(), n.Format(vol, quick)); !errors.Is(err, win32.ERROR_INVALID_PARAMETER) {
					t.Errorf("Format = %v, want ERROR_INVALID_PARAMETER", err)
				}
			}
			check(c.offline, c.extents)
			ok(t, n.Reboot())
			check(c.offline, c.extents)
			ok(t, n.Close())
			n = start(t, cfg)
			check(c.offline, c.extents)
			h := openPath(t, n, place, readWrite)
			ioctl(t, n, h, win32.IOCTL_VOLUME_ONLINE, nil, 0)
			ok(t, n.CloseHandle(h))
			check(false, nil)
			ok(t, n.Reboot())
			check(false, nil)
		})
	}
}

// Microsoft: IOCTL_VOLUME_UPDATE_PROPERTIES.
func TestVolumeGrowth(t *testing.T) {
	const want = 500 * mib
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 500*mib))
	v := openPath(t, n, devicePath(one(t, n, 1)), readWrite)
	length := func() uint64 {
		t.Helper()
		b, err := win32.DecodeLength(ioctl(t, n, v, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8))
		ok(t, err)
		return b
	}
	ioctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: 100 * mib}.Encode(), 0)
	ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
	if got := length(); got != want {
		t.Errorf("%d bytes after the partition grew, want %d", got, want)
	}
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Attributes: 1, Mask: 1}.Encode(), 0)
	ioctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Mask: 1}.Encode(), 0)
	v = openPath(t, n, devicePath(one(t, n, 1)), readWrite)
	if got := length(); got != want {
		t.Errorf("%d bytes when the disk is online again, want %d", got, want)
	}
	ioctl(t, n, v, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, nil, 0)
	if got := length(); got != 600*mib {
		t.Errorf("%d bytes after IOCTL_VOLUME_UPDATE_PROPERTIES, want %d", got, 600*mib)
	}
}

// docs/develop/contract/volumes.md#growth, step 5.
func TestExtendVolume(t *testing.T) {
	for _, sector := range []uint64{512, 4096} {
		n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, SectorSize: uint32(sector)})
		h := drive(t, n, readWrite)
		partition(t, n, h, data(1, 16*mib, 500*mib))
		vol := one(t, n, 1)
		extend := func(v win32.Handle, sectors uint64, want error) {
			t.Helper()
			if _, err := n.DeviceIoControl(v, win32.FSCTL_EXTEND_VOLUME, win32.EncodeSectors(int64(sectors)), nil); !errors.Is(err, want) {
				t.Errorf("FSCTL_EXTEND_VOLUME(%d) = %v, want %v", sectors, err, want)
			}
		}
		raw := openPath(t, n, devicePath(vol), readWrite)
		extend(raw, 500*mib/sector, nil) // RAW accepts any size up to that of the partition
		extend(raw, 500*mib/sector+1, win32.ERROR_INVALID_PARAMETER)
		ok(t, n.CloseHandle(raw))
		ok(t, n.Format(vol, quick))
		v := openPath(t, n, devicePath(vol), readWrite)
		extend(v, 500*mib/sector, win32.ERROR_INVALID_PARAMETER) // not one more cluster
		extend(v, 0, win32.ERROR_INVALID_PARAMETER)
		extend(v, math.MaxUint64, win32.ERROR_INVALID_PARAMETER)
		failIoctl(t, n, v, win32.FSCTL_EXTEND_VOLUME, make([]byte, 7), 0, win32.ERROR_BAD_LENGTH)
		ioctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: 100 * mib}.Encode(), 0)
		ioctl(t, n, v, win32.IOCTL_VOLUME_UPDATE_PROPERTIES, nil, 0)
		if length, _ := win32.DecodeLength(ioctl(t, n, v, win32.IOCTL_DISK_GET_LENGTH_INFO, nil, 8)); length != 600*mib {
			t.Errorf("the open volume has %d bytes, want %d", length, 600*mib)
		}
		_, before, _, err := n.FreeSpace(vol)
		if err != nil || before > 500*mib {
			t.Errorf("the file system has %d bytes, %v, before it was extended", before, err)
		}
		extend(v, 600*mib/sector+1, win32.ERROR_INVALID_PARAMETER) // beyond the partition
		extend(v, 600*mib/sector, nil)
		if _, after, _, err := n.FreeSpace(vol); err != nil || after != 600*mib-4096 {
			t.Errorf("the file system has %d bytes, %v, want %d", after, err, 600*mib-4096)
		}
		extend(v, 600*mib/sector, win32.ERROR_INVALID_PARAMETER)
		if fs, _ := blkid(t, image(t, n, 1), 16*mib); fs != "ntfs" {
			t.Errorf("blkid says %q, want ntfs", fs)
		}
		ioctl(t, n, h, win32.IOCTL_DISK_SET_DISK_ATTRIBUTES, win32.SetDiskAttributes{Attributes: 2, Mask: 2}.Encode(), 0)
		extend(v, 600*mib/sector, win32.ERROR_WRITE_PROTECT)
	}
}

func TestDriveLetters(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    nodespec.Config
		change func(*win32.Partition)
		want   string
	}{
		{"no drive letter", nodespec.Config{}, func(p *win32.Partition) {}, ""},
		{"ordinary", nodespec.Config{Windows: nodespec.Windows{Automount: "enabled"}}, func(p *win32.Partition) { p.Attributes = 0 }, `D:\`},
		{"hidden", nodespec.Config{}, func(p *win32.Partition) { p.Attributes = 1 << 62 }, ""},
		{"recovery", nodespec.Config{}, func(p *win32.Partition) { p.Attributes, p.Type = 0, win32.PARTITION_MSFT_RECOVERY_GUID }, ""},
		{"automount off", nodespec.Config{}, func(p *win32.Partition) { p.Attributes = 0 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := blank(t, c.cfg, nodespec.Disk{Size: gib})
			p := data(1, 16*mib, 500*mib)
			c.change(&p)
			partition(t, n, drive(t, n, readWrite), p)
			names, err := n.VolumePathNames(one(t, n, 1))
			if err != nil || strings.Join(names, " ") != c.want {
				t.Errorf("VolumePathNames = %q, %v, want %q", names, err, c.want)
			}
		})
	}
}

func TestSuperfloppy(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib, Content: nodespec.ContentSuperfloppy})
	h := drive(t, n, readWrite)
	l := layout(t, n, h)
	if l.Style != win32.PARTITION_STYLE_MBR || l.Signature != 0 || len(l.Partitions) != 1 || l.Partitions[0].Length != gib || l.Partitions[0].Offset != 0 {
		t.Fatalf("layout %+v, want one partition that is the disk", l)
	}
	vol := one(t, n, 1)
	if info, err := n.VolumeInformation(vol); err != nil || info.FileSystem != "NTFS" {
		t.Errorf("VolumeInformation = %+v, %v", info, err)
	}
	// There is no table to change.
	failIoctl(t, n, h, win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, l.Encode(), 0, win32.ERROR_INVALID_PARAMETER)
	failIoctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: mib}.Encode(), 0, win32.ERROR_INVALID_PARAMETER)
}

func TestVolumeNamesPersist(t *testing.T) {
	cfg := nodespec.Config{StateDir: t.TempDir(), Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {ID: "lun-7", Size: gib}}}
	n := start(t, cfg)
	partition(t, n, drive(t, n, readWrite), data(1, 16*mib, 300*mib), data(2, 400*mib, 300*mib))
	before := volumesOn(t, n, 1)
	ok(t, n.Format(before[400*mib], quick))
	check := func(n *Node, when string, number uint32) {
		t.Helper()
		for off, name := range volumesOn(t, n, number) {
			if before[off] != name {
				t.Errorf("%s: volume at %d is %s, was %s", when, off, name, before[off])
			}
		}
		if len(volumesOn(t, n, number)) != 2 {
			t.Errorf("%s: volumes %v, want two", when, volumesOn(t, n, number))
		}
		if info, err := n.VolumeInformation(before[400*mib]); err != nil || info.FileSystem != "NTFS" {
			t.Errorf("%s: VolumeInformation = %+v, %v", when, info, err)
		}
	}
	check(n, "formatted", 1)
	ok(t, n.Detach(1))
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("volumes %v of a detached disk", vs)
	}
	number := uint32(5)
	attach(t, n, nodespec.Disk{ID: "lun-7", Number: &number})
	check(n, "attached again", 5)
	ok(t, n.Close())
	n = start(t, cfg)
	check(n, "opened again", 5)
	ok(t, n.Detach(5))
	ok(t, n.Discard("lun-7"))
	for _, k := range n.Store.Keys("") {
		if strings.Contains(k, "lun-7") {
			t.Errorf("%s of a discarded disk is still stored", k)
		}
	}
	if err := n.Discard("lun-7"); err == nil {
		t.Error("Discard of a discarded disk succeeded")
	}
	// Another disk may use the identity again.
	attach(t, n, nodespec.Disk{ID: "lun-7", Size: gib})
}
