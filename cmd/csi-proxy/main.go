// Command csi-proxy performs privileged operations for CSI drivers on a Windows node, so
// that the drivers need no privileges. It serves every version of the API on its own
// named pipe.
//
// It needs Windows. Command csi-proxy-sim serves a simulated node on any system.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/install"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/windowshost"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
)

// version is set by the linker: -ldflags "-X main.version=v2.0.0".
var version = "Unknown"

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

// run runs the daemon, a verb, or the child process in which a daemon formats a volume.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	program := windowshost.Program(version)
	program.Verbs = install.Usage() + "  csi-proxy config check [-config=FILE] [FLAGS]   print the settings, or what is wrong with them\n  csi-proxy version    print the version\n\nWithout a verb it serves. Flags:\n"
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && !isVersion(args[0]) {
		return daemon.Run(ctx, program, args, stderr)
	}
	if args[0] == node.FormatHelper {
		return node.RunFormatHelper(args[1:], stdin, stdout)
	}
	if isVersion(args[0]) {
		fmt.Fprintln(stdout, version)
		return 0
	}
	if code, ok := daemon.Config(program, args, stdout, stderr); ok {
		return code
	}
	pipes := func(flags []string) ([]string, error) { return daemon.Pipes(windowshost.Program(version), flags) }
	if code, ok := install.Run(install.Program{Version: version, Pipes: pipes}, args, stdout, stderr); ok {
		return code
	}
	fmt.Fprintf(stderr, "csi-proxy: unknown verb %q; csi-proxy -h lists the verbs\n", args[0])
	return 2
}

func isVersion(arg string) bool { return strings.TrimLeft(arg, "-") == "version" }
