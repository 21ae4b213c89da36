package emulated

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/bootsector"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

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
					if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) { // docs/develop/contract/volumes.md#is-it-formatted
						t.Errorf("VolumeInformation before = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
					}
					o := win32.FormatOptions{ClusterSize: cluster}
					ok(t, n.Format(vol, o))
					if fs, label := blkid(t, image(t, n, 1), 16*mib); fs != "ntfs" || label != "" {
						t.Errorf("blkid says %q labelled %q, want ntfs without a label", fs, label)
					}
					info, err := n.VolumeInformation(vol)
					if err != nil || info.FileSystem != "NTFS" || info.Label != "" || info.Flags&win32.FILE_SUPPORTS_REPARSE_POINTS == 0 {
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
		{"cluster not a power of two", good, win32.FormatOptions{ClusterSize: 5000}, win32.ERROR_INVALID_PARAMETER},
		{"cluster below a sector", good, win32.FormatOptions{ClusterSize: 256}, win32.ERROR_INVALID_PARAMETER},
		{"cluster above 2 MiB", good, win32.FormatOptions{ClusterSize: 4 * mib}, win32.ERROR_INVALID_PARAMETER},
		{"too small", small, quick, win32.ERROR_DISK_FULL},
		{"read-only disk", one(t, n, 2), quick, win32.ERROR_WRITE_PROTECT},
		{"several disks", volumesOn(t, n, 0)[10*mib], quick, win32.ERROR_NOT_SUPPORTED},
	} {
		if err := n.Format(c.vol, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: Format = %v, want %v", c.name, err, c.want.Name())
		}
	}
	// docs/develop/contract/volumes.md#format, callback type 8: the volume cannot be locked
	// while it is open.
	h := openPath(t, n, devicePath(good), win32.GENERIC_READ)
	if err := n.Format(good, quick); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("Format of an open volume = %v, want ERROR_ACCESS_DENIED", err)
	}
	ok(t, n.CloseHandle(h))
	openPath(t, n, devicePath(good), 0) // queries, but does not use the volume
	if err := n.Format(good, quick); err != nil {
		t.Errorf("Format = %v", err)
	}
	root, err := n.NtCreateFile(0, `\??\`+strings.TrimPrefix(good, `\\?\`), win32.FILE_LIST_DIRECTORY|win32.SYNCHRONIZE, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
	ok(t, err)
	if err := n.Format(good, quick); !errors.Is(err, win32.ERROR_ACCESS_DENIED) {
		t.Errorf("Format with an open directory = %v, want ERROR_ACCESS_DENIED", err)
	}
	ok(t, n.CloseHandle(root))
}

// TestFormatDuration checks the node in the middle of a format.
func TestFormatDuration(t *testing.T) {
	var n *Node
	var vol string
	asked := false
	n = blank(t, nodespec.Config{FormatDuration: nodespec.Duration(time.Minute)}, nodespec.Disk{Size: gib}, kernel.Machine{Sleep: func(d time.Duration) {
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
		_, err := n.NtCreateFile(0, `\??\`+strings.TrimPrefix(vol, `\\?\`), readable, win32.OBJ_CASE_INSENSITIVE, shareBoth, win32.FILE_OPEN, folder)
		wantStatus(t, "NtCreateFile during a format", err, win32.STATUS_ACCESS_DENIED)
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
}

// TestForeignFileSystems: the bytes of a volume decide which file system it has.
func TestForeignFileSystems(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	partition(t, n, drive(t, n, readWrite), data(1, 16*mib, 500*mib))
	vol, img := one(t, n, 1), image(t, n, 1)
	ok(t, n.Format(vol, quick))
	wipe := make([]byte, 8*kib)
	if _, err := n.ByNumber(1).Image.WriteAt(wipe, 16*mib); err != nil {
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
	if _, _, _, err := n.FreeSpace(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) { // docs/develop/contract/volumes.md#statistics
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
	larger := bootsector.MakeFAT32(600*mib, 512, 2048, 0x1234ABCD)[0]
	if _, err := n.ByNumber(1).Image.WriteAt(larger.Data, 16*mib+int64(larger.Offset)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.VolumeInformation(vol); !errors.Is(err, win32.ERROR_UNRECOGNIZED_VOLUME) {
		t.Errorf("VolumeInformation of FAT32 that is larger than its volume = %v, want ERROR_UNRECOGNIZED_VOLUME", err)
	}
}

func TestSystemDiskPassesBlkid(t *testing.T) {
	n := start(t, nodespec.Config{})
	img := image(t, n, 0)
	sgdisk(t, img)
	info, err := n.Show()
	ok(t, err)
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

// TestFormatDeletesFiles: this includes the files of a file system that was
// removed earlier.
func TestFormatDeletesFiles(t *testing.T) {
	n := blank(t, nodespec.Config{}, nodespec.Disk{Size: gib})
	h := drive(t, n, readWrite)
	for range 2 {
		partition(t, n, h, data(1, 16*mib, 500*mib))
		vol := one(t, n, 1)
		ok(t, n.Format(vol, quick))
		newDir(t, n, vol+"new")
		ioctl(t, n, h, win32.IOCTL_DISK_CREATE_DISK, win32.CreateDisk{DiskID: guid(99)}.Encode(), 0)
	}
	// The bytes are still there: with its partition, the old file system and its
	// files come back (docs/develop/contract/disks.md#creating-a-partition).
	partition(t, n, h, data(2, 16*mib, 500*mib))
	vol := one(t, n, 1)
	if a, err := n.Attributes(vol + "new"); err != nil || a&win32.FILE_ATTRIBUTE_DIRECTORY == 0 {
		t.Errorf("Attributes of a file of the old file system = %#x, %v", a, err)
	}
	ok(t, n.Format(vol, quick))
	if _, err := n.Attributes(vol + "new"); !errors.Is(err, win32.ERROR_FILE_NOT_FOUND) {
		t.Errorf("Attributes after the format = %v, want ERROR_FILE_NOT_FOUND", err)
	}
	if keys := n.Store.Keys("file/" + n.Disks.List[0].ID); len(keys) > 1 {
		t.Errorf("stored files %q, want only the root", keys)
	}
}
