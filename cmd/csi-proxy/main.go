// Command csi-proxy performs privileged operations for CSI drivers on a Windows node, so
// that the drivers need no privileges. It serves every version of the API on its own
// named pipe.
//
// It needs Windows. Command csi-proxy-sim serves a simulated node on any system.
package main

import (
	"context"
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/windowshost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

// run runs the daemon, or the child process in which a daemon formats a volume.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == node.FormatHelper {
		return node.RunFormatHelper(args[1:], stdin, stdout)
	}
	return daemon.Run(ctx, windowshost.Program(version), args, stderr)
}
