// Command csi-proxy does the privileged work of CSI drivers on a Windows node,
// so that the drivers need no privileges of their own. It serves every version
// of the API on a named pipe.
//
// Elsewhere than on Windows it serves a simulated node on unix sockets.
package main

import (
	"context"
	"io"
	"os"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, _ io.Reader, _, stderr io.Writer) int {
	return daemon.Run(ctx, version, args, stderr)
}
