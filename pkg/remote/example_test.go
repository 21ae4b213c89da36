package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/serve"
)

// blankDisks is a driver's code. It takes a disk.Interface and does not know
// which it is.
func blankDisks(ctx context.Context, disks disk.Interface) (numbers []uint32, err error) {
	list, err := disks.ListDiskIDs(ctx, &disk.ListDiskIDsRequest{})
	if err != nil {
		return nil, err
	}
	for number := range uint32(len(list.DiskIDs)) {
		if number > 0 {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// The same code works in process and through the pipes: one place chooses.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	server, err := serve.Open(node, serve.Config{}) // on a node, this is the CSI Proxy that is installed there
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	for _, hostProcess := range []bool{true, false} {
		var disks disk.Interface
		if hostProcess {
			disks = node.Disk() // on Windows: disk.New(diskapi.New())
		} else {
			// On Windows without options: the pipes are where they are.
			d, err := remote.NewDisk(ctx, remote.WithPipePath(server.PipePath))
			if err != nil {
				log.Fatal(err)
			}
			defer d.Close()
			disks = d
		}
		numbers, err := blankDisks(ctx, disks)
		if err != nil {
			log.Fatal(err)
		}
		_, err = disks.GetDiskStats(ctx, &disk.GetDiskStatsRequest{DiskNumber: 9})
		fmt.Println(numbers, errors.Is(err, hosterr.ErrNotFound))
	}

	// Output:
	// [1 2] true
	// [1 2] true
}

// Where no CSI Proxy runs, the constructor says so at once.
func ExampleNewDisk() {
	node, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	server, err := serve.Open(node, serve.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	_, err = remote.NewDisk(context.Background(), remote.WithPipePath(server.PipePath))
	fmt.Println("not running:", errors.Is(err, hosterr.ErrUnavailable))

	// Output:
	// not running: true
}
