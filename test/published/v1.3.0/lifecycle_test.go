package published

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	disk "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	volume "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

func connect(t *testing.T, d *script.Daemon, group string) *grpc.ClientConn {
	t.Helper()
	conn, err := dial(group, "v1", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestVolumeLifecycle makes the calls for a volume with the published client, as
// drivers do: stage, publish, expand, unpublish, unstage.
func TestVolumeLifecycle(t *testing.T) {
	d := script.Start(t)
	disks := disk.NewDiskClient(connect(t, d, "disk"))
	volumes := volume.NewVolumeClient(connect(t, d, "volume"))
	files := filesystem.NewFilesystemClient(connect(t, d, "filesystem"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	d.Control(t, "node", "attach", "--size", "1GiB", "--serial", "vol-published")
	_, err := disks.Rescan(ctx, &disk.RescanRequest{})
	must(err)
	number, found := uint32(0), false
	for !found { // a disk arrives some time after the scan
		ids, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
		must(err)
		for n, id := range ids.DiskIDs {
			if strings.Contains(id.SerialNumber, "vol-published") {
				number, found = n, true
			}
		}
	}

	// NodeStage
	_, err = disks.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number})
	must(err)
	_, err = disks.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: true})
	must(err)
	list, err := volumes.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	must(err)
	if len(list.VolumeIds) != 1 {
		t.Fatalf("volumes on disk %d: %v, want one", number, list.VolumeIds)
	}
	id := list.VolumeIds[0]
	formatted, err := volumes.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeId: id})
	must(err)
	if formatted.Formatted {
		t.Fatal("a new volume is reported as formatted")
	}
	_, err = volumes.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeId: id})
	must(err)
	const stage, publish = `C:\var\lib\kubelet\plugins\example.com\pv1\globalmount`, `C:\var\lib\kubelet\pods\pod1\mount`
	_, err = files.Mkdir(ctx, &filesystem.MkdirRequest{Path: stage})
	must(err)
	_, err = volumes.MountVolume(ctx, &volume.MountVolumeRequest{VolumeId: id, TargetPath: stage})
	must(err)

	// NodePublish
	_, err = files.Mkdir(ctx, &filesystem.MkdirRequest{Path: `C:\var\lib\kubelet\pods\pod1`})
	must(err)
	_, err = files.CreateSymlink(ctx, &filesystem.CreateSymlinkRequest{SourcePath: stage, TargetPath: publish})
	must(err)
	link, err := files.IsSymlink(ctx, &filesystem.IsSymlinkRequest{Path: publish})
	must(err)
	if !link.IsSymlink {
		t.Errorf("%s is not reported as a link", publish)
	}

	// NodeExpand
	before, err := volumes.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	must(err)
	d.Control(t, "node", "grow", strconv.FormatUint(uint64(number), 10), "2GiB")
	_, err = disks.Rescan(ctx, &disk.RescanRequest{})
	must(err)
	_, err = volumes.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeId: id})
	must(err)
	after, err := volumes.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeId: id})
	must(err)
	if grown := after.TotalBytes - before.TotalBytes; grown < 1<<30-20<<20 {
		t.Errorf("the volume grew from %d to %d bytes, want about 1 GiB more", before.TotalBytes, after.TotalBytes)
	}

	// NodeUnpublish
	_, err = files.Rmdir(ctx, &filesystem.RmdirRequest{Path: publish, Force: true})
	must(err)

	// NodeUnstage
	mounted, err := volumes.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: stage})
	must(err)
	if mounted.VolumeId != id {
		t.Errorf("the volume mounted at %s is %s, want %s", stage, mounted.VolumeId, id)
	}
	_, err = volumes.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeId: id, TargetPath: stage})
	must(err)
	_, err = files.Rmdir(ctx, &filesystem.RmdirRequest{Path: stage, Force: true})
	must(err)
	onDisk, err := volumes.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeId: id})
	must(err)
	if onDisk.DiskNumber != number {
		t.Errorf("volume %s is on disk %d, want %d", id, onDisk.DiskNumber, number)
	}
	_, err = disks.SetDiskState(ctx, &disk.SetDiskStateRequest{DiskNumber: number, IsOnline: false})
	must(err)
	exists, err := files.PathExists(ctx, &filesystem.PathExistsRequest{Path: stage})
	must(err)
	if exists.Exists {
		t.Errorf("%s still exists", stage)
	}
}
