package emulated

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

var quick = win32.FormatOptions{FileSystem: "NTFS", Quick: true}

// blkid returns libblkid's type and label at an offset of an image.
func blkid(t testing.TB, image string, off uint64) (fsType, label string) {
	t.Helper()
	path := tool(t, "blkid", "util-linux")
	args := []string{"--probe", "--offset", fmt.Sprint(off), "--output", "export"}
	out, err := exec.Command(path, append(args, image)...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "", "" // nothing found
	}
	if err != nil {
		t.Fatalf("blkid: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "TYPE="); ok {
			fsType = v
		}
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "LABEL="); ok {
			label = v
		}
	}
	return fsType, label
}

func TestFormatPassesBlkid(t *testing.T) {
	for _, sector := range []uint32{512, 4096} {
		for _, size := range []uint64{4 * mib, 100 * mib, gib, 2 * tib, 10 * tib} {
			for _, cluster := range []uint32{0, 64 * kib, 2 * mib} {
				if cluster != 0 && size/uint64(cluster) < 100 || cluster > 64*kib && sector == 4096 && size < gib {
					continue
				}
				t.Run(fmt.Sprintf("%d bytes in sectors of %d and clusters of %d", size, sector, cluster), func(t *testing.T) {
					n := blank(t, nodespec.Config{}, nodespec.Disk{Size: nodespec.Size(size + 32*mib), SectorSize: sector})
					partition(t, n, drive(t, n, readWrite), data(1, 16*mib, size))
					vol := one(t, n, 1)
					if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) { // docs/contract/volumes.md#is-it-formatted
						t.Errorf("VolumeInformation before = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
					}
					o := win32.FormatOptions{FileSystem: "ntfs", Label: "Daten", Quick: true, ClusterSize: cluster}
					if err := n.Format(vol, o); err != nil {
						t.Fatal(err)
					}
					if fs, label := blkid(t, image(t, n, 1), 16*mib); fs != "ntfs" || label != "Daten" {
						t.Errorf("blkid says %q labelled %q, want ntfs, Daten", fs, label)
					}
					info, err := n.VolumeInformation(vol)
					if err != nil || info.FileSystem != "NTFS" || info.Label != "Daten" || info.Flags&win32.FILE_SUPPORTS_REPARSE_POINTS == 0 {
						t.Errorf("VolumeInformation = %+v, %v", info, err)
					}
					avail, total, free, err := n.FreeSpace(vol)
					if err != nil || avail != free || free >= total || total >= size || total < size-max(4*mib, uint64(cluster)) {
						t.Errorf("FreeSpace = %d, %d, %d, %v of %d", avail, total, free, err, size)
					}
					v, err := win32.DecodeNTFSVolumeData(ioctl(t, n, openPath(t, n, devicePath(vol), win32.GENERIC_READ), win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, 96))
					if err != nil || v.BytesPerSector != sector || v.TotalClusters*uint64(v.BytesPerCluster) != total || cluster != 0 && v.BytesPerCluster != cluster {
						t.Errorf("NTFS volume data %+v, %v", v, err)
					}
				})
			}
		}
	}
}

func TestDefaultClusters(t *testing.T) {
	for size, want := range map[uint64]uint32{gib: 4096, 16 * tib: 4096, 16*tib + 1: 8192, 64 * tib: 16384, 256 * tib: 65536} {
		if got := bootsector.DefaultCluster(size, 512); got != want {
			t.Errorf("DefaultCluster(%d) = %d, want %d", size, got, want)
		}
	}
}

func TestFormatRefusals(t *testing.T) {
	number := uint32(2)
	yes := true
	n := blank(t, nodespec.Config{
		Disks: []nodespec.Disk{
			{Number: &number, Size: gib, Content: nodespec.ContentGPTNoMSR, Partitions: []nodespec.Partition{{}}, ReadOnly: &yes},
			{Size: gib}, {Size: gib},
		},
		SpannedVolumes: []nodespec.SpannedVolume{{Extents: []nodespec.Extent{{Disk: 0, Offset: 10 * mib, Length: 100 * mib}, {Disk: 3, Offset: 10 * mib, Length: 100 * mib}}}},
	}, nodespec.Disk{Size: gib})
	partition(t, n, drive(t, n, readWrite), data(1, 16*mib, 500*mib), data(2, 600*mib, 2*mib))
	vols := volumesOn(t, n, 1)
	good, small := vols[16*mib], vols[600*mib]
	for _, c := range []struct {
		name string
		vol  string
		o    win32.FormatOptions
		want win32.Errno
	}{
		// The numbers are the node's own choice: see Format.
		{"not a volume name", `E:\`, quick, win32.ERROR_INVALID_NAME},
		{"volume name without backslash", devicePath(good), quick, win32.ERROR_INVALID_NAME},
		{"unknown volume", `\\?\Volume{00000000-0000-4000-8000-000000000000}\`, quick, win32.ERROR_FILE_NOT_FOUND},
		{"other file system", good, win32.FormatOptions{FileSystem: "ReFS", Quick: true}, win32.ERROR_NOT_SUPPORTED},
		{"no file system", good, win32.FormatOptions{Quick: true}, win32.ERROR_NOT_SUPPORTED},
		{"cluster not a power of two", good, win32.FormatOptions{FileSystem: "NTFS", ClusterSize: 5000}, win32.ERROR_INVALID_PARAMETER},
		{"cluster below a sector", good, win32.FormatOptions{FileSystem: "NTFS", ClusterSize: 256}, win32.ERROR_INVALID_PARAMETER},
		{"cluster above 2 MiB", good, win32.FormatOptions{FileSystem: "NTFS", ClusterSize: 4 * mib}, win32.ERROR_INVALID_PARAMETER},
		{"label of 33", good, win32.FormatOptions{FileSystem: "NTFS", Label: strings.Repeat("x", 33)}, win32.ERROR_INVALID_PARAMETER},
		{"label with a colon", good, win32.FormatOptions{FileSystem: "NTFS", Label: "a:b"}, win32.ERROR_INVALID_PARAMETER},
		{"too small", small, quick, win32.ERROR_DISK_FULL},
		{"read-only disk", one(t, n, 2), quick, win32.ERROR_WRITE_PROTECT},
		{"several disks", volumesOn(t, n, 0)[10*mib], quick, win32.ERROR_NOT_SUPPORTED},
	} {
		if err := n.Format(c.vol, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: Format = %v, want %v", c.name, err, c.want.Name())
		}
	}
	// docs/contract/volumes.md#format, callback type 8: the volume cannot be locked
	// while it is open.
	h := openPath(t, n, devicePath(good), win32.GENERIC_READ)
	if err := n.Format(good, quick); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("Format of an open volume = %v, want ERROR_ACCESS_DENIED", err)
	}
	if err := n.CloseHandle(h); err != nil {
		t.Fatal(err)
	}
	openPath(t, n, devicePath(good), 0) // queries, but does not use the volume
	if err := n.Format(good, quick); err != nil {
		t.Errorf("Format = %v", err)
	}
	root, err := n.NtCreateFile(0, `\??\`+strings.TrimPrefix(good, `\\?\`), win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Format(good, quick); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("Format with an open directory = %v, want ERROR_ACCESS_DENIED", err)
	}
	if err := n.CloseHandle(root); err != nil {
		t.Fatal(err)
	}
}

// TestFormatDuration checks the node in the middle of a format.
func TestFormatDuration(t *testing.T) {
	var n *Node
	var vol string
	asked := false
	n = blank(t, nodespec.Config{FormatDuration: nodespec.Duration(time.Minute)}, nodespec.Disk{Size: gib}, Machine{Sleep: func(d time.Duration) {
		asked = true
		if d != time.Minute {
			t.Errorf("slept %v", d)
		}
		// A volume that is being formatted is locked.
		if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("VolumeInformation during a format = %v, want ERROR_ACCESS_DENIED", err)
		}
		if err := n.Format(vol, quick); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("second Format = %v, want ERROR_ACCESS_DENIED", err)
		}
		if _, err := n.CreateFile(devicePath(vol), win32.GENERIC_READ, shareBoth, win32.OPEN_EXISTING, 0); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
			t.Errorf("CreateFile during a format = %v, want ERROR_ACCESS_DENIED", err)
		}
	}})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 500*mib))
	vol = one(t, n, 1)
	if err := n.Format(vol, quick); err != nil || !asked {
		t.Fatalf("Format = %v, slept %t", err, asked)
	}
	if _, err := n.VolumeInformation(vol); err != nil {
		t.Error(err)
	}
	n.sleep = func(time.Duration) {
		if err := n.Detach(1); err != nil {
			t.Error(err)
		}
	}
	if err := n.Format(vol, quick); !errors.Is(err, win32.ERROR_NO_SUCH_DEVICE) { // docs/contract/calls.md#transient-errors
		t.Errorf("Format of a detached disk = %v, want ERROR_NO_SUCH_DEVICE", err)
	}
}

// TestForeignFileSystems: the bytes of a volume decide which file system it has.
func TestForeignFileSystems(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	partition(t, n, drive(t, n, readWrite), data(1, 16*mib, 500*mib))
	vol, img := one(t, n, 1), image(t, n, 1)
	if err := n.Format(vol, quick); err != nil {
		t.Fatal(err)
	}
	wipe := make([]byte, 8*kib)
	if _, err := n.diskByNumber(1).image.WriteAt(wipe, 16*mib); err != nil {
		t.Fatal(err)
	}
	if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		t.Errorf("VolumeInformation of zeros = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
	}
	mkfs := tool(t, "mkfs.ext4", "e2fsprogs")
	if out, err := exec.Command(mkfs, "-q", "-F", "-E", "offset=16777216", img, "500M").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if fs, _ := blkid(t, img, 16*mib); fs != "ext4" {
		t.Fatalf("blkid says %q, want ext4", fs)
	}
	if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		t.Errorf("VolumeInformation of ext4 = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
	}
	if _, _, _, err := n.FreeSpace(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) { // docs/contract/volumes.md#statistics
		t.Errorf("FreeSpace of ext4 = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
	}
	h := openPath(t, n, devicePath(vol), readWrite)
	failIoctl(t, n, h, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, 96, win32.ERROR_INVALID_FUNCTION)
	for _, w := range bootsector.MakeFAT32(500*mib, 512, 2048, 0x1234ABCD) {
		if _, err := n.WriteAt(h, w.Data, int64(w.Offset)); err != nil && w.Offset == 0 {
			t.Fatal(err)
		}
	}
	if info, err := n.VolumeInformation(vol); err != nil || info.FileSystem != "FAT32" || info.SerialNumber != 0x1234ABCD || info.Flags&win32.FILE_SUPPORTS_REPARSE_POINTS != 0 {
		t.Errorf("VolumeInformation of FAT32 = %+v, %v", info, err)
	}
	failIoctl(t, n, h, win32.FSCTL_EXTEND_VOLUME, win32.EncodeSectors(500*mib/512), 0, win32.ERROR_INVALID_FUNCTION)
}

func TestSystemDiskPassesBlkid(t *testing.T) {
	n := start(t, nodespec.Config{})
	img := image(t, n, 0)
	sgdisk(t, img, 512)
	info, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"vfat", "ntfs"} {
		if fs, _ := blkid(t, img, uint64(info.Volumes[i].Offset)); fs != want {
			t.Errorf("blkid at %d says %q, want %q", uint64(info.Volumes[i].Offset), fs, want)
		}
	}
	if names, err := n.VolumePathNames(info.Volumes[1].ID); err != nil || !slices.Equal(names, []string{`C:\`}) {
		t.Errorf("VolumePathNames = %q, %v, want C:", names, err)
	}
	for _, dir := range []string{`C:\Windows\System32`, `C:\var\lib\kubelet\plugins`, `c:\VAR\lib\kubelet\pods`, `C:\Program Files`, `C:\Users`, `C:\ProgramData`} {
		if a, err := n.Attributes(dir); err != nil || a&win32.FILE_ATTRIBUTE_DIRECTORY == 0 {
			t.Errorf("Attributes(%q) = %#x, %v, want a directory", dir, a, err)
		}
	}
	if dir, err := n.WindowsDirectory(); err != nil || dir != `C:\Windows` {
		t.Errorf("WindowsDirectory = %q, %v", dir, err)
	}
}

func TestRoots(t *testing.T) {
	n := start(t, nodespec.Config{})
	if err := n.SetMountPoint(`C:\var\lib\kubelet\pods\`, one2(t, n)); err != nil {
		t.Fatal(err)
	}
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
	if err := n.CloseHandle(h); err != nil {
		t.Fatal(err)
	}
	return one(t, n, 2)
}

func TestVolumeArrivalDelay(t *testing.T) {
	now := time.Unix(1e9, 0)
	n := blank(t, nodespec.Config{VolumeArrivalDelay: nodespec.Duration(time.Second)}, nodespec.Disk{Size: gib}, Machine{Now: func() time.Time { return now }})
	h := drive(t, n, readWrite)
	partition(t, n, h, data(1, 16*mib, 500*mib))
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("volumes %v at once", vs)
	}
	now = now.Add(time.Second - 1)
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("volumes %v too early", vs)
	}
	now = now.Add(1)
	vol := one(t, n, 1)
	// Reading the table again does not remove the volume.
	ioctl(t, n, h, win32.IOCTL_DISK_UPDATE_PROPERTIES, nil, 0)
	if got := one(t, n, 1); got != vol {
		t.Errorf("volume %s became %s", vol, got)
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
	failIoctl(t, n, h, win32.IOCTL_VOLUME_GET_VOLUME_DISK_EXTENTS, nil, 31, win32.ERROR_INSUFFICIENT_BUFFER)
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
	failIoctl(t, n, asks, win32.FSCTL_GET_NTFS_VOLUME_DATA, nil, 96, win32.ERROR_INVALID_FUNCTION) // docs/contract/calls.md#handles-and-access
	if err := n.FlushFileBuffers(asks); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {               // FlushFileBuffers' page
		t.Errorf("FlushFileBuffers without write access = %v, want ERROR_ACCESS_DENIED", err)
	}
	is, err := n.Interfaces(win32.GUID_DEVINTERFACE_VOLUME)
	if err != nil || len(is) != 1 {
		t.Fatalf("Interfaces = %v, %v", is, err)
	}
	openPath(t, n, strings.ToUpper(is[0].Path[:20])+is[0].Path[20:], 0)
	if is, err := n.Interfaces(guid(1)); err != nil || len(is) != 0 {
		t.Errorf("Interfaces of an unknown class = %v, %v", is, err)
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
	failIoctl(t, n, h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, 12, win32.ERROR_INVALID_FUNCTION) // docs/contract/volumes.md#finding-volumes
	text := []byte(strings.Repeat("ab", 512))
	if _, err := n.WriteAt(h, text, 100*mib-512); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 512)
	if _, err := n.ReadAt(openPath(t, n, `\\.\PhysicalDrive1`, win32.GENERIC_READ), b, 2*mib); err != nil || string(b) != string(text[512:]) {
		t.Errorf("the second disk has %q, %v", b[:8], err)
	}
	if err := n.Detach(1); err != nil {
		t.Fatal(err)
	}
	if vs := volumesOn(t, n, 0); len(vs) != 0 {
		t.Errorf("volumes %v without the second disk", vs)
	}
}

// docs/contract/volumes.md#growth, step 5.
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
		if err := n.CloseHandle(raw); err != nil {
			t.Fatal(err)
		}
		if err := n.Format(vol, quick); err != nil {
			t.Fatal(err)
		}
		v := openPath(t, n, devicePath(vol), readWrite)
		extend(v, 500*mib/sector, win32.ERROR_INVALID_PARAMETER) // not one more cluster
		extend(v, 0, win32.ERROR_INVALID_PARAMETER)
		extend(v, math.MaxUint64, win32.ERROR_INVALID_PARAMETER)
		failIoctl(t, n, v, win32.FSCTL_EXTEND_VOLUME, make([]byte, 7), 0, win32.ERROR_BAD_LENGTH)
		ioctl(t, n, h, win32.IOCTL_DISK_GROW_PARTITION, win32.GrowPartition{Number: 1, Delta: 100 * mib}.Encode(), 0)
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
		{"ordinary", nodespec.Config{}, func(p *win32.Partition) { p.Attributes = 0 }, `D:\`},
		{"hidden", nodespec.Config{}, func(p *win32.Partition) { p.Attributes = 1 << 62 }, ""},
		{"recovery", nodespec.Config{}, func(p *win32.Partition) { p.Attributes, p.Type = 0, win32.PARTITION_MSFT_RECOVERY_GUID }, ""},
		{"automount off", nodespec.Config{NoAutomount: true}, func(p *win32.Partition) { p.Attributes = 0 }, ""},
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

// TestFormatDeletesFiles: this includes the files of a file system that was
// removed earlier.
func TestFormatDeletesFiles(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	for range 2 {
		partition(t, n, h, data(1, 16*mib, 500*mib))
		vol := one(t, n, 1)
		if err := n.Format(vol, quick); err != nil {
			t.Fatal(err)
		}
		d, err := n.NtCreateFile(0, `\??\`+strings.TrimPrefix(vol, `\\?\`)+"new", win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_CREATE, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.CloseHandle(d); err != nil {
			t.Fatal(err)
		}
		ioctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{Style: win32.PARTITION_STYLE_RAW}.Encode(), 0)
	}
	// The bytes are still there: with its partition, the old file system and its
	// files come back (docs/contract/disks.md#creating-a-partition).
	partition(t, n, h, data(2, 16*mib, 500*mib))
	vol := one(t, n, 1)
	if a, err := n.Attributes(vol + "new"); err != nil || a&win32.FILE_ATTRIBUTE_DIRECTORY == 0 {
		t.Errorf("Attributes of a file of the old file system = %#x, %v", a, err)
	}
	if err := n.Format(vol, quick); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Attributes(vol + "new"); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("Attributes after the format = %v, want ERROR_FILE_NOT_FOUND", err)
	}
	if keys := n.store.keys("file/" + n.disks[0].ID); len(keys) > 1 {
		t.Errorf("stored files %q, want only the root", keys)
	}
}

func TestVolumeNamesPersist(t *testing.T) {
	dir := t.TempDir()
	cfg := nodespec.Config{StateDir: dir, Disks: []nodespec.Disk{{Content: nodespec.ContentSystem}, {ID: "lun-7", Size: gib}}}
	n := start(t, cfg)
	partition(t, n, drive(t, n, readWrite), data(1, 16*mib, 300*mib), data(2, 400*mib, 300*mib))
	before := volumesOn(t, n, 1)
	if err := n.Format(before[400*mib], quick); err != nil {
		t.Fatal(err)
	}
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
	if err := n.Detach(1); err != nil {
		t.Fatal(err)
	}
	if vs := volumesOn(t, n, 1); len(vs) != 0 {
		t.Errorf("volumes %v of a detached disk", vs)
	}
	number := uint32(5)
	if _, err := n.Attach(nodespec.Disk{ID: "lun-7", Number: &number}); err != nil {
		t.Fatal(err)
	}
	check(n, "attached again", 5)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = start(t, cfg)
	check(n, "opened again", 5)
	if names, _ := filepath.Glob(filepath.Join(dir, "journal.*")); len(names) != 1 {
		t.Errorf("journals %q, want one", names)
	}
	if err := n.Detach(5); err != nil {
		t.Fatal(err)
	}
	if err := n.Discard("lun-7"); err != nil {
		t.Fatal(err)
	}
	for k := range n.store.data {
		if strings.Contains(k, "lun-7") {
			t.Errorf("%s of a discarded disk is still stored", k)
		}
	}
	if err := n.Discard("lun-7"); err == nil {
		t.Error("Discard of a discarded disk succeeded")
	}
	// Another disk may use the identity again.
	if _, err := n.Attach(nodespec.Disk{ID: "lun-7", Size: gib}); err != nil {
		t.Fatal(err)
	}
}
