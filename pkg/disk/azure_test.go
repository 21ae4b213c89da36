package disk_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/winfs"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

// azure returns a disk as Azure's machines of generation 2 present it.
func azure(adapter, lun int, d nodespec.Disk) nodespec.Disk {
	d.Bus, d.Vendor, d.Product = "sas", "Msft", "Virtual Disk"
	d.Address = &nodespec.Address{Port: uint8(adapter), Lun: uint8(lun)}
	d.Location = fmt.Sprintf("Integrated : Bus 0 : Device 63667 : Function %d : Adapter %d : Port 0 : Target 0 : LUN %d", 30746+adapter, adapter, lun)
	if d.Size == 0 {
		d.Size = gib
	}
	return d
}

// temporary is the temporary disk.
func temporary() nodespec.Disk {
	return azure(0, 1, nodespec.Disk{Content: nodespec.ContentMBR, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Label: "Temporary Storage", Letter: "D"}}})
}

// fixtureOf is newFixture with all disks of the node.
func fixtureOf(t *testing.T, cfg nodespec.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, Node: nodetest.New(t, cfg, nil)}
	var err error
	if f.disk, err = disk.New(diskapi.On(f.Node.Node)); err != nil {
		t.Fatal(err)
	}
	return f
}

// listed returns the numbers of the disks that ListDiskLocations lists, and checks that
// ListDiskIDs lists all.
func (f *fixture) listed(all int) string {
	f.t.Helper()
	out, err := f.disk.ListDiskLocations(f.t.Context(), &disk.ListDiskLocationsRequest{})
	if err != nil {
		f.t.Fatal(err)
	}
	ids, err := f.disk.ListDiskIDs(f.t.Context(), &disk.ListDiskIDsRequest{})
	if err != nil || len(ids.DiskIDs) != all {
		f.t.Errorf("ListDiskIDs lists %d disks, %v; want %d", len(ids.DiskIDs), err, all)
	}
	var numbers []string
	for n := range out.DiskLocations {
		numbers = append(numbers, fmt.Sprint(n))
	}
	slices.Sort(numbers)
	return strings.Join(numbers, " ")
}

func TestDisksThatAreNeverMeantAreNotListed(t *testing.T) {
	system := func(d nodespec.Disk) nodespec.Disk {
		d.Size, d.Content = 64*gib, nodespec.ContentSystem
		return d
	}
	const pages = memoryManagement + `\ExistingPageFiles`
	ntfs := []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}
	for name, c := range map[string]struct {
		registry map[string][]string
		disks    []nodespec.Disk
		want     string
	}{
		"only Windows":                      {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{}))}, want: "0"},
		"Windows and the temporary disk":    {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), temporary()}, want: "0"},
		"Azure, both LUNs are used":         {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), temporary(), azure(1, 0, nodespec.Disk{}), azure(1, 1, nodespec.Disk{})}, want: "2 3"},
		"another LUN":                       {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), azure(1, 7, nodespec.Disk{})}, want: "0 1"},
		"a data disk with a letter and MBR": {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), azure(1, 0, nodespec.Disk{Content: nodespec.ContentMBR, Partitions: ntfs})}, want: "1"},
		"two data disks with one LUN":       {disks: []nodespec.Disk{system(azure(0, 5, nodespec.Disk{})), azure(1, 0, nodespec.Disk{}), azure(2, 0, nodespec.Disk{})}, want: "0 1 2"},
		"a page file":                       {registry: map[string][]string{pages: {`\??\E:\pagefile.sys`}}, disks: []nodespec.Disk{system(azure(0, 5, nodespec.Disk{})), azure(0, 1, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: ntfs}), azure(1, 1, nodespec.Disk{})}, want: "0 2"},
		"a page file, alone":                {registry: map[string][]string{pages: {`\??\E:\pagefile.sys`}}, disks: []nodespec.Disk{system(azure(0, 5, nodespec.Disk{})), azure(0, 1, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: ntfs})}, want: "0 1"},
		"the dump file":                     {registry: map[string][]string{crashControl + `\DedicatedDumpFile`: {`E:\dump.sys`}}, disks: []nodespec.Disk{system(azure(0, 5, nodespec.Disk{})), azure(0, 1, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: ntfs}), azure(1, 1, nodespec.Disk{})}, want: "0 2"},
		"the disk that starts Windows":      {disks: []nodespec.Disk{system(azure(0, 5, nodespec.Disk{})), azure(0, 1, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 << 20, Type: "esp"}}}), azure(1, 1, nodespec.Disk{})}, want: "0 2"},
		"a copy of a disk of Windows":       {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), azure(1, 0, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{Size: 100 << 20, Type: "esp"}, {FileSystem: "NTFS"}}})}, want: "1"},
		"local SSDs are data disks":         {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), {Bus: "nvme", Size: gib, Product: "Microsoft NVMe Direct Disk v2", Location: "Integrated : Bus 1 : Device 0 : Function 0 : Adapter 0"}}, want: "0 1"},
		"another maker's label":             {disks: []nodespec.Disk{system(azure(0, 0, nodespec.Disk{})), {Bus: "sas", Size: gib, Vendor: "VMware", Product: "Virtual disk", Address: &nodespec.Address{Port: 1, Lun: 3}, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Label: "Temporary Storage"}}}}, want: "0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fixtureOf(t, nodespec.Config{Registry: c.registry, Disks: c.disks})
			if got := f.listed(len(c.disks)); got != c.want {
				t.Errorf("ListDiskLocations lists disks %q, want %q", got, c.want)
			}
			disks, err := f.disk.ListDisks(t.Context(), &disk.ListDisksRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for n, d := range disks.Disks {
				if d.IsTemporary && strings.Contains(c.want, fmt.Sprint(n)) {
					t.Errorf("ListDisks says of disk %d, whose location is listed, that it is the temporary one", n)
				}
			}
			f.Node.AllDiskLocations = true
			if got := f.listed(len(c.disks)); len(strings.Fields(got)) != len(c.disks) {
				t.Errorf("with -disk-locations=all, ListDiskLocations lists disks %q of %d", got, len(c.disks))
			}
			f.Node.AllDiskLocations = false
			// What cannot be read is listed, as published.
			f.Observe(func(call *win32.Call) error {
				switch call.Name {
				case "VolumeInformation", "RegistryText", "WindowsDirectory", "VolumeNameForMountPoint":
					return win32.ERROR_IO_DEVICE
				}
				if call.Code == win32.IOCTL_DISK_GET_DRIVE_LAYOUT_EX {
					return win32.ERROR_IO_DEVICE
				}
				return call.Do()
			})
			if got := f.listed(len(c.disks)); len(strings.Fields(got)) != len(c.disks) {
				t.Errorf("where nothing can be read, ListDiskLocations lists disks %q of %d", got, len(c.disks))
			}
			f.Observe(nil)
		})
	}
}

// A file system that does not answer delays no listing, unless it may be that of the temporary disk.
func TestHangingDataVolumeDoesNotDelayTheList(t *testing.T) {
	ntfs := nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}}
	ide := func(channel int, d nodespec.Disk) nodespec.Disk {
		d = azure(channel, 0, d)
		d.Product, d.Address.Target = "Virtual HD", uint8(channel)
		return d
	}
	for name, disks := range map[string][]nodespec.Disk{
		"generation 1": {ide(0, nodespec.Disk{Size: 64 * gib, Content: nodespec.ContentSystem}), ide(1, temporary()), azure(3, 0, ntfs), azure(3, 1, ntfs)},
		"generation 2": {azure(0, 0, nodespec.Disk{Size: 64 * gib, Content: nodespec.ContentSystem}), temporary(), azure(1, 0, ntfs), azure(1, 1, ntfs)},
	} {
		t.Run(name, func(t *testing.T) {
			f := fixtureOf(t, nodespec.Config{Disks: disks})
			asked := 0
			f.Observe(func(call *win32.Call) error {
				if call.Name != "VolumeInformation" {
					return call.Do()
				}
				if asked++; asked > 1 {
					<-t.Context().Done() // it hangs
				}
				return call.Do()
			})
			if got := f.listed(len(disks)); got != "2 3" || asked != 1 {
				t.Errorf("ListDiskLocations lists disks %q and asked %d volumes for their labels, want disks 2 3 and only the temporary one's", got, asked)
			}
			f.Observe(nil)
		})
	}
}

// A caller that has the number of the temporary disk cannot use it, with any flags.
func TestTemporaryDiskIsNotUsed(t *testing.T) {
	f := fixtureOf(t, nodespec.Config{Disks: []nodespec.Disk{{Content: nodespec.ContentSystem, Size: 64 * gib}, temporary(), azure(1, 1, nodespec.Disk{})}})
	f.Node.FormatExisting, f.Node.DiskContent, f.Node.AllDiskLocations = true, rules.DiskContentUnknown, true
	volumes, err := volume.New(volumeapi.On(f.Node.Node))
	if err != nil {
		t.Fatal(err)
	}
	list, err := volumes.ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil || len(list.VolumeIDs) != 1 {
		t.Fatalf("the volumes of the temporary disk: %v, %v", list, err)
	}
	id := list.VolumeIDs[0]
	for _, dir := range []string{`D:\data`, `C:\var\lib\kubelet\m`} {
		if err := winfs.MkdirAll(t.Context(), f.Node.Node, dir); err != nil {
			t.Fatal(err)
		}
	}
	_, format := volumes.FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: id})
	_, mount := volumes.MountVolume(t.Context(), &volume.MountVolumeRequest{VolumeID: id, TargetPath: `C:\var\lib\kubelet\m`})
	for name, err := range map[string]error{"PartitionDisk": f.partition(1), "FormatVolume": format, "MountVolume": mount} {
		t.Run(name, func(t *testing.T) { wantKind(t, err, hosterr.ErrFailedPrecondition, "temporary disk") })
	}
	if err := f.partition(2); err != nil {
		t.Errorf("PartitionDisk of the data disk with its LUN: %v", err)
	}
}

// While the volume of the temporary disk is busy, the disk is listed, and it is said that it may be
// that one.
func TestTemporaryDiskWhoseVolumeIsBusy(t *testing.T) {
	var log bytes.Buffer
	f := fixtureOf(t, nodespec.Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Disks: []nodespec.Disk{azure(0, 0, nodespec.Disk{Size: 64 * gib, Content: nodespec.ContentSystem}), temporary(),
		azure(1, 1, nodespec.Disk{}), azure(1, 2, nodespec.Disk{Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS"}}})}})
	busy, err := f.Windows.VolumeNameForMountPoint(`D:\`)
	if err != nil {
		t.Fatal(err)
	}
	f.Observe(func(c *win32.Call) error {
		if c.Name == "CreateFile" && c.Path+`\` == busy {
			return win32.ERROR_SHARING_VIOLATION
		}
		return c.Do()
	})
	const says = "does not say where it lies, and may be one of disk 1"
	if got := f.listed(4); got != "0 1 2 3" || !strings.Contains(log.String(), says) {
		t.Errorf("ListDiskLocations lists disks %q, want 0 1 2 3, and a line:\n%s", got, &log)
	}
	out, err := f.disk.ListDisks(t.Context(), &disk.ListDisksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for n, d := range out.Disks {
		if d.IsTemporary || strings.Contains(d.Unread, says) != (n == 1) {
			t.Errorf("disk %d: temporary %t, unread %q", n, d.IsTemporary, d.Unread)
		}
	}
	f.Observe(nil)
}

// A disk that does not say what it is is listed, whatever the label of its volume is, which nothing
// asks: it may hang.
func TestDiskWithoutProductIsListed(t *testing.T) {
	d := temporary()
	d.Product = "Disk"
	f := fixtureOf(t, nodespec.Config{Disks: []nodespec.Disk{{Size: 64 * gib, Content: nodespec.ContentSystem}, d}})
	f.Observe(func(c *win32.Call) error {
		switch {
		case c.Name == "VolumeInformation":
			t.Errorf("asks volume %s for its label", c.Path)
		case c.Code == win32.IOCTL_STORAGE_QUERY_PROPERTY && binary.LittleEndian.Uint32(c.In) == win32.StorageDeviceProperty:
			return win32.ERROR_IO_DEVICE
		}
		return c.Do()
	})
	if got := f.listed(2); !strings.Contains(got, "1") {
		t.Errorf("ListDiskLocations lists disks %q, want 1", got)
	}
	f.Observe(nil)
}
