// Command driver is a driver that can use pipes or the library in process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

func disks(ctx context.Context, hostProcess bool) (disk.Interface, error) {
	if hostProcess {
		return disk.New(diskapi.New())
	}
	return remote.NewDisk(ctx)
}

func main() {
	hostProcess := flag.Bool("host-process", false, "do the work in this process")
	flag.Parse()
	d, err := disks(context.Background(), *hostProcess)
	if err == nil {
		_, err = d.Rescan(context.Background(), &disk.RescanRequest{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
