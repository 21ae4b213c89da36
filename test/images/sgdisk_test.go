package images_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// sgdisk finds no problems in the table of a disk after it was partitioned, and
// after the disk and its volume have grown.
func TestPartitionTablesPassSgdisk(t *testing.T) {
	sgdisk, err := exec.LookPath("sgdisk")
	if err != nil {
		t.Skip("needs sgdisk: apt-get install gdisk")
	}
	for _, sector := range []uint32{512, 4096} {
		for _, c := range []struct {
			name       string
			size, grow simnode.Size
			partitions int // including the Microsoft reserved partition, which small disks do not have
		}{
			{"100 MiB", 100 * mib, 150 * mib, 1},
			{"1 GiB", gib, 3 * gib, 2},
			{"3 TiB", 3 * tib, 4 * tib, 2},
		} {
			t.Run(fmt.Sprintf("%s with %d-byte sectors", c.name, sector), func(t *testing.T) {
				judge(t, sgdisk, sector, c.size, c.grow, c.partitions)
			})
		}
	}
}

func judge(t *testing.T, sgdisk string, sector uint32, size, grow simnode.Size, partitions int) {
	ctx := t.Context()
	n, err := simnode.Open(simnode.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	d, err := n.AttachDisk(simnode.Disk{Size: size, SectorSize: sector})
	if err == nil {
		err = n.AwaitDisk(d.Number)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: d.Number}); err != nil {
		t.Fatal(err)
	}
	before := verify(t, sgdisk, imageOf(t, n, d.Number), sector, partitions)

	vols, err := n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: d.Number})
	if err != nil || len(vols.VolumeIDs) != 1 {
		t.Fatalf("volumes of disk %d: %v, %v, want one", d.Number, vols, err)
	}
	id := vols.VolumeIDs[0]
	if _, err := n.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
		t.Fatal(err)
	}
	if err := n.GrowDisk(d.Number, grow); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Disk().Rescan(ctx, &disk.RescanRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Volume().ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id}); err != nil {
		t.Fatal(err)
	}
	after := verify(t, sgdisk, imageOf(t, n, d.Number), sector, partitions)
	if grown, want := int64(after-before)*int64(sector), int64(grow-size); grown < want-2*mib || grown > want+2*mib {
		t.Errorf("the data partition grew by %d bytes, want about %d, by which the disk grew", grown, want)
	}
}

func imageOf(t *testing.T, n *simnode.Node, number uint32) string {
	t.Helper()
	state, err := n.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range state.Disks {
		if d.Number == number {
			return d.Image
		}
	}
	t.Fatalf("no disk %d in %v", number, state.Disks)
	return ""
}

var row = regexp.MustCompile(`(?m)^ +\d+ +(\d+) +(\d+) `)

// verify runs sgdisk on the image and returns the last sector of the last
// partition. sgdisk assumes 512-byte sectors unless a block device reports another
// size, so it reads images with 4 KiB sectors through a loop device.
func verify(t *testing.T, sgdisk, image string, sector uint32, partitions int) uint64 {
	t.Helper()
	dev := image
	if sector != 512 {
		dev = loop(t, image, sector)
	}
	out, err := exec.Command(sgdisk, "-v", dev).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		t.Fatalf("sgdisk -v: %v\n%s", err, out)
	}
	out, err = exec.Command(sgdisk, "-p", dev).CombinedOutput()
	if err != nil {
		t.Fatalf("sgdisk -p: %v\n%s", err, out)
	}
	if want := fmt.Sprintf("Sector size (logical): %d bytes", sector); !strings.Contains(string(out), want) && dev == image {
		t.Fatalf("sgdisk -p does not print %q:\n%s", want, out)
	}
	rows := row.FindAllStringSubmatch(string(out), -1)
	if len(rows) != partitions {
		t.Fatalf("sgdisk lists %d partitions, want %d:\n%s", len(rows), partitions, out)
	}
	var last uint64
	if _, err := fmt.Sscan(rows[len(rows)-1][2], &last); err != nil {
		t.Fatal(err)
	}
	return last
}

// loop attaches image as a read-only block device with sectors of the given size.
func loop(t *testing.T, image string, sector uint32) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", "--read-only", "--sector-size", fmt.Sprint(sector), image).CombinedOutput()
	if err != nil {
		t.Skipf("needs root and loop devices: losetup: %v: %s", err, strings.TrimSpace(string(out)))
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v: %s", dev, err, out)
		}
	})
	return dev
}
