// Command csi-proxyctl shows what the CSI Proxy of this node serves, calls any method
// of any version of its API, and finds problems of the node. It also controls a
// simulated node.
//
//	csi-proxyctl versions
//	csi-proxyctl disk list
//	csi-proxyctl call disk/v1 GetDiskState '{"disk_number": 1}'
package main

import (
	"context"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}
