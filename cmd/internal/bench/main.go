// Command bench measures the daemon against its transport and prints one table. Each
// figure is of the same round and machine as that of a bare gRPC server on the same kind
// of pipe, which answers the same messages, because only ratios can be compared between
// machines. docs/run/performance.md explains the table.
//
// `make bench` runs it on this machine and, if there is a Wine, as a Windows program.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/dllsearch"
)

func main() {
	dllsearch.Main(func() int { return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[0] == "serve" {
		return serve(ctx, args[1], args[2:], stdin, stdout, stderr)
	}
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 7, "how often each server is measured; the table has medians")
	f.DurationVar(&o.time, "time", 300*time.Millisecond, "how long each number of callers calls in a round")
	f.IntVar(&o.calls, "calls", 100_000, "calls after which the memory is read, and again after as many; 0 leaves the memory out")
	f.IntVar(&o.burst, "burst", 1000, "connections that are opened at once before the memory is read again")
	f.StringVar(&o.exe, "exe", "", "program whose size is printed")
	f.StringVar(&o.profile, "profile", "", "`file` for a CPU profile of the last server that is measured")
	f.StringVar(&o.other, "other", "", "another program that serves the pipes, such as a csi-proxy.exe of another project, to be measured as \"other\"")
	servers := f.String("servers", strings.Join(kinds(), ","), "what is measured: "+strings.Join(kinds(), ", "))
	if err := f.Parse(args); err != nil {
		return 2
	}
	o.servers = strings.Split(*servers, ",")
	if o.other != "" {
		o.servers = append(o.servers, otherServer)
	}
	if err := bench(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}
