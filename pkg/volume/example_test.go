package volume_test

import (
	"context"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// This example formats and mounts a volume, grows it with its disk, and unmounts it.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{}) // on Windows: volume.New(volumeapi.New())
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	const number, target = 1, `C:\var\lib\kubelet\plugins\kubernetes.io\csi\vol-1\globalmount`
	if _, err := node.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
		log.Fatal(err)
	}
	var volumes volume.Interface = node.Volume()

	list, err := volumes.ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: number})
	if err != nil {
		log.Fatal(err)
	}
	id := list.VolumeIDs[0]
	formatted, err := volumes.IsVolumeFormatted(ctx, &volume.IsVolumeFormattedRequest{VolumeID: id})
	if err != nil {
		log.Fatal(err)
	}
	if !formatted.Formatted {
		if _, err := volumes.FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: id}); err != nil {
			log.Fatal(err)
		}
	}
	// A volume is mounted on an existing empty directory.
	if _, err := node.Filesystem().Mkdir(ctx, &filesystem.MkdirRequest{Path: target}); err != nil {
		log.Fatal(err)
	}
	if _, err := volumes.MountVolume(ctx, &volume.MountVolumeRequest{VolumeID: id, TargetPath: target}); err != nil {
		log.Fatal(err)
	}
	size(ctx, volumes, id)

	// The cloud has made the disk larger. Windows finds that with a rescan. Size 0 means
	// the largest possible size.
	if err := node.GrowDisk(number, 20<<30); err != nil {
		log.Fatal(err)
	}
	if _, err := node.Disk().Rescan(ctx, &disk.RescanRequest{}); err != nil {
		log.Fatal(err)
	}
	if _, err := volumes.ResizeVolume(ctx, &volume.ResizeVolumeRequest{VolumeID: id}); err != nil {
		log.Fatal(err)
	}
	size(ctx, volumes, id)

	// Find the volume by its path, as in NodeUnstageVolume.
	mounted, err := volumes.GetVolumeIDFromTargetPath(ctx, &volume.GetVolumeIDFromTargetPathRequest{TargetPath: target})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := volumes.UnmountVolume(ctx, &volume.UnmountVolumeRequest{VolumeID: mounted.VolumeID, TargetPath: target}); err != nil {
		log.Fatal(err)
	}
	on, err := volumes.GetDiskNumberFromVolumeID(ctx, &volume.GetDiskNumberFromVolumeIDRequest{VolumeID: mounted.VolumeID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unmounted the volume of disk", on.DiskNumber)

	// Output:
	// 9.98 GiB
	// 19.98 GiB
	// unmounted the volume of disk 1
}

func size(ctx context.Context, volumes volume.Interface, id string) {
	stats, err := volumes.GetVolumeStats(ctx, &volume.GetVolumeStatsRequest{VolumeID: id})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f GiB\n", float64(stats.TotalBytes)/(1<<30))
}
