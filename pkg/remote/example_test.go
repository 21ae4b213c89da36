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

// blankDisks is a driver's code. It works with any disk.Interface.
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

// The same code works in process and through pipes. Only the constructor differs.
func Example() {
	ctx := context.Background()
	node, err := simnode.Open(simnode.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	server, err := serve.Open(node, serve.Config{}) // on a real node, this is the installed CSI Proxy
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	for _, hostProcess := range []bool{true, false} {
		var disks disk.Interface
		if hostProcess {
			disks = node.Disk() // on Windows: disk.New(diskapi.New())
		} else {
			// On Windows the constructor needs no options.
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

// If no CSI Proxy runs, the constructor fails immediately.
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
