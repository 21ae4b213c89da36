package disk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// find returns the number of the disk with a serial number.
func find(ctx context.Context, disks disk.Interface, serial string) (uint32, error) {
	// A newly attached disk may be listed only after a rescan.
	if _, err := disks.Rescan(ctx, &disk.RescanRequest{}); err != nil {
		return 0, err
	}
	list, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return 0, err
	}
	for number, id := range list.DiskIDs {
		if id.SerialNumber == serial {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no disk has the serial number %q", serial)
}

// This example partitions a newly attached disk. The order of the calls matters: a new
// disk may be offline, and PartitionDisk takes it online.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{}) // on Windows: disk.New(diskapi.New())
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	if _, err := node.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-0123"}); err != nil {
		log.Fatal(err)
	}
	var disks disk.Interface = node.Disk()

	number, err := find(ctx, disks, "vol-0123")
	for err != nil { // a disk arrives some time after the scan: the kubelet calls again
		time.Sleep(10 * time.Millisecond)
		number, err = find(ctx, disks, "vol-0123")
	}
	// A retry succeeds without a change.
	for range 2 {
		if _, err := disks.PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: number}); err != nil {
			log.Fatal(err)
		}
	}
	stats, err := disks.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: number})
	if err != nil {
		log.Fatal(err)
	}
	state, err := disks.GetDiskState(ctx, &disk.GetDiskStateRequest{DiskNumber: number})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("disk %d: %d bytes, online: %t\n", number, stats.TotalBytes, state.IsOnline)

	// Output:
	// disk 3: 10737418240 bytes, online: true
}

// An error has the same kind in process and through a pipe.
func Example_errors() {
	node, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	_, err = node.Disk().GetDiskStats(context.Background(), &disk.GetDiskStatsRequest{DiskNumber: 9})
	fmt.Println(err)
	fmt.Println("the disk is gone:", errors.Is(err, hosterr.ErrNotFound))

	// The system disk cannot be taken offline.
	_, err = node.Disk().SetDiskState(context.Background(), &disk.SetDiskStateRequest{DiskNumber: 0, IsOnline: false})
	fmt.Println("refused:", errors.Is(err, hosterr.ErrFailedPrecondition) || errors.Is(err, hosterr.ErrPermissionDenied))

	// Output:
	// get size of disk 9: not found
	// the disk is gone: true
	// refused: true
}
