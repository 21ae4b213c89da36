package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/remote"
)

// The rest of a driver takes a disk.Interface and does not know which it is.
func Example() {
	disks := func(ctx context.Context, hostProcess bool) (disk.Interface, error) {
		if hostProcess {
			return disk.New(diskapi.New())
		}
		return remote.NewDisk(ctx)
	}

	d, err := disks(context.Background(), false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Println("no CSI Proxy on this node:", err)
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	if _, err := d.Rescan(context.Background(), &disk.RescanRequest{}); err != nil {
		fmt.Println(err)
	}
}
