package negotiate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	diskv1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	"github.com/kubernetes-csi/csi-proxy/client/negotiate"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// A driver that supports two versions waits up to a minute for a proxy that is still
// starting.
func Example() {
	// This example has no proxy, and a short minute.
	os.Setenv(pipe.DirVariable, "/nowhere")
	const minute = 2 * time.Second

	ctx, cancel := context.WithTimeout(context.Background(), minute)
	defer cancel()
	conn, err := negotiate.Connect(ctx, diskv1.GroupName, []apiversion.Version{diskv1.Version, diskv1beta2.Version})
	var e *negotiate.Error
	switch {
	case errors.Is(err, negotiate.ErrNotRunning):
		fmt.Println("install CSI Proxy on this node")
		return
	case errors.Is(err, negotiate.ErrTooOld) && errors.As(err, &e):
		fmt.Println("upgrade CSI Proxy: it serves", e.Serves)
		return
	case errors.Is(err, negotiate.ErrAccessDenied):
		fmt.Println("run the driver as an account that may open the pipe")
		return
	case err != nil:
		fmt.Println(err)
		return
	}
	defer conn.Close()

	var rescan func(context.Context) error
	switch conn.Version {
	case diskv1.Version:
		c := v1.NewDiskClient(conn)
		rescan = func(ctx context.Context) error { _, err := c.Rescan(ctx, &v1.RescanRequest{}); return err }
	case diskv1beta2.Version:
		c := v1beta2.NewDiskClient(conn)
		rescan = func(ctx context.Context) error { _, err := c.Rescan(ctx, &v1beta2.RescanRequest{}); return err }
	}
	fmt.Println(conn, rescan(context.Background()))

	// Output: install CSI Proxy on this node
}
