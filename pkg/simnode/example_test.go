package simnode_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/winapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
)

// A test calls simnode.New(t) instead of Open, and needs no Close.
func Example() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()

	// The cloud attaches a disk.
	d, err := n.AttachDisk(simnode.Disk{Size: 10 << 30, Serial: "vol-1", Bus: "nvme"})
	if err != nil {
		log.Fatal(err)
	}
	// The driver rescans, and finds the disk a moment later.
	if err := n.AwaitDisk(d.Number); err != nil {
		log.Fatal(err)
	}
	ids, err := n.Disk().ListDiskIDs(context.Background(), &disk.ListDiskIDsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Number, ids.DiskIDs[d.Number].SerialNumber)

	// The cloud detaches it again. Its data is kept until it is attached again.
	if err := n.DetachDisk(d.Number); err != nil {
		log.Fatal(err)
	}
	_, err = n.Disk().GetDiskStats(context.Background(), &disk.GetDiskStatsRequest{DiskNumber: d.Number})
	fmt.Println("gone:", errors.Is(err, hosterr.ErrNotFound))

	// Output:
	// 3 vol-1
	// gone: true
}

// The next format fails; the one after it does not.
func ExampleNode_Fail() {
	ctx := context.Background()
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Disk().PartitionDisk(ctx, &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		log.Fatal(err)
	}
	list, err := n.Volume().ListVolumesOnDisk(ctx, &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil {
		log.Fatal(err)
	}

	fault, err := n.Fail(simnode.Fault{Call: winapi.Format, Error: "ERROR_IO_DEVICE", Times: 1})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		_, err := n.Volume().FormatVolume(ctx, &volume.FormatVolumeRequest{VolumeID: list.VolumeIDs[0]})
		fmt.Println("formatted:", err == nil)
	}
	fmt.Println("faults:", fault.Hits())

	// Output:
	// formatted: false
	// formatted: true
	// faults: 1
}

// A fault can be limited to one disk and one control code, and can run a function: here the
// disk is detached after its partition table was checked and before a new one is written.
func ExampleFault() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	_, err = n.Fail(simnode.Fault{
		Call: winapi.DeviceIoControl, CodeName: "IOCTL_DISK_CREATE_DISK", Path: "PhysicalDrive2",
		Do: func() {
			if err := n.DetachDisk(2); err != nil {
				log.Fatal(err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, number := range []uint32{1, 2} {
		_, err := n.Disk().PartitionDisk(context.Background(), &disk.PartitionDiskRequest{DiskNumber: number})
		fmt.Printf("disk %d: %v, gone: %t\n", number, err, errors.Is(err, hosterr.ErrNotFound))
	}

	// Output:
	// disk 1: <nil>, gone: false
	// disk 2: partition disk 2: create the partition table: The device is not connected., gone: true
}

// A disk arrives some time after the driver starts to look for it. In a test, use a bubble of
// package testing/synctest, in which long waits take no time.
func ExampleNode_After() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	n.After(20*time.Millisecond, func() error {
		_, err := n.AttachDisk(simnode.Disk{Size: 1 << 30})
		return err
	})
	for {
		if _, err := n.Disk().Rescan(context.Background(), &disk.RescanRequest{}); err != nil {
			log.Fatal(err)
		}
		list, err := n.Disk().ListDiskIDs(context.Background(), &disk.ListDiskIDsRequest{})
		if err != nil {
			log.Fatal(err)
		}
		if len(list.DiskIDs) == 4 {
			fmt.Println("there")
			return
		}
		time.Sleep(5 * time.Millisecond)
	}

	// Output:
	// there
}

// This example records the Win32 calls of an operation.
func ExampleNode_Record() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	r := n.Record()
	if _, err := n.Disk().GetDiskState(context.Background(), &disk.GetDiskStateRequest{DiskNumber: 1}); err != nil {
		log.Fatal(err)
	}
	r.Stop()
	for _, c := range r.Calls() {
		fmt.Println(c)
	}
	fmt.Println(r.Count(winapi.DeviceIoControl), "control codes")

	// Output:
	// CreateFile \\.\PhysicalDrive1
	// DeviceIoControl \\.\PhysicalDrive1 IOCTL_DISK_GET_DISK_ATTRIBUTES
	// CloseHandle \\.\PhysicalDrive1
	// 1 control codes
}

// A driver of SMB volumes must handle the failures of servers and networks.
func ExampleNode_SetSMBServerDown() {
	n, err := simnode.Open(simnode.Config{
		SMBServers: []simnode.SMBServer{{Name: "nas", Shares: []string{"data"}, Accounts: []simnode.SMBAccount{{User: "ann", Password: "one"}}}},
		Log:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	stage := func(password string) error {
		_, err := n.SMB().NewSMBGlobalMapping(context.Background(), &smb.NewSMBGlobalMappingRequest{RemotePath: `\\nas\data`, Username: "ann", Password: password})
		return err
	}
	happens := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	happens(n.SetSMBServerDown("nas", true))
	fmt.Println("down:", errors.Is(stage("one"), hosterr.ErrUnavailable))
	happens(n.SetSMBServerDown("nas", false))
	happens(n.SetSMBPassword("nas", "ann", "two"))
	fmt.Println("another password:", errors.Is(stage("one"), hosterr.ErrPermissionDenied))
	happens(n.RemoveSMBShare("nas", "data"))
	fmt.Println("no share:", errors.Is(stage("two"), hosterr.ErrNotFound))
	happens(n.AddSMBShare("nas", "data"))
	fmt.Println("staged:", stage("two") == nil)

	// Output:
	// down: true
	// another password: true
	// no share: true
	// staged: true
}

// A restarted driver has lost the state that it kept in memory.
func ExampleNode_NewProcess() {
	n, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	if _, err := n.Disk().PartitionDisk(context.Background(), &disk.PartitionDiskRequest{DiskNumber: 1}); err != nil {
		log.Fatal(err)
	}
	restarted, err := n.NewProcess(rules.Rules{})
	if err != nil {
		log.Fatal(err)
	}
	list, err := restarted.Volume().ListVolumesOnDisk(context.Background(), &volume.ListVolumesOnDiskRequest{DiskNumber: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.VolumeIDs), "volume")

	// Output:
	// 1 volume
}
