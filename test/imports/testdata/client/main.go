// Command driver is a driver that uses pipes.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
)

func main() {
	c, err := disk.NewClient()
	if err == nil {
		_, err = c.Rescan(context.Background(), &v1.RescanRequest{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
