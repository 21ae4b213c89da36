// Command csi-proxy does the privileged work of CSI drivers on a Windows node,
// so that the drivers need no privileges of their own. It serves every version
// of the API on a named pipe.
//
// It needs Windows. Command csi-proxy-sim is the same daemon over a simulated
// node, on any system.
package main

import (
	"context"
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/windowshost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the daemon, or the child process in which a daemon formats a volume.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == node.FormatHelper {
		return node.RunFormatHelper(args[1:], stdin, stdout)
	}
	return daemon.Run(ctx, windowshost.Program(version), args, stderr)
}
