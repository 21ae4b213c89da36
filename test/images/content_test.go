package images_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// made is content that a program of Debian makes in a file.
type made struct {
	name string
	// command is run by sh with the file in $1.
	command string
	// copies reports that a second copy of the description is behind the first MiB, so that
	// the content must be found even if all of that MiB is lost.
	copies bool
}

// contents needs no root and no loop devices, except for LVM and RAID, whose tools do not
// work on files.
func contents() []made {
	return []made{
		{"ext2", "mkfs.ext2 -qF $1", true},
		{"ext3", "mkfs.ext3 -qF $1", true},
		{"ext4", "mkfs.ext4 -qF $1", true},
		{"ext4 with blocks of 2 KiB", "mkfs.ext4 -qF -b 2048 $1", true},
		{"ext4 with blocks of 4 KiB", "mkfs.ext4 -qF -b 4096 $1", true},
		{"ext journal", "mke2fs -qF -O journal_dev $1", false},
		{"XFS", "mkfs.xfs -qf $1", true},
		{"btrfs", "mkfs.btrfs -qf $1", true},
		{"F2FS", "mkfs.f2fs -qf $1", false},
		{"NILFS2", "mkfs.nilfs2 -qf $1", true},
		{"JFS", "mkfs.jfs -q $1", false},
		{"ReiserFS", "mkfs.reiserfs -qff $1", false},
		{"OCFS2", "mkfs.ocfs2 -qx --fs-features=local $1 </dev/null", false},
		{"GFS2", "mkfs.gfs2 -qO -p lock_nolock $1", false},
		{"Minix", "mkfs.minix $1", false},
		{"Minix 3", "mkfs.minix -3 $1", false},
		{"SCO BFS", "mkfs.bfs $1", false},
		{"NTFS", "mkfs.ntfs -qFf $1", true},
		{"exFAT", "mkfs.exfat $1", false},
		{"FAT16", "mkfs.fat -F 16 $1", false},
		{"FAT32", "mkfs.fat -F 32 $1", false},
		{"UDF", "mkudffs $1", false},
		{"swap", "mkswap -q $1", false},
		{"LUKS1", "echo secret | cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 $1 -", false},
		{"LUKS2", "echo secret | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $1 -", false},
		{"dm-verity", "veritysetup format $1 $1.hash >/dev/null && cp --sparse=always $1.hash $1", false},
		{"bcache", "make-bcache -B $1 >/dev/null", false},
		{"MBR partition table", "echo 2048,,83 | sfdisk -q --label dos $1", false},
		{"MBR partition table with ext4", "echo 2048,,83 | sfdisk -q --label dos $1 && mkfs.ext4 -qF -E offset=1048576 $1 250m", false},
		{"GPT", "echo 2048,200M | sfdisk -q --label gpt $1", true},
		{"GPT with ext4", "echo 2048,200M | sfdisk -q --label gpt $1 && mkfs.ext4 -qF -E offset=1048576 $1 200m", true},
		{"Sun disk label", "echo ,200M | sfdisk -q --label sun $1", false},
		{"SGI disk label", "echo ,200M | sfdisk -q --label sgi $1", false},
		{"squashfs", into("mksquashfs $2 $1.new -quiet -noappend >/dev/null"), false},
		{"EROFS", into("mkfs.erofs --quiet $1.new $2"), false},
		{"cramfs", into("mkfs.cramfs $2 $1.new"), false},
		{"ISO 9660", into("genisoimage -quiet -o $1.new $2"), false},
		{"qcow2 image", into("qemu-img create -q -f qcow2 $1.new 10G"), false},
		{"VMDK image", into("qemu-img create -q -f vmdk $1.new 10G"), false},
		{"VHD image", into("qemu-img create -q -f vpc $1.new 10G"), false},
		{"VHDX image", into("qemu-img create -q -f vhdx $1.new 10G"), false},
		{"VDI image", into("qemu-img create -q -f vdi $1.new 10G"), false},
		{"random bytes", "dd if=/dev/urandom of=$1 bs=1M count=3 conv=notrunc status=none", false},
		{"text in the last sector", "printf 'someone was here' | dd of=$1 bs=1 seek=$(($(stat -c %s $1) - 100)) conv=notrunc status=none", false},
	}
}

// into makes a new file, from the directory $2, at the beginning of $1.
func into(command string) string {
	return "set -- $1 $(dirname $1)/files; mkdir -p $2; seq 50000 > $2/numbers; " + command + "; dd if=$1.new of=$1 bs=1M conv=notrunc status=none"
}

// losses are what may have happened to content before CSI Proxy sees it.
func losses(m made) map[string][]storage.Area {
	all := map[string][]storage.Area{
		"intact":                nil,
		"first sector lost":     {{Offset: 0, Length: 512}},
		"first 4 KiB lost":      {{Offset: 0, Length: 4096}},
		"first 34 sectors lost": {{Offset: 0, Length: 34 * 512}},
		"last MiB lost":         {{Offset: contentSize - mib, Length: mib}},
	}
	if m.copies {
		all["first MiB lost"] = []storage.Area{{Offset: 0, Length: mib}}
	}
	return all
}

const contentSize = 320 * mib

// No content of another system is destroyed by PartitionDisk, as content of a whole disk, or
// by FormatVolume, in a data partition, even if its beginning is lost. libblkid is the
// judge: what it names, we name, too, or refuse as unknown.
func TestForeignContentIsKept(t *testing.T) {
	if _, err := exec.LookPath("blkid"); err != nil {
		t.Skip("needs blkid: apt-get install util-linux")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/sbin:/usr/sbin")
	template, offset := partitioned(t)
	counts := map[string]int{}
	var absent []string
	ran := 0
	for _, m := range contents() {
		t.Run(m.name, func(t *testing.T) {
			ran++
			file := filepath.Join(t.TempDir(), "content")
			if err := sparse(file, contentSize); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("sh", "-ec", m.command, "sh", file).CombinedOutput(); err != nil {
				const notFound = 127 // of sh, for a program that does not exist
				if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != notFound {
					t.Fatalf("%s: %v: %s", m.command, err, firstLine(out))
				}
				absent = append(absent, m.name)
				t.Skipf("a program is missing: %s", firstLine(out))
			}
			if err := os.Truncate(file, contentSize); err != nil {
				t.Fatal(err)
			}
			for _, loss := range slices.Sorted(keys(losses(m))) {
				left := filepath.Join(t.TempDir(), "left")
				damaged(t, file, left, losses(m)[loss])
				if blank(t, left) {
					continue // nothing is left that could be found
				}
				group := "damaged"
				if loss == "intact" {
					group = "intact"
				}
				for where, err := range map[string]error{"disk": partition(t, left), "partition": format(t, template, offset, left)} {
					result := "refused by name"
					switch {
					case errors.Is(err, errKept):
						result = "left alone" // it has partitions, or an NTFS that Windows mounts
					case err == nil:
						result = "destroyed"
						t.Errorf("%s, on a %s: destroyed; blkid names it %q", loss, where, blkid(left))
					case !errors.Is(err, hosterr.ErrFailedPrecondition):
						result = "failed"
						t.Errorf("%s, on a %s: %v", loss, where, err)
					case strings.Contains(err.Error(), storage.UnknownContent):
						result = "refused as unknown content"
					}
					counts[group+" on a "+where+": "+result]++
					counts[group+" on a "+where]++
				}
			}
		})
	}
	for _, k := range slices.Sorted(keys(counts)) {
		t.Attr("measured", fmt.Sprintf("%s: %d", k, counts[k]))
		t.Logf("%s: %d", k, counts[k])
	}
	if len(absent) > 0 {
		t.Attr("measured", "not made, because the programs are missing: "+strings.Join(absent, ", "))
	}
	if ran == len(contents()) && counts["intact on a disk"] < 5 {
		t.Errorf("only %d contents were made, not: %v", counts["intact on a disk"], absent)
	}
}

// errKept is the result of a call that succeeds without writing anything: the disk has
// partitions, or the volume a file system that Windows mounts.
var errKept = errors.New("kept")

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

func blkid(file string) string {
	out, err := exec.Command("blkid", "-p", "-o", "export", file).Output()
	if err != nil {
		return ""
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "TYPE" || key == "PTTYPE" {
			names = append(names, value)
		}
	}
	return strings.Join(names, ", ")
}

func sparse(file string, size int64) error {
	return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size))
}

// damaged copies a file and overwrites areas of the copy with zeros.
func damaged(t *testing.T, from, to string, lost []storage.Area) {
	t.Helper()
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, a := range lost {
		if _, err := f.WriteAt(make([]byte, a.Length), int64(a.Offset)); err != nil {
			t.Fatal(err)
		}
	}
}

// blank reports whether a file has only zeros.
func blank(t *testing.T, file string) bool { t.Helper(); return len(contentOf(t, file).data) == 0 }

// contentOf reads a file.
func contentOf(t *testing.T, file string) content {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := readContent(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nodeWith returns a node with a disk that is a copy of an image.
func nodeWith(t *testing.T, image string) (*simnode.Node, uint32) {
	t.Helper()
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := n.AttachDisk(simnode.Disk{Image: image})
	if err == nil {
		err = n.AwaitDisk(d.Number)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n, d.Number
}

// partition calls PartitionDisk for a disk with the content of a file.
func partition(t *testing.T, file string) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n, number := nodeWith(t, file)
		defer n.Close()
		r := n.Record()
		_, err = n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: number})
		if err == nil && !slices.ContainsFunc(r.Calls(), writes) {
			err = errKept
		}
	})
	return err
}

// writes reports whether a call writes to a disk.
func writes(c simnode.Call) bool {
	return c.Name == winapi.WriteAt || c.Name == winapi.Format || c.Name == winapi.DeviceIoControl &&
		(c.Code == winapi.IOCTL_DISK_CREATE_DISK || c.Code == winapi.IOCTL_DISK_SET_DRIVE_LAYOUT_EX)
}

// partitioned returns the image of a partitioned disk and where its partition begins. The
// partition is as large as the contents.
func partitioned(t *testing.T) (image string, offset int64) {
	t.Helper()
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	d, err := n.AttachDisk(simnode.Disk{Size: contentSize + 2*mib})
	if err == nil {
		err = n.AwaitDisk(d.Number)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: d.Number}); err != nil {
		t.Fatal(err)
	}
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range state.Disks {
		if x.Number == d.Number {
			image = filepath.Join(t.TempDir(), "template")
			damaged(t, x.Image, image, nil)
		}
	}
	return image, mib
}

// format calls FormatVolume for a data partition with the content of a file.
func format(t *testing.T, template string, offset int64, file string) (err error) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	damaged(t, template, image, nil)
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range contentOf(t, file).data {
		_, failed := f.WriteAt(part.Data, offset+int64(part.At))
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { err = formatOn(t, image) })
	return err
}

// formatOn calls FormatVolume for the only partition of a disk with the content of an image.
func formatOn(t *testing.T, image string) error {
	t.Helper()
	n, number := nodeWith(t, image)
	defer n.Close()
	_, online := n.Disk().SetDiskState(t.Context(), &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true})
	_, writable := n.Disk().SetDiskReadOnly(t.Context(), &disk.SetDiskReadOnlyRequest{DiskNumber: number})
	if err := errors.Join(online, writable); err != nil {
		t.Fatal(err)
	}
	vols, err := n.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil || len(vols.VolumeIDs) != 1 {
		t.Fatalf("volumes %v, %v, want one", vols, err)
	}
	r := n.Record()
	is, err := n.Volume().IsVolumeFormatted(t.Context(), &volume.IsVolumeFormattedRequest{VolumeID: vols.VolumeIDs[0]})
	_, failed := n.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: vols.VolumeIDs[0]})
	switch wrote := slices.ContainsFunc(r.Calls(), writes); {
	case failed != nil && wrote:
		t.Errorf("FormatVolume failed after it wrote to the disk: %v", failed)
	case err == nil && is.Formatted && !wrote:
		return errKept
	case failed != nil && err == nil:
		t.Errorf("IsVolumeFormatted says no, and FormatVolume refuses: %v", failed)
	}
	return failed
}

// Blank disks of all sizes are partitioned and formatted: no false alarm.
func TestBlankDisksAreUsed(t *testing.T) {
	disks := 1000
	if testing.Short() {
		disks = 20
	}
	synctest.Test(t, func(t *testing.T) { partitionAndFormat(t, disks) })
	t.Attr("measured", fmt.Sprintf("%d blank disks were partitioned and formatted", disks))
}

// partitionAndFormat attaches blank disks, one after the other, and makes a volume on each.
func partitionAndFormat(t *testing.T, disks int) {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for i := range disks {
		size := simnode.Size(8*mib + i*i*mib/7/4096*4096 + i%5*64<<10)
		d, err := n.AttachDisk(simnode.Disk{Size: size / 4096 * 4096, SectorSize: []uint32{512, 4096}[i%2]})
		if err == nil {
			err = n.AwaitDisk(d.Number)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Disk().PartitionDisk(t.Context(), &disk.PartitionDiskRequest{DiskNumber: d.Number}); err != nil {
			t.Errorf("blank disk of %d bytes: %v", size, err)
			continue
		}
		vols, err := n.Volume().ListVolumesOnDisk(t.Context(), &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number})
		if err != nil || len(vols.VolumeIDs) != 1 {
			t.Fatalf("volumes %v, %v, want one", vols, err)
		}
		if _, err := n.Volume().FormatVolume(t.Context(), &volume.FormatVolumeRequest{VolumeID: vols.VolumeIDs[0]}); err != nil {
			t.Errorf("new volume on a blank disk of %d bytes: %v", size, err)
		}
		if err := n.DetachDisk(d.Number); err != nil {
			t.Fatal(err)
		}
	}
}
