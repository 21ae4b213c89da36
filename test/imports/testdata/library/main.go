// Command driver is a driver in a HostProcess container.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	filesystemapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/smb"
	smbapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/smb/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/volume"
	volumeapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/volume/hostapi"
)

func main() {
	ctx := context.Background()
	d, err := disk.New(diskapi.New())
	if err == nil {
		_, err = d.Rescan(ctx, &disk.RescanRequest{})
	}
	v, _ := volume.New(volumeapi.New())
	f, _ := filesystem.New(filesystemapi.New())
	s, _ := smb.New(smbapi.New(), f)
	if err != nil {
		fmt.Fprintln(os.Stderr, v, f, s, err)
		os.Exit(1)
	}
}
