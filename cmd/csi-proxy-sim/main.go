// Command csi-proxy-sim is csi-proxy with a simulated node, for tests of CSI drivers
// without a Windows node. It serves the same API on the same pipes, or on unix sockets on
// other systems. It also serves the control service that csi-proxyctl node uses to change
// the simulated node.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/simhost"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && strings.TrimLeft(args[0], "-") == "version" {
		fmt.Fprintln(stdout, version)
		return 0
	}
	program := simhost.Program(version)
	if code, ok := daemon.Config(program, args, stdout, stderr); ok {
		return code
	}
	return daemon.Run(ctx, program, args, stderr)
}
