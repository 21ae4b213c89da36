// Package client is the Go client of CSI Proxy, the service that performs
// privileged operations for CSI drivers on a Windows node.
//
// Drivers use the packages below groups, one for each group and version:
//
//	c, err := disk.NewClient() // imports client/groups/disk/v1
//	if err != nil {
//		return err // this version is not served on this node
//	}
//	defer c.Close()
//	disks, err := c.ListDiskIDs(ctx, &v1.ListDiskIDsRequest{})
//
// A driver that supports several versions, or that may start before the proxy,
// uses package negotiate. The messages are below api. Package pipe defines the
// paths of the pipes. On systems other than Windows the module uses unix sockets
// instead of pipes, and the proxy serves a simulated node.
package client

import (
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
)

// PipePath returns the path of the named pipe that serves a version of an API
// group, such as
//
//	\\.\\pipe\\csi-proxy-disk-v1
//
// The separators are doubled, as in all published versions. Windows treats the
// path as \\.\pipe\csi-proxy-disk-v1, but the text differs, which matters for
// comparisons and mounts. The path is the same on every system; package pipe maps
// it to a unix socket where there are no pipes.
func PipePath(apiGroupName string, apiVersion apiversion.Version) string {
	return pipe.Path("csi-proxy-" + apiGroupName + "-" + apiVersion.String())
}
