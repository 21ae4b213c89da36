// Package client is the Go client of CSI Proxy, the service that does the
// privileged work of CSI drivers on a Windows node.
//
// Drivers use the packages below groups, one for each group and version:
//
//	c, err := disk.NewClient() // of client/groups/disk/v1
//	if err != nil {
//		return err // nobody serves that version on this node
//	}
//	defer c.Close()
//	disks, err := c.ListDiskIDs(ctx, &v1.ListDiskIDsRequest{})
//
// A driver that speaks several versions, or may start before the proxy, asks
// package negotiate. The messages are below api, and package pipe tells where the pipes are. The
// module also works on other systems, where unix sockets take the place of
// pipes and serve a simulated node.
package client

import (
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// PipePath returns the path of the named pipe at which a version of an API
// group is served, such as
//
//	\\.\\pipe\\csi-proxy-disk-v1
//
// The doubled separators are as they have always been returned. Windows takes
// the path for \\.\pipe\csi-proxy-disk-v1, but a comparison or a mount must
// not expect that text. The path is the same on every system: see package pipe
// for what the others make of it.
func PipePath(apiGroupName string, apiVersion apiversion.Version) string {
	return pipe.Path("csi-proxy-" + apiGroupName + "-" + apiVersion.String())
}
