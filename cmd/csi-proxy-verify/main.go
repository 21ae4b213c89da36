// Command csi-proxy-verify asks a real Windows what nothing else can answer: whether it
// behaves as CSI Proxy expects. It uses virtual disks of its own and writes one report.
// With -simulated it asks a simulated node, on any system.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/verify"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && strings.TrimLeft(args[0], "-") == "version" {
		fmt.Fprintln(stdout, version)
		return 0
	}
	return verify.Run(ctx, version, args, stdin, stdout, stderr)
}
